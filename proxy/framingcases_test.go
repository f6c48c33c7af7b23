package proxy

import "strings"

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
}

var bodyCases = []framing{
	{"body of a HEAD-like GET", get + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{200}},
	{"body behind a refused head", "GET /%00 HTTP/1.1\r\nHost: a\r\nContent-Length: 56\r\n\r\n" + hidden, []int{400}},
	{"body behind a refused head, chunked", "POST /%zz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", []int{400}},
	{"websocket with a body", get + "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 49\r\n\r\n" + hidden, []int{400}},
}
