package proxy

import (
	"errors"
	"net/http"
)

// errTooLarge ends a body that is longer than its route takes.
var errTooLarge = errors.New("the body is longer than max_body")

var bodyTooLarge = problem{status: http.StatusRequestEntityTooLarge, detail: "The request body is longer than this route takes."}

// bodyFits answers a body that says it is longer than its route takes: before
// any rule is asked and before the client is told to go on, so it costs nothing.
// One that does not say how long it is is cut when it has become too long: the
// upstream sees it break off, and the client gets the same answer unless there
// is one already.
func (x *exchange) bodyFits() bool {
	most := x.plan.MaxBody
	switch {
	case most == 0 || x.body == nil:
	case x.r.ContentLength > most:
		x.fail(bodyTooLarge)
		return false
	default:
		x.body.most = most
	}
	return true
}
