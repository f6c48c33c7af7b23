package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// Options say how logs are to be read.
type Options struct {
	// Pattern is the format of the lines, in the words of nginx or Apache; "" finds
	// it out.
	Pattern string
	// Stdin is what the name "-" stands for.
	Stdin io.Reader
	// Headers and Answers are the canonical names of the headers of requests and of
	// answers that are kept.
	Headers, Answers []string
}

// Unread is a line that could not be read.
type Unread struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

// unreadShown is how many of the lines that could not be read are told.
const unreadShown = 5

// Reader reads logs, all merged by time. A goroutine reads ahead; Close ends it.
// Progress may be called at any time, everything else by one goroutine.
type Reader struct {
	files   []*File
	formats []*Format
	stdin   io.Reader
	wants   *wanted

	full  chan []*Record
	lists chan []*Record // that come back
	pages chan *page     // the same
	stop  chan struct{}
	done  chan struct{}

	bytes, lines atomic.Int64

	// For the goroutine that reads, until full is closed.
	uncounted int64
	unread    []Unread
	late      int64
	last      limit.Instant
	handing   int // bytes of the batch
}

// batch is how many records are handed over at once: so many that it hardly matters
// how long a goroutine takes to wake up. batchBytes is of their texts.
const (
	batch      = 1 << 11
	batchBytes = 4 << 20
)

