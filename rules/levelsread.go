package rules

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"gateway/limit"
)

// LevelsRead says what became of a file of levels.
type LevelsRead struct {
	// Keys is how many keys go on where they were, Lost how many found no place.
	Keys, Lost int64
	// Age is how long ago the levels were written; negative when the clock went back.
	Age time.Duration
	// Afresh names the rules, with their tiers, whose levels mean nothing now: the
	// rule is gone, or counts in another way.
	Afresh []string
}

// ReadLevels makes the keys of s, which must be new and not in service yet, go on
// where the Set was that has written the size bytes of r, with the time applied
// that went by. Limits may be others meanwhile: then what was used stays used, as over
// a reload; a rule that counts in another way starts afresh. Levels that are damaged,
// foreign or of a later version are refused as a whole, with an error that says so,
// and all keys start afresh. It reads r twice and keeps no more of it in memory
// than counters.
func (s *Set) ReadLevels(r io.ReaderAt, size int64, now limit.Instant) (LevelsRead, error) {
	if err := checkLevels(r, size, 2*s.File.MaxMemory); err != nil {
		return LevelsRead{}, err
	}
	l := levelReader{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size-sha256.Size), 256<<10), now: now}
	l.skip(len(levelsMagic))
	var format [len(levelsFormat)]byte
	l.full(format[:])
	l.first = string(format[:]) == levelsFormat1
	var secret limit.Secret
	l.full(secret[:])
	var at [8]byte
	l.full(at[:])
	l.past.Saved = limit.Instant(binary.BigEndian.Uint64(at[:]))
	l.read.Age = now.Sub(l.past.Saved)
	if l.err == nil {
		s.useSecret(secret)
	}
	for l.err == nil {
		switch tag := l.tag(); {
		case tag == sectionTag:
			l.section(s)
		case tag == keyTag, tag == sharedTag:
			l.level(tag)
		case tag == endTag && l.err == nil:
			return l.read, nil
		default:
			l.fail()
		}
	}
	return l.read, l.err
}

var (
	errNoLevels = errors.New("it holds no levels of a gateway")
	errDamaged  = errors.New("it is damaged or cut off: its checksum is wrong")
)

// checkLevels makes sure that r holds levels that this version reads, whole.
func checkLevels(r io.ReaderAt, size, most int64) error {
	head := make([]byte, len(levelsMagic+levelsFormat))
	n, _ := r.ReadAt(head, 0)
	format, ok := bytes.CutPrefix(head[:n], []byte(levelsMagic))
	switch {
	case !ok && bytes.HasPrefix([]byte(levelsMagic), head[:n]):
		return errDamaged
	case !ok:
		return errNoLevels
	case len(format) == len(levelsFormat) && string(format) != levelsFormat && string(format) != levelsFormat1:
		return errors.New("another version of the gateway has written it, in a format that this one does not read")
	case size < int64(len(head)+sha256.Size):
		return errDamaged
	case size > most:
		return fmt.Errorf("it has %d bytes, more than twice max_memory", size)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, size-sha256.Size)); err != nil {
		return err
	}
	var want [sha256.Size]byte
	if _, err := r.ReadAt(want[:], size-sha256.Size); err != nil && err != io.EOF {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want[:]) {
		return errDamaged
	}
	return nil
}

// levelReader reads the parts of a file of levels. Its first error stays.
type levelReader struct {
	r     *bufio.Reader
	now   limit.Instant
	first bool // it is of format 1
	past  limit.Past
	to    *limit.Table // of the section; nil for a rule that starts afresh
	read  LevelsRead
	e     limit.Level
	err   error
}

func (l *levelReader) fail() {
	if l.err == nil {
		l.err = errors.New("its checksum is right, but it cannot be read to its end")
	}
}

func (l *levelReader) full(b []byte) {
	if _, err := io.ReadFull(l.r, b); err != nil {
		l.fail()
	}
}

func (l *levelReader) skip(n int) {
	if _, err := l.r.Discard(n); err != nil {
		l.fail()
	}
}

