package rules

import "bytes"

// maxDigits is the most digits of a number that is a key.
const maxDigits = 40

// appendNumber appends the number that a JSON text says, so that 1, 1.0, 10e-1
// and 1E0 are one. It reports false for one that is not whole, or has more than
// maxDigits digits: servers round such numbers in different ways, and so a
// client could write one of theirs in many.
func appendNumber(out, text []byte) ([]byte, bool) {
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	var exponent int
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		exponent = smallExponent(text[i+1:])
		text = text[:i]
	}
	whole, part, _ := bytes.Cut(text, []byte("."))
	// The digits are whole and part, one behind the other; the point stands behind
	// digit number point.
	digit := func(i int) byte {
		if i < len(whole) {
			return whole[i]
		}
		return part[i-len(whole)]
	}
	first, last := 0, len(whole)+len(part)
	point := len(whole) + exponent
	for first < last && digit(first) == '0' {
		first++
	}
	for last > first && digit(last-1) == '0' {
		last--
	}
	if first == last {
		return append(out, '0'), true
	}
	if last > point || point-first > maxDigits {
		return out, false
	}
	if negative {
		out = append(out, '-')
	}
	for i := first; i < point; i++ {
		if i < last {
			out = append(out, digit(i))
		} else {
			out = append(out, '0')
		}
	}
	return out, true
}

// smallExponent reads an exponent. One that is larger than any body is long says
// no more than that it is.
func smallExponent(text []byte) int {
	const large = 1 << 40
	n, negative := 0, false
	for _, c := range text {
		switch c {
		case '-':
			negative = true
		case '+':
		default:
			n = min(n*10+int(c-'0'), large)
		}
	}
	if negative {
		return -n
	}
	return n
}