// Open opens logs and finds out what they are. Its error says which file is the
// matter, and what to do.
func Open(names []string, o Options) (*Reader, error) {
	r := &Reader{
		stdin: o.Stdin, wants: newWanted(o.Headers, o.Answers), formats: newFormats(),
		full: make(chan []*Record, 2), lists: make(chan []*Record, 4), pages: make(chan *page, 4*batch/pageRecords),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	var given *Format
	if o.Pattern != "" {
		var err error
		if given, err = patternFormat(o.Pattern); err != nil {
			return nil, fmt.Errorf("--format: %w", err)
		}
	}
	for _, f := range append(r.formats, given) {
		if f != nil && f.pattern != nil {
			f.pattern.keepOnly(r.wants)
		}
	}
	for _, name := range names {
		f := &File{Name: name, Format: given}
		if err := r.begin(f); err != nil {
			r.shut()
			return nil, err
		}
		r.files = append(r.files, f)
	}
	r.bytes.Store(0)
	go r.run()
	return r, nil
}

// begin finds out what a file is and when it begins. What can be read only once
// stays open: the standard input, a pipe.
func (r *Reader) begin(f *File) error {
	in, err := f.open(r.stdin, &r.bytes)
	if err != nil {
		return err
	}
	sample := in.sample()
	format, read := f.Format, 0
	if format == nil {
		format, read = recognise(r.formats, sample, r.wants)
	} else {
		_, read = recognise([]*Format{format}, sample, r.wants)
	}
	switch {
	case read == 0 && in.err != nil && !errors.Is(in.err, io.EOF):
		in.close()
		return fmt.Errorf("%s cannot be read: %w", f.Name, in.err)
	case len(sample) == 0:
		in.close()
		f.Format = nil
		return nil // nothing in it
	case read == 0:
		in.close()
		return unknownFormat(f, format, sample, r.wants)
	}
	f.Format = format
	f.reading.wants = r.wants
	for _, line := range sample {
		if rec, err := newPageOf(1).read(format, line, &f.reading); err == nil {
			f.begin = rec.At
			break
		}
	}
	if f.once {
		f.in = in
		return nil
	}
	in.close()
	return nil
}

// unknownFormat is the error for a file of which no line can be read.
func unknownFormat(f *File, given *Format, sample [][]byte, w *wanted) error {
	line := sample[0]
	why := "no known format of access logs; describe it with --format"
	if isUTF16(line) {
		return fmt.Errorf("%s is UTF-16 text; turn it into UTF-8: iconv -f UTF-16 -t UTF-8 %s | gateway replay -", f.Name, f.Name)
	}
	for _, b := range sample {
		if slices.Contains(b, 0) {
			return fmt.Errorf("%s:1: binary data, no access log", f.Name)
		}
	}
	if given != nil {
		_, err := newPageOf(1).read(given, line, &reading{wants: w})
		why = "not what --format says: " + err.Error()
	}
	return fmt.Errorf("%s:1: %s: %s", f.Name, why, excerpt(line))
}

// isUTF16 reports whether text in UTF-16 begins as b does: with a byte-order mark, or
// with two letters of ASCII.
func isUTF16(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	return b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff ||
		b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0 || b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0
}

// excerpt returns the beginning of a line, fit for a terminal.
func excerpt(line []byte) string {
	const most = 80
	s := string(line[:min(len(line), most)])
	q := fmt.Sprintf("%q", s)
	if len(line) > most {
		q = q[:len(q)-1] + "…\""
	}
	return q
}

// Next returns the next records in the order of their instants, or io.EOF. Give
// them back with Free.
func (r *Reader) Next() ([]*Record, error) {
	if b, ok := <-r.full; ok {
		return b, nil
	}
	return nil, io.EOF
}

// Free gives back what Next returned.
func (r *Reader) Free(b []*Record) {
	for i := 0; i < len(b); {
		p, n := b[i].page, 0
		for ; i < len(b) && b[i].page == p; i++ {
			n++
		}
		if p.givenBack(n) {
			r.freed(p)
		}
	}
	select {
	case r.lists <- b:
	default:
	}
}

// Close ends the reading and closes all files.
func (r *Reader) Close() {
	close(r.stop)
	<-r.done
}

// Files returns the logs. Their figures are complete after io.EOF.
func (r *Reader) Files() []*File { return r.files }

// Unread returns the first lines that could not be read, after io.EOF.
func (r *Reader) Unread() []Unread { return r.unread }

// Late returns how many records came too late for their place in the order, after
// io.EOF.
func (r *Reader) Late() int64 { return r.late }

// Progress returns how many bytes and lines have been read, and how many bytes all
// files have; 0 if that is not known.
func (r *Reader) Progress() (bytes, lines, all int64) {
	for _, f := range r.files {
		if f.size == 0 {
			return r.bytes.Load(), r.lines.Load(), 0
		}
		all += f.size
	}
	return r.bytes.Load(), r.lines.Load(), all
}

func (r *Reader) shut() {
	for _, f := range r.files {
		if f.in != nil {
			f.in.close()
		}
	}
}

// run reads all files, always the one whose next line is the oldest.
func (r *Reader) run() {
	defer close(r.done)
	defer close(r.full)
	defer r.shut()
	var open []*source
	waiting := slices.DeleteFunc(slices.Clone(r.files), func(f *File) bool { return f.Format == nil })
	slices.SortStableFunc(waiting, func(a, b *File) int { return cmp.Compare(a.begin, b.begin) })
	o := newOrder()
	out := r.list()
	for len(open) > 0 || len(waiting) > 0 {
		for len(waiting) > 0 && (len(open) == 0 || waiting[0].begin <= oldest(open).next.at || waiting[0].in != nil) {
			if s := r.source(waiting[0]); s != nil {
				open = append(open, s)
			}
			waiting = waiting[1:]
		}
		if len(open) == 0 {
			continue
		}
		s := oldest(open)
		o.add(s.next)
		if s.next = r.read(s.file); s.next.rec == nil {
			open = slices.DeleteFunc(open, func(t *source) bool { return t == s })
		}
		if (o.len() > window || o.bytes > windowBytes) && !r.emit(&out, o.take()) {
			return
		}
	}
	for w := o.take(); w.rec != nil; w = o.take() {
		if !r.emit(&out, w) {
			return
		}
	}
	if len(out) > 0 {
		select {
		case r.full <- out:
		case <-r.stop:
		}
	}
}

// source is a file that is being read, with its next record.
type source struct {
	file *File
	next waiting
}

func oldest(open []*source) *source {
	first := open[0]
	for _, s := range open[1:] {
		if s.next.before(&first.next) {
			first = s
		}
	}
	return first
}

// source opens a file and reads its first record. It returns nil if there is none.
func (r *Reader) source(f *File) *source {
	if f.in == nil {
		var err error
		if f.in, err = f.open(r.stdin, &r.bytes); err != nil {
			f.Damage = err.Error()
			return nil
		}
	}
	next := r.read(f)
	if next.rec == nil {
		return nil
	}
	return &source{f, next}
}

// read returns the next record of a file, or none at its end.
func (r *Reader) read(f *File) waiting {
	for {
		line, whole, err := f.in.next()
		switch {
		case err == nil, errors.Is(err, errLong):
		default:
			if !errors.Is(err, io.EOF) {
				f.Damage = fmt.Sprintf("%s:%d: the file cannot be read any further: %v", f.Name, f.line+1, err)
			}
			f.in.close()
			f.in = nil
			r.left(f.page)
			f.page = nil
			return waiting{}
		}
		f.line++
		if len(line) == 0 {
			continue
		}
		f.Lines++
		if r.uncounted++; r.uncounted == batch {
			r.lines.Add(r.uncounted) // not of each, since that waits for all writes
			r.uncounted = 0
		}
		if err == nil {
			var rec *Record
			p := r.slot(f)
			if rec, err = p.read(f.Format, line, &f.reading); err == nil {
				err = rec.check(whole || !f.Format.openEnd)
			}
			if err == nil {
				if rec.Own != nil {
					rec.Own.Line = f.line
				}
				p.take()
				return waiting{rec.At, rec.Seq, p.size, rec}
			}
		}
		f.Unread++
		if len(r.unread) < unreadShown {
			r.unread = append(r.unread, Unread{f.Name, f.line, faultOf(f.Format, r.formats, line, err, !whole, r.wants)})
		}
	}
}

const (
	mostCount    = 100_000_000
	mostDuration = 366 * 24 * time.Hour
	lastInstant  = limit.Instant(7_258_118_400_000_000_000) // 2200
)

// check refuses what no log says that is in order. whole is false for a line that
// may have lost its end.
func (r *Record) check(whole bool) error {
	switch {
	case !whole:
		return errors.New("nothing tells where its last field ends")
	case r.At <= 0 || r.At >= lastInstant:
		return errTime
	case r.Duration > mostDuration:
		return errDuration
	case r.Status < 0 || r.Status > 999:
		return errStatus
	case r.Count < 0 || r.Count > mostCount:
		return errors.New("no count of requests")
	}
	return nil
}

// slot returns the page that the next record of a file goes to.
func (r *Reader) slot(f *File) *page {
	p := f.page
	if p != nil && !p.full() {
		return p
	}
	r.left(p)
	select {
	case p = <-r.pages:
	default:
		p = newPage()
	}
	p.begin(f)
	f.page = p
	return p
}

// left leaves a page, if there is one, to who has its records.
func (r *Reader) left(p *page) {
	if p != nil && p.end() {
		r.freed(p)
	}
}

// freed takes back a page whose records have all been given back.
func (r *Reader) freed(p *page) {
	select {
	case r.pages <- p:
	default: // more than ever come back at once; the collector takes it
	}
}

// list returns an empty list for records to be handed over.
func (r *Reader) list() []*Record {
	select {
	case b := <-r.lists:
		return b[:0]
	default:
		return make([]*Record, 0, batch)
	}
}

// emit hands a record over, with others. It returns false when nobody wants more.
func (r *Reader) emit(out *[]*Record, w waiting) bool {
	if w.at < r.last {
		r.late++
	}
	r.last = max(r.last, w.at)
	*out = append(*out, w.rec)
	if r.handing += w.size; len(*out) < batch && r.handing < batchBytes {
		return true
	}
	r.handing = 0
	select {
	case r.full <- *out:
	case <-r.stop:
		return false
	}
	*out = r.list()
	return true
}