func (l *levelReader) tag() byte {
	b, err := l.r.ReadByte()
	if err != nil {
		l.fail()
	}
	return b
}

// next reports whether what follows is tag, and takes it if so.
func (l *levelReader) next(tag byte) bool {
	b, err := l.r.Peek(1)
	if err != nil || b[0] != tag {
		return false
	}
	l.skip(1)
	return true
}

func (l *levelReader) unsigned() uint64 {
	n, err := binary.ReadUvarint(l.r)
	if err != nil {
		l.fail()
	}
	return n
}

func (l *levelReader) signed() int64 {
	n, err := binary.ReadVarint(l.r)
	if err != nil {
		l.fail()
	}
	return n
}

func (l *levelReader) instant() limit.Instant { return l.past.Saved - limit.Instant(l.signed()) }

func (l *levelReader) text() string {
	const most = 64 << 10
	n := l.unsigned()
	if n > most {
		l.fail()
	}
	if l.err != nil {
		return ""
	}
	b := make([]byte, n)
	l.full(b)
	return string(b)
}

// section begins the levels of a Table.
func (l *levelReader) section(s *Set) {
	rule, tier, identity, numbers, penalty := l.text(), l.text(), l.text(), l.text(), ""
	if !l.first {
		penalty = l.text()
	}
	if l.err != nil {
		return
	}
	p := s.Rule(rule).keptPlan(tier)
	if l.to = nil; p != nil && p.Live.identity == identity && p.slots == nil {
		l.to = p.Live.Table
		n := l.to.Numbers()
		l.past.Same, l.past.SamePenalty = numbersText(n) == numbers, penaltyText(n) == penalty
		return
	}
	name := rule
	switch tier {
	case "":
	case candidateTier:
		name += " (candidate)"
	default:
		name += " (tier " + tier + ")"
	}
	if len(l.read.Afresh) < 100 {
		l.read.Afresh = append(l.read.Afresh, strings.ToValidUTF8(name, "?"))
	}
}

// keptPlan returns the plan of which a file has the levels under a tier, or nil.
func (r *Rule) keptPlan(tier string) *Plan {
	if r != nil && tier == candidateTier {
		return r.Base.Candidate
	}
	return r.Plan(tier)
}

// level puts back one level.
func (l *levelReader) level(tag byte) {
	e := &l.e
	*e = limit.Level{Taken: e.Taken[:0]}
	if tag == sharedTag {
		if e.Shared = l.tag(); e.Shared == 0 {
			l.fail()
		}
	} else {
		var key [16]byte
		l.full(key[:])
		e.Key = limit.Digest{Hi: binary.BigEndian.Uint64(key[:8]), Lo: binary.BigEndian.Uint64(key[8:])}
	}
	e.At, e.Used, e.Rem = l.instant(), l.signed(), l.unsigned()
	if l.next(refundTag) {
		e.Refunded = limit.Refunded{At: l.instant(), Used: l.signed(), Rem: l.unsigned()}
	}
	if l.next(punishTag) {
		e.Punished = limit.Punished{At: l.instant(), Used: l.signed(), Rem: l.unsigned(), Until: l.instant(), Quiet: l.instant()}
		e.Punished.Doublings = uint32(min(l.unsigned(), math.MaxUint32))
	}
	if l.next(listTag) {
		for n := l.unsigned(); n > 0 && l.err == nil; n-- {
			e.Taken = append(e.Taken, limit.Taken{At: l.instant(), Units: l.signed()})
		}
	} else {
		e.Taken = nil
	}
	switch {
	case l.err != nil || l.to == nil:
	case l.to.Restore(e, l.past, l.now):
		l.read.Keys++
	default:
		l.read.Lost++
	}
}

// useSecret makes secret that of all keys from now on. Nobody may use s meanwhile.
func (s *Set) useSecret(secret limit.Secret) {
	*s.secret = secret
	for _, r := range s.Rules {
		r.recipe.fix(s.secret)
	}
}
