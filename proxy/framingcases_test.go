package proxy

import (
	"fmt"
	"strings"
)

// hidden is a request behind another, for those who read its end wrong.
const hidden = "GET /hidden HTTP/1.1\r\nHost: api.example.com\r\n\r\n"

// seen is one that is rightly a second request.
const seen = "GET /second HTTP/1.1\r\nHost: api.example.com\r\n\r\n"

// lengthCases are odd Content-Length fields.
var lengthCases = []framing{
	{"length with a plus", post + "Content-Length: +5\r\n\r\nhello", []int{400}},
	{"length negative", post + "Content-Length: -5\r\n\r\nhello", []int{400}},
	{"length list same", post + "Content-Length: 5, 5\r\n\r\nhello", []int{400}},
	{"length list differs", post + "Content-Length: 5, 6\r\n\r\nhello" + hidden, []int{400}},
	{"length twice same", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", []int{200, 400}},
	{"length twice differs", post + "Content-Length: 5\r\nContent-Length: 56\r\n\r\nhello" + hidden, []int{400}},
	{"length twice differs by a zero", post + "Content-Length: 5\r\nContent-Length: 05\r\n\r\nhello", []int{200, 400}},
	{"length empty", post + "Content-Length:\r\n\r\n", []int{200, 400}},
	{"length blank", post + "Content-Length:  \r\n\r\n", []int{200, 400}},
	{"length hexadecimal", post + "Content-Length: 0x5\r\n\r\nhello", []int{400}},
	{"length with letters", post + "Content-Length: 5a\r\n\r\nhello", []int{400}},
	{"length two to the 64 and five", post + "Content-Length: 18446744073709551621\r\n\r\nhello", []int{400}},
	{"length with an exponent", post + "Content-Length: 5e0\r\n\r\nhello", []int{400}},
	{"length with an underscore", post + "Content-Length: 0_5\r\n\r\nhello", []int{400}},
	{"length fractional", post + "Content-Length: 5.0\r\n\r\nhello", []int{400}},
	{"length with inner space", post + "Content-Length: 5 5\r\n\r\nhello", []int{400}},
	{"length under an alias", post + "Content_Length: 56\r\n\r\n" + seen, []int{200}},
	{"length with a leading zero is ten", post + "Content-Length: 010\r\n\r\n0123456789", []int{200, 400}},
	{"length of a GET", get + "Content-Length: 5\r\n\r\nhello", []int{200}},
	{"length short", post + "Content-Length: 500\r\n\r\nhello", []int{408}},
	{"length zero and a second request", post + "Content-Length: 0\r\n\r\n" + seen, []int{200}},
	{"length with a comma behind it", post + "Content-Length: 5,\r\n\r\nhello", []int{400}},
	{"length of wide digits", post + "Content-Length: \xef\xbc\x95\r\n\r\nhello", []int{400}},
	{"length minus zero", post + "Content-Length: -0\r\n\r\n" + hidden, []int{400}},
	{"length twice in two cases", post + "content-length: 5\r\nCONTENT-LENGTH: 56\r\n\r\nhello" + hidden, []int{400}},
	{"length two to the 63", post + "Content-Length: 9223372036854775808\r\n\r\nhello", []int{400}},
	{"length as long as can be", post + "Content-Length: 9223372036854775807\r\n\r\nhello", []int{400, 408}},
	{"length behind a vertical tab", post + "Content-Length: \v5\r\n\r\nhello", []int{400}},
	{"length with a tab around it", post + "Content-Length:\t5\t\r\n\r\nhello", []int{200, 400}},
	{"length on a folded line", post + "Content-Length:\r\n 5\r\n\r\nhello", []int{200, 400}},
	{"length with a NUL in its name", post + "Content-Length\x00: 5\r\n\r\nhello", []int{400}},
}

// codingCases are odd Transfer-Encoding fields.
var codingCases = []framing{
	{"coding and length", post + "Content-Length: 56\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + seen, []int{200, 400}},
	{"length and coding", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + seen, []int{200, 400}},
	{"coding unknown", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, []int{501}},
	{"coding gzip then chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []int{501}},
	{"coding identity then chunked", post + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", []int{501}},
	{"coding identity", post + "Transfer-Encoding: identity\r\n\r\n" + hidden, []int{501}},
	{"coding twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400, 501}},
	{"coding twice and another", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", []int{400, 501}},
	{"coding with a leading comma", post + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", []int{501}},
	{"coding with a non-breaking space", post + "Transfer-Encoding: \xa0chunked\r\n\r\n0\r\n\r\n", []int{400, 501}},
	{"coding with a vertical tab", post + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", []int{400, 501}},
	{"coding quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", []int{501}},
	{"coding empty", post + "Transfer-Encoding:\r\n\r\n", []int{400, 501}},
	{"coding in capitals", post + "TRANSFER-ENCODING: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"coding with a space before the colon", post + "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
	{"coding on a folded line", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", []int{200, 400, 501}},
	{"coding under an alias", post + "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{200}},
	{"coding in HTTP/1.0", "POST /first HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200, 400, 501, 505}},
	{"coding behind a NUL", post + "Transfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", []int{400}},
	{"coding chunked twice in a list", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + hidden, []int{400, 501}},
	{"coding with a parameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" + hidden, []int{400, 501}},
	{"coding behind a tab", post + "Transfer-Encoding:\tchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"coding with a form feed", post + "Transfer-Encoding: chunked\f\r\n\r\n0\r\n\r\n" + hidden, []int{400, 501}},
	{"coding behind a line feed in a value", post + "X-A: a\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200, 400}},
	{"coding behind a bare CR in a value", post + "X-A: a\rTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", []int{400}},
	{"coding in chunks, shorter by its length", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden), []int{200, 400}},
	{"coding unknown and a length", post + "Transfer-Encoding: x\r\nContent-Length: 5\r\n\r\nhello", []int{400, 501}},
	{"coding of a GET, unknown", get + "Transfer-Encoding: x\r\n\r\n" + hidden, []int{400, 501}},
}

// chunkCases are odd chunks: once the head is good they are the body's fault.
var chunkCases = chunked([]framing{
	{"size not hexadecimal", "zz\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size with a prefix", "0x5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size negative", "-5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size with a plus", "+5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size with an underscore", "0_5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size empty", "\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size of 17 digits", "10000000000000005\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size of 16 digits", "7fffffffffffffff\r\nhello\r\n0\r\n\r\n", []int{400, 408}},
	{"size ended by a line feed", "5\nhello\r\n0\r\n\r\n", []int{400}},
	{"size behind spaces", "   5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size before spaces", "5  \r\nhello\r\n0\r\n\r\n", []int{200, 400}},
	{"extension", "5;a=b\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"extension of 5000 bytes", "5;" + strings.Repeat("x", 5000) + "\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"extensions past all measure", strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\nx\r\n", 400) + "0\r\n\r\n", []int{400}},
	{"extension with a line feed", "5;a\nb\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"carriage returns in the extension", "5\r\r;\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"too long for its size", "5\r\nhelloX\r\n0\r\n\r\n", []int{400}},
	{"no end of line behind it", "5\r\nhello0\r\n\r\n", []int{400}},
	{"a line feed behind it", "5\r\nhello\n0\r\n\r\n", []int{400}},
	{"last one with leading zeros", "5\r\nhello\r\n000\r\n\r\n", []int{200}},
	{"no last one", "5\r\nhello\r\n", []int{408}},
	{"half a size", "5", []int{408}},
	{"half an end", "5\r\nhello\r\n0\r\n", []int{408}},
	{"trailers", "5\r\nhello\r\n0\r\nX-Api-Key: t\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n", []int{200}},
	{"trailers that frame", "5\r\nhello\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n", []int{200, 400}},
	{"trailers without a colon", "5\r\nhello\r\n0\r\nnonsense\r\n\r\n", []int{400}},
	{"a request behind the last", "5\r\nhello\r\n0\r\n\r\n" + seen, []int{200}},
	{"size before a CR alone", "5\rhello\r0\r\r", []int{400, 408}},
	{"size with leading zeros", "00005\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"size of more zeros than can be", strings.Repeat("0", 5000) + "5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"size behind a NUL", "\x005\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"extension with a NUL", "5;\x00\r\nhello\r\n0\r\n\r\n", []int{200, 400}},
	{"extension of the last", "5\r\nhello\r\n0;a=b\r\n\r\n", []int{200}},
	{"last one and no empty line", "5\r\nhello\r\n0\r\n" + hidden, []int{400, 408}},
	{"size of two to the 64 and five", "10000000000000005;\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"trailers with a NUL", "5\r\nhello\r\n0\r\nX-A: a\x00b\r\n\r\n", []int{400}},
	{"trailers with a space before the colon", "5\r\nhello\r\n0\r\nX-A : a\r\n\r\n", []int{200, 400}}, // they go nowhere
	{"trailers without an end", "5\r\nhello\r\n0\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 200), []int{400, 408}},
})

func chunked(bodies []framing) []framing {
	for i := range bodies {
		bodies[i].name = "chunk " + bodies[i].name
		bodies[i].text = post + "Transfer-Encoding: chunked\r\n\r\n" + bodies[i].text
	}
	return bodies
}

var expectCases = []framing{
	{"expect nonsense", post + "Expect: nonsense\r\nContent-Length: 5\r\n\r\nhello", []int{417}},
	{"expect twice", post + "Expect: 100-continue\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", []int{417}},
	{"expect a list", post + "Expect: 100-continue, x\r\nContent-Length: 5\r\n\r\nhello", []int{417}},
	{"expect of a GET", get + "Expect: 100-continue\r\n\r\n", []int{200}},
	{"expect empty", get + "Expect:\r\n\r\n", []int{200, 417}},
	{"expect and no body comes", post + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", []int{408}},
	{"expect in capitals", post + "EXPECT: 100-CONTINUE\r\nContent-Length: 5\r\n\r\nhello", []int{200}},
	{"expect of chunks", post + "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"expect with a word before", post + "Expect: y 100-continue\r\nContent-Length: 5\r\n\r\nhello", []int{417}},
	{"expect nonsense, and a bad chunk", post + "Expect: nonsense\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + hidden, []int{417}},
}

// headerCases are fields that are none.
var headerCases = []framing{
	{"name empty", get + ": x\r\n\r\n", []int{400}},
	{"space before the colon", get + "X-A : x\r\n\r\n", []int{400}},
	{"name with a NUL", get + "X-\x00A: x\r\n\r\n", []int{400}},
	{"name beyond ASCII", get + "X-\x85: x\r\n\r\n", []int{400}},
	{"name with a bracket", get + "X(A): x\r\n\r\n", []int{400}},
	{"value with a NUL", get + "X-A: a\x00b\r\n\r\n", []int{400}},
	{"value with a bare CR", get + "X-A: a\rb\r\n\r\n", []int{400}},
	{"value with an escape", get + "X-A: a\x1bb\r\n\r\n", []int{400}},
	{"value beyond ASCII", get + "X-A: caf\xc3\xa9 \xff\r\n\r\n", []int{200}},
	{"no colon", get + "nonsense\r\n\r\n", []int{400}},
	{"first line begins with a space", "GET /first HTTP/1.1\r\n Host: api.example.com\r\n\r\n", []int{400}},
	{"folded", get + "X-A: a\r\n b\r\n\r\n", []int{200, 400}},
	{"line feeds alone", "GET /first HTTP/1.1\nHost: api.example.com\n\n", []int{200, 400}},
	{"an empty line first", "\r\n" + get + "\r\n", []int{200, 400}},
	{"two hosts", get + "Host: other\r\n\r\n", []int{400}},
	{"no host", "GET /first HTTP/1.1\r\n\r\n", []int{400}},
	{"version with letters", "GET /first HTTP/x.y\r\nHost: a\r\n\r\n", []int{400}},
	{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
	{"half a preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", []int{400}},
	{"half a head", get + "X-A: ", []int{0, 408}},
	{"host with a space before the colon", "GET /first HTTP/1.1\r\nHost : api.example.com\r\n\r\n", []int{400}},
	{"host twice in two cases", "GET /first HTTP/1.1\r\nhost: a\r\nHOST: a\r\n\r\n", []int{400}},
	{"name with a tab", get + "X\tA: x\r\n\r\n", []int{400}},
	{"name behind a tab", get + "\tX-A: x\r\n\r\n", []int{200, 400}},
	{"a line of a CR", get + "\r\r\n\r\n", []int{400}},
	{"value with a delete", get + "X-A: a\x7fb\r\n\r\n", []int{400}},
	{"tabs in the first line", "GET\t/first\tHTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"a third word in the first line", "GET /first HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"version in small letters", "GET /first http/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"version 1.10", "GET /first HTTP/1.10\r\nHost: a\r\n\r\n", []int{400}},
	{"version 2.0", "GET /first HTTP/2.0\r\nHost: a\r\n\r\n", []int{400, 505}},
	{"a CR in the target", "GET /fir\rst HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"absolute target and another host", "GET http://api.example.com/first HTTP/1.1\r\nHost: other\r\n\r\n", []int{200}},
	{"target with a fragment", "GET /first#/../second HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"query with a fragment", "GET /first?a#b HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target of a host and a port", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target of a scheme and a path", "GET x:/first HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target of a scheme and a path, a URL behind it", "GET x:/first?u=http://a/hidden HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target of a URL without a host", "GET http:///first HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target of a URL without a host, but a query", "GET http://?u=a/hidden HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
	{"target without a slash", "GET first HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
}

var bodyCases = []framing{
	{"body of a HEAD-like GET", get + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"body behind a refused head", "GET /%00 HTTP/1.1\r\nHost: a\r\nContent-Length: 47\r\n\r\n" + hidden, []int{400}},
	{"body behind a refused head, chunked", "POST /%zz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"websocket with a body", get + "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 47\r\n\r\n" + hidden, []int{400}},
}
