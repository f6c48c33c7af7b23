package replay

import "sync/atomic"

// page is a row of Records and their texts. Tens of thousands of lines are read
// between a line's being read and its being decided, so it has left the caches by
// then; memory that is used in one direction comes back without a wait.
type page struct {
	records []Record
	used    int
	texts   []byte
	more    []Details    // of each record, once one of them has some
	none    Details      // of those that have none
	size    int          // of the texts of the record that was read last
	out     atomic.Int32 // records that have not been given back
}

const (
	pageRecords = 512
	fewTexts    = 16 << 10 // bytes that a page has for texts at first
	mostTexts   = 1 << 20  // and keeps for the next lines: one odd line must not make it big for ever
)

func newPage() *page { return newPageOf(pageRecords) }

func newPageOf(records int) *page {
	p := &page{records: make([]Record, records), texts: make([]byte, 0, fewTexts), none: Details{Duration: -1}}
	p.again()
	return p
}

// again makes a page ready whose records have all been given back.
func (p *page) again() {
	p.used = 0
	p.out.Store(int32(len(p.records)))
	if cap(p.texts) > mostTexts {
		p.texts = make([]byte, 0, fewTexts)
	}
	p.texts = p.texts[:0]
}

// read reads a line, which stays as it is and may be overwritten afterwards, into
// the next Record of p. That is free again until take takes it.
func (p *page) read(f *Format, line []byte, c *reading) (*Record, error) {
	r := &p.records[p.used]
	*r = Record{Count: 1, Details: &p.none, page: p}
	p.size = 0
	if f.plain {
		if err := f.parse(line, r, c); err != nil {
			return nil, err
		}
		p.keep(r)
	} else {
		line = p.copied(line)
		if err := f.parse(line, r, c); err != nil {
			p.texts = p.texts[:len(p.texts)-len(line)]
			return nil, err
		}
	}
	return r, nil
}

// details returns empty Details for the record that is being read.
func (p *page) details() *Details {
	if p.more == nil {
		p.more = make([]Details, len(p.records))
	}
	d := &p.more[p.used]
	*d = Details{Duration: -1, headers: d.headers[:0], answers: d.answers[:0], own: d.own}
	return d
}

// take takes the Record that read has read.
func (p *page) take() { p.used++ }

// full says that p has no Record left.
func (p *page) full() bool { return p.used == len(p.records) }

// room makes room for a text of n bytes. Those so far stay where they are.
func (p *page) room(n int) {
	if cap(p.texts)-len(p.texts) < n {
		p.texts = make([]byte, 0, max(min(2*cap(p.texts), mostTexts), n))
	}
}

// copied returns a copy of b that lasts as long as the records of p.
func (p *page) copied(b []byte) []byte {
	p.room(len(b))
	n := len(p.texts)
	p.texts = append(p.texts, b...)
	p.size += len(b)
	return p.texts[n:]
}

// keep makes the texts of r last as long as the records of p.
func (p *page) keep(r *Record) {
	if known := methodText(r.Method); known != "" {
		r.Method = known
	} else {
		p.keepText(&r.Method)
	}
	p.keepText(&r.Target)
	p.keepText(&r.Host)
	if r.Details == &p.none {
		return
	}
	p.keepText(&r.Forwarded)
	p.keepText(&r.User)
	for i := range r.headers {
		p.keepText(&r.headers[i].value)
	}
	for i := range r.answers {
		p.keepText(&r.answers[i].value)
	}
}

func (p *page) keepText(s *string) {
	if *s == "" {
		return
	}
	p.room(len(*s))
	n := len(p.texts)
	p.texts = append(p.texts, *s...)
	p.size += len(*s)
	*s = text(p.texts[n:])
}

// methodText returns the method of that name out of a line, if it is a usual one.
func methodText(s string) string {
	switch s {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "HEAD":
		return "HEAD"
	case "PUT":
		return "PUT"
	case "DELETE":
		return "DELETE"
	case "OPTIONS":
		return "OPTIONS"
	case "PATCH":
		return "PATCH"
	}
	return ""
}
