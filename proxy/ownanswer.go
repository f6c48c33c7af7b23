package proxy

import "gateway/rules"

// answerItself answers a route that leads to no upstream. For the rules it is an
// answer like an upstream's: what they count, they count.
func (x *exchange) answerItself() {
	a := rules.Respond{}
	h := x.w.Header()
	if to := x.plan.Redirect; to != nil {
		h.Set("Location", x.plan.Location(&x.facts, x.path))
		a.Status = to.Status
	} else {
		a = *x.plan.Respond
	}
	x.answer.Status, x.answer.Header = a.Status, h
	var contentType []string
	if a.ContentType != "" {
		contentType = []string{a.ContentType}
	}
	x.buf = append(x.buf[:0], a.Body...)
	x.write(a.Status, contentType, x.buf)
}
