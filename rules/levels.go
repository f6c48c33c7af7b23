package rules

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"gateway/limit"
)

// A file of levels:
//
//	"gateway levels 2\n"
//	the Secret of the digests, the instant of the levels (8 bytes, big-endian)
//	for each Table a section: 'T', rule, tier, identity, numbers, penalty, and its levels
//	'Z', the SHA-256 of everything before it
//
// A level is 'K' and the digest, or 'S' and the number of a shared counter; then its
// instant, units and parts; then 'R' and the same of what was refunded, if there is
// any; then 'P', the same of its refusals, the end of its last block, since when it is
// quiet, and its doublings, if there are any; then 'L', a number and so many instants
// with their units, if it has a list.
// The tier of a candidate is candidateTier.
// Texts have their length before them. Numbers are varints, instants how long
// before that of the file.
//
// Format 1, which is read too, had neither penalties nor candidates.
const (
	levelsMagic   = "gateway levels "
	levelsFormat  = "2\n"
	levelsFormat1 = "1\n"

	sectionTag = 'T'
	keyTag     = 'K'
	sharedTag  = 'S'
	refundTag  = 'R'
	punishTag  = 'P'
	listTag    = 'L'
	endTag     = 'Z'
)

// WriteLevels writes to w what each key of s has used by now, so that another process
// can go on with it (see ReadLevels), and returns how many keys that were. What is in
// progress, and whom an operator has blocked, is not among it. It runs beside
// requests. What it writes has the Secret in it, and so is nobody else's to read.
func (s *Set) WriteLevels(w io.Writer, now limit.Instant) (keys int64, err error) {
	sum := sha256.New()
	l := levelWriter{w: bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10), saved: now}
	l.buf = append(l.buf, levelsMagic+levelsFormat...)
	l.buf = append(l.buf, s.secret[:]...)
	l.buf = binary.BigEndian.AppendUint64(l.buf, uint64(now))
	l.flush()
	section := func(r *Rule, tier string, p *Plan) {
		n := p.Live.Table.Numbers()
		l.buf = append(l.buf, sectionTag)
		for _, text := range []string{r.Name, tier, p.Live.identity, numbersText(n), penaltyText(n)} {
			l.text(text)
		}
		l.flush()
		p.Live.Table.Levels(now, func(e *limit.Level) bool {
			l.level(e)
			keys++
			return l.err == nil
		})
	}
	for _, r := range s.Rules {
		for p := range r.Plans() {
			// Requests in progress are counted in one Table, of which blocks alone are kept.
			if !p.Numbers.Slots || p.slots == nil && p.Numbers.Penalty.After != nil {
				section(r, p.Tier, p)
			}
		}
		if r.Base.Candidate != nil {
			section(r, candidateTier, r.Base.Candidate)
		}
	}
	l.buf = append(l.buf, endTag)
	l.flush()
	return keys, l.end(w, sum)
}

// numbersText returns a text that two Numbers share if they are equal, but for their
// penalties.
func numbersText(n limit.Numbers) string {
	return fmt.Sprintf("%T%+v %d %T%+v", n.Bucket, n.Bucket, n.Carry, n.Refunds, n.Refunds)
}

// penaltyText returns a text that two Numbers share if their penalties are equal.
func penaltyText(n limit.Numbers) string {
	if n.Penalty.After == nil {
		return ""
	}
	return fmt.Sprintf("%T%+v %d %d", n.Penalty.After, n.Penalty.After, n.Penalty.Block, n.Penalty.Max)
}

// levelWriter writes the parts of a file of levels. Its first error stays.
type levelWriter struct {
	w     *bufio.Writer
	saved limit.Instant
	buf   []byte
	err   error
}

func (l *levelWriter) flush() {
	if l.err == nil {
		_, l.err = l.w.Write(l.buf)
	}
	l.buf = l.buf[:0]
}

// end writes what is left, and the sum of it all.
func (l *levelWriter) end(w io.Writer, sum hash.Hash) error {
	if l.err == nil {
		l.err = l.w.Flush()
	}
	if l.err == nil {
		_, l.err = w.Write(sum.Sum(nil))
	}
	return l.err
}

func (l *levelWriter) text(s string) {
	l.buf = append(binary.AppendUvarint(l.buf, uint64(len(s))), s...)
}

func (l *levelWriter) state(at limit.Instant, used int64, rem uint64) {
	l.instant(at)
	l.buf = binary.AppendVarint(l.buf, used)
	l.buf = binary.AppendUvarint(l.buf, rem)
}

func (l *levelWriter) instant(at limit.Instant) {
	l.buf = binary.AppendVarint(l.buf, int64(l.saved-at))
}

func (l *levelWriter) level(e *limit.Level) {
	if e.Shared > 0 {
		l.buf = append(l.buf, sharedTag, e.Shared)
	} else {
		l.buf = append(l.buf, keyTag)
		l.buf = binary.BigEndian.AppendUint64(l.buf, e.Key.Hi)
		l.buf = binary.BigEndian.AppendUint64(l.buf, e.Key.Lo)
	}
	l.state(e.At, e.Used, e.Rem)
	if r := e.Refunded; r.Used > 0 {
		l.buf = append(l.buf, refundTag)
		l.state(r.At, r.Used, r.Rem)
	}
	if u := e.Punished; u != (limit.Punished{}) {
		l.buf = append(l.buf, punishTag)
		l.state(u.At, u.Used, u.Rem)
		l.instant(u.Until)
		l.instant(u.Quiet)
		l.buf = binary.AppendUvarint(l.buf, uint64(u.Doublings))
	}
	if e.Taken != nil {
		l.buf = binary.AppendUvarint(append(l.buf, listTag), uint64(len(e.Taken)))
		for _, t := range e.Taken {
			l.instant(t.At)
			l.buf = binary.AppendVarint(l.buf, t.Units)
		}
	}
	l.flush()
}
