package replay

import "bytes"

// clfItems is how many fields clfHead reads: address, identity, user, time, request
// and status.
const clfItems = 6

// beginsCLF reports whether lines of p begin as those of nginx and Apache do.
func (p *pattern) beginsCLF() bool {
	want := [clfItems]struct {
		kind          fieldKind
		before, after string
	}{
		{fieldClient, "", " "}, {fieldSkip, " ", " "}, {fieldUser, " ", " ["}, {fieldCLFTime, " [", `] "`}, {fieldRequest, `] "`, `" `}, {fieldStatus, `" `, " "},
	}
	if len(p.items) <= clfItems {
		return false
	}
	for i, w := range want {
		if it := &p.items[i]; it.kind != w.kind || it.before != w.before || it.after != w.after {
			return false
		}
	}
	return true
}

// endsCombined reports whether what follows the status is a number of bytes and two
// quoted texts that nobody wants.
func (p *pattern) endsCombined() bool {
	want := []struct {
		kind          fieldKind
		before, after string
	}{
		{fieldNumber, " ", ` "`}, {fieldSkip, ` "`, `" "`}, {fieldSkip, `" "`, `"`},
	}
	if len(p.items) != clfItems+len(want) || p.tail != `"` {
		return false
	}
	for i, w := range want {
		if it := &p.items[clfItems+i]; it.kind != w.kind || it.before != w.before || it.after != w.after {
			return false
		}
	}
	return true
}

// combinedTail reports whether b is what such lines end with, ` 512 "-" "curl/8"`; more may
// follow behind it with loose. Of an odd one it says false, and the pattern has the word.
func combinedTail(b []byte, loose bool) bool {
	i := 1
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == 1 || i > 19 || len(b)-i < len(` "" ""`) || b[i] != ' ' || b[i+1] != '"' {
		return false
	}
	b = b[i+2:]
	n := bytes.IndexByte(b, '"')
	if n < 0 || len(b)-n < len(`" "`) || b[n+1] != ' ' || b[n+2] != '"' || n > 0 && b[n-1] == '\\' {
		return false
	}
	b = b[n+3:]
	n = bytes.IndexByte(b, '"')
	return n >= 0 && (n == len(b)-1 || loose) && !(n > 0 && b[n-1] == '\\')
}

// clfHead reads what such lines begin with and returns how long that is: without
// the detours that an odd line needs, since nearly none is. For an odd one it returns
// 0, and whatever it has written into r is written again by the pattern.
func clfHead(b []byte, r *Record, c *reading) int {
	client, i, ok := leadingIPv4(b)
	if !ok || len(b)-i < len(` - - [02/Jan/2006:15:04:05 -0700] "- " 200 `) || string(b[i:i+6]) != " - - [" {
		return 0
	}
	i += 6
	at, err := clfTime(b[i:i+clfLen], &c.stamp)
	if i += clfLen; err != nil || string(b[i:i+3]) != `] "` {
		return 0
	}
	i += 3
	n := bytes.IndexByte(b[i:], '"')
	if n < 0 || bytes.IndexByte(b[i:i+n], '\\') >= 0 {
		return 0
	}
	request := b[i : i+n]
	i += n
	// `" 200 `
	if len(b)-i < 6 || b[i+1] != ' ' || b[i+5] != ' ' {
		return 0
	}
	status, ok := digits(b[i+2 : i+5])
	if !ok || status < 100 {
		return 0
	}
	r.Client, r.At, r.Status = client, at, int16(status)
	r.request(request)
	return i + 5
}
