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
	empty chan []*Record
	stop  chan struct{}
	done  chan struct{}

	bytes, lines atomic.Int64
	spare        []*Record

	// For the goroutine that reads, until full is closed.
	unread []Unread
	late   int64
	last   limit.Instant
}

// batch is how many records are handed over at once.
const batch = 512

// Open opens logs and finds out what they are. Its error says which file is the
// matter, and what to do.
func Open(names []string, o Options) (*Reader, error) {
	r := &Reader{
		stdin: o.Stdin, wants: newWanted(o.Headers, o.Answers), formats: newFormats(),
		full: make(chan []*Record, 2), empty: make(chan []*Record, 8), stop: make(chan struct{}), done: make(chan struct{}),
	}
	var given *Format
	if o.Pattern != "" {
		var err error
		if given, err = patternFormat(o.Pattern); err != nil {
			return nil, fmt.Errorf("--format: %w", err)
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

// begin finds out what a file is and when it begins. Only the standard input
// stays open, since it cannot be opened again.
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
	case len(sample) == 0:
		in.close()
		f.Format = nil
		return nil // nothing in it
	case read == 0:
		in.close()
		return unknownFormat(f, format, sample, r.wants)
	}
	f.Format = format
	for _, line := range sample {
		rec := &Record{File: f, stamp: &f.stamp, wants: r.wants}
		rec.buf = append(rec.buf, line...)
		if rec.reset(); format.parse(rec.buf, rec) == nil {
			f.begin = rec
			break
		}
	}
	if f.Name == "-" {
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
	for _, b := range sample {
		if slices.Contains(b, 0) {
			return fmt.Errorf("%s:1: binary data, no access log", f.Name)
		}
	}
	if given != nil {
		r := Record{stamp: &timeCache{}, wants: w}
		r.buf = append(r.buf, line...)
		r.reset()
		why = "not what --format says: " + given.parse(r.buf, &r).Error()
	}
	return fmt.Errorf("%s:1: %s: %s", f.Name, why, excerpt(line))
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
	select {
	case r.empty <- b:
	default: // more than ever come back at once; the collector takes them
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
	slices.SortStableFunc(waiting, func(a, b *File) int { return cmp.Compare(a.begin.At, b.begin.At) })
	o := newOrder()
	out := make([]*Record, 0, batch)
	for len(open) > 0 || len(waiting) > 0 {
		for len(waiting) > 0 && (len(open) == 0 || waiting[0].begin.At <= oldest(open).next.At || waiting[0].in != nil) {
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
		if s.next = r.read(s.file); s.next == nil {
			open = slices.DeleteFunc(open, func(t *source) bool { return t == s })
		}
		if (o.len() > window || o.bytes > windowBytes) && !r.emit(&out, o.take()) {
			return
		}
	}
	for rec := o.take(); rec != nil; rec = o.take() {
		if !r.emit(&out, rec) {
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
	next *Record
}

func oldest(open []*source) *source {
	first := open[0]
	for _, s := range open[1:] {
		if s.next.before(first.next) {
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
	f.begin = nil
	rec := r.read(f)
	if rec == nil {
		return nil
	}
	return &source{f, rec}
}

// read returns the next record of a file, or nil at its end.
func (r *Reader) read(f *File) *Record {
	for {
		line, whole, err := f.in.next()
		switch {
		case err == nil, errors.Is(err, errLong):
		case errors.Is(err, io.EOF):
			f.in.close()
			f.in = nil
			return nil
		default:
			f.Damage = fmt.Sprintf("%s:%d: the file cannot be read any further: %v", f.Name, f.line+1, err)
			f.in.close()
			f.in = nil
			return nil
		}
		f.line++
		if len(line) == 0 {
			continue
		}
		f.Lines++
		r.lines.Add(1)
		rec := r.record()
		rec.File, rec.Line, rec.stamp, rec.wants = f, f.line, &f.stamp, r.wants
		rec.reset()
		if err == nil {
			if cap(rec.buf) > 8<<10 {
				rec.buf = nil // one odd line must not make it big for ever
			}
			rec.buf = append(rec.buf[:0], line...)
			if err = f.Format.parse(rec.buf, rec); err == nil {
				err = rec.check(whole || !f.Format.openEnd)
			}
			if err == nil {
				return rec
			}
		}
		r.spare = append(r.spare, rec)
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

// record returns a Record to be filled in.
func (r *Reader) record() *Record {
	if n := len(r.spare); n > 0 {
		rec := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return rec
	}
	select {
	case b := <-r.empty:
		r.spare = append(r.spare, b...)
		return r.record()
	default:
		return &Record{}
	}
}

// emit hands a record over, with others. It returns false when nobody wants more.
func (r *Reader) emit(out *[]*Record, rec *Record) bool {
	if rec.At < r.last {
		r.late++
	}
	r.last = max(r.last, rec.At)
	*out = append(*out, rec)
	if len(*out) < batch {
		return true
	}
	select {
	case r.full <- *out:
	case <-r.stop:
		return false
	}
	*out = make([]*Record, 0, batch)
	return true
}
