package rules

import (
	"regexp"
	"sync"
)

// lazily returns what compiles a regular expression when it is first wanted. A file
// needs few of ours, and compiled they would take more memory than it does itself.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
