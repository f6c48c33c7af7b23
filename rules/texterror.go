package rules

import "fmt"

// TextError says what is wrong in a piece of the file's text: a pattern, an attribute, an address. It knows no line;
// the reader of the file adds where the text stands.
type TextError struct {
	Off  int    // byte offset of the wrong part in the text
	Len  int    // its length in bytes; 0 where something is missing
	Msg  string // what is wrong
	Hint string // what to write instead; may be empty
}

// Error returns the message and, where there is one, the hint.
func (e *TextError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

// textErrorf returns an error about no part of the text.
func textErrorf(format string, args ...any) *TextError {
	return &TextError{Msg: fmt.Sprintf(format, args...)}
}
