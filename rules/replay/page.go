package replay

import (
	"sync/atomic"
	"unsafe"
)

// page is a row of Records of one file, and their texts. Tens of thousands of lines
// are read between a line's being read and its being decided, so it has left the
// caches by then; memory that is used in one direction comes back without a wait.
type page struct {
	records []Record
	used    int
	file    *File
	format  *Format // of the file, which is written to with each line
	texts   []byte
	more    []Details    // of each record, once one of them has some
	none    Details      // of those that have none
	size    int          // of what the record takes that was read last, beside itself
	held    int          // the same, of all
	out     atomic.Int32 // records that have not been given back
}

const (
	pageRecords = 512
	fewTexts    = 16 << 10 // bytes that a page has for texts at first
	mostTexts   = 1 << 20  // and at most, but for its last line
)

func newPage() *page { return newPageOf(pageRecords) }

func newPageOf(records int) *page {
	p := &page{records: make([]Record, records), texts: make([]byte, 0, fewTexts)}
	p.none = Details{Duration: -1, Count: 1, page: p}
	p.begin(nil)
	return p
}

// begin makes p ready for lines of a file; all its records have been given back.
func (p *page) begin(f *File) {
	if p.held > mostTexts { // odd lines must not make it big for ever
		clear(p.records)
		p.texts, p.more = make([]byte, 0, fewTexts), nil
	}
	if p.file = f; f != nil {
		p.format = f.Format
	}
	p.used, p.held, p.texts = 0, 0, p.texts[:0]
	p.out.Store(int32(len(p.records)))
}

// end says that p gets no more records, and reports whether all that it got have been
// given back already.
func (p *page) end() (free bool) { return p.givenBack(len(p.records) - p.used) }

// givenBack notes that n records have been given back, and reports whether these are
// the last of all.
func (p *page) givenBack(n int) (free bool) { return n > 0 && p.out.Add(-int32(n)) == 0 }

// read reads a line, which stays as it is and may be overwritten afterwards, into
// the next Record of p. That is free again until take takes it.
func (p *page) read(f *Format, line []byte, c *reading) (*Record, error) {
	r := &p.records[p.used]
	*r = Record{Details: &p.none}
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
	if r.Details != &p.none {
		p.size += r.Details.bytes()
	}
	return r, nil
}

// bytes is what d takes for each part of its lists.
func (d *Details) bytes() int {
	n := (len(d.headers) + len(d.answers)) * int(unsafe.Sizeof(headerValue{}))
	if d.Own != nil {
		n += len(d.Own.Rules) * int(unsafe.Sizeof(OwnRule{}))
	}
	return n
}

// details returns empty Details for the record that is being read.
func (p *page) details() *Details {
	if p.more == nil {
		p.more = make([]Details, len(p.records))
	}
	d := &p.more[p.used]
	*d = Details{Duration: -1, Count: 1, headers: d.headers[:0], answers: d.answers[:0], own: d.own, page: p}
	return d
}

// take takes the Record that read has read.
func (p *page) take() {
	p.used++
	p.held += p.size
}

// full says that p has no room left.
func (p *page) full() bool { return p.used == len(p.records) || p.held > mostTexts }

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
	p.keepText(&r.Target)
	d := r.Details
	if d == &p.none {
		return
	}
	p.keepText(&d.Host)
	p.keepText(&d.method)
	p.keepText(&d.Forwarded)
	p.keepText(&d.User)
	for i := range d.headers {
		p.keepText(&d.headers[i].value)
	}
	for i := range d.answers {
		p.keepText(&d.answers[i].value)
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
