package replay

// methodCode stands for a method that is usual; 0 for none, or one that is not.
type methodCode uint8

var usualMethods = [...]string{"", "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}

// codeOf returns the code of a method, or 0.
func codeOf(method string) methodCode {
	switch method {
	case "GET":
		return 1
	case "POST":
		return 2
	case "HEAD":
		return 3
	case "PUT":
		return 4
	case "DELETE":
		return 5
	case "OPTIONS":
		return 6
	case "PATCH":
		return 7
	}
	return 0
}

// Method returns the method in the client's words, "" for none.
func (r *Record) Method() string {
	if r.method > 0 {
		return usualMethods[r.method]
	}
	return r.Details.method
}

// setMethod sets the method to b, a part of the line.
func (r *Record) setMethod(b []byte) {
	if r.method = codeOf(text(b)); r.method == 0 && len(b) > 0 {
		r.more().method = text(b)
	}
}
