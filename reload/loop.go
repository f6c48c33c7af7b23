package reload

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// ErrStopped is returned by [Loop.Trigger] when the loop has ended or is ending.
var ErrStopped = errors.New("not reloading any more: the gateway is stopping")

// ErrRunning is returned by [Loop.Load] and [Loop.Run] when the loop was already started.
var ErrRunning = errors.New("reload loop was already started")

// Loop applies one configuration file whenever its content changes.
//
// Path and Apply are required; every other field has a useful zero. Fields must
// not be changed once Load or Run was called. Call [Loop.Load] for the first load,
// then [Loop.Run] once; Trigger and Status may be called at any time, from any
// goroutine. A Loop must not be copied.
type Loop struct {
	// Path is the file, as the operator gave it.
	Path string

	// Apply makes data what runs, as a whole or not at all, and tells what that
	// changed. It is never called twice at the same time. Its error is the
	// outcome of the attempt: the log line lists what the error's
	// Unwrap() []error returns, or the error itself. It owns data.
	Apply func(ctx context.Context, data []byte) (Change, error)

	// Beside returns the paths of the files that data names and that are followed
	// as the configuration itself is: with either the whole is news. It is called
	// where Apply is, before it, once for each content; nil is none. Apply reads
	// these files with ReadFile.
	Beside func(data []byte) []string

	// BesideWhole returns the paths of more such files, of which not every line ends
	// with a newline: what is read of them is taken for whole.
	BesideWhole func(data []byte) []string

	// Include returns the patterns of the files that are a part of the configuration,
	// sorted or not: what they stand for is followed, and to have one more or one less
	// is a change of the whole. It is called where Apply is, before Beside, once for
	// each content; nil is none. Beside and Apply read these files with ReadIncluded.
	Include func(data []byte) []string

	// Stale reports whether further files, which Apply read for the content that
	// runs and which nobody follows, hold something else by now, so that who asks
	// for a reload gets the same content applied again. It is called where Apply
	// is; nil is never.
	Stale func() bool

	// Logger gets one line per attempt; nil logs nothing.
	Logger *slog.Logger

	// Settle is how long content must stay the same to be applied. 0 is 100 ms.
	Settle time.Duration
	// Unfinished is the same for content without a final newline. 0 is 1.5 s.
	Unfinished time.Duration
	// Missing is how long the file must be unreadable to be reported. 0 is 1 s.
	Missing time.Duration
	// Poll is the time between two looks without any event. 0 is 3 s.
	Poll time.Duration

	// newWatcher replaces fsnotify.NewWatcher in tests.
	newWatcher func() (*fsnotify.Watcher, error)

	once    sync.Once
	asks    chan chan<- answer // from Trigger to Run
	done    chan struct{}      // closed when Run has ended
	settled settling           // used by Load, then by Run only
	beside  beside             // likewise
	held    map[string]view    // what ReadFile returns while Apply runs

	mu      sync.Mutex // guards what follows
	started bool
	status  Status
}

// answer is what Trigger returns.
type answer struct {
	outcome Outcome
	err     error
}

// Load reads the file and applies it, before Run is called. A file without a final
// newline is given time to be finished; any other is applied at once, and one that
// cannot be read is an error at once. The error is that of reading or of Apply.
// Load logs nothing and counts no reload: the caller decides what a failed start
// means. When it runs on, what Load refused counts as judged and reported.
func (l *Loop) Load(ctx context.Context) (Outcome, error) {
	l.init()
	if l.isStarted() {
		return Outcome{}, ErrRunning
	}
	for {
		v := l.look()
		wait, ready := l.settled.see(v, v.at, true)
		if (ready || !v.unfinished) && l.hold(v) {
			a := l.judge(ctx, v, false)
			return a.outcome, a.err
		}
		select {
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		case <-time.After(min(wait, l.settled.settle)):
		}
	}
}

// Run keeps what runs in step with the file until ctx ends, and then returns nil,
// leaving no goroutine behind. Without a Load before it, the file is news to Run and
// is applied. Run never ends because of the file, not even of its absence. It can be
// called once.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	if !l.start() {
		return ErrRunning
	}
	defer close(l.done)
	f := newFolders(l.Path, l.newWatcher, l.Logger)
	defer f.close()
	l.follow(ctx, f.changed, func() view {
		f.refresh() // before reading, so that no change falls between the two
		v := l.look()
		for f.add(l.beside.paths()) {
			f.refresh()
			v = l.look()
		}
		return v
	})
	return nil
}

// look reads the file and those it names.
func (l *Loop) look() view { return l.beside.look(readFile(l.Path)) }

// Trigger looks at the file now and waits for the outcome: that of applying it, or
// Unchanged when it holds what runs. Content that was refused before is tried
// again. It waits as long as the file takes to settle and, when Run was not called
// yet, for Run; ctx ends the waiting, not the attempt.
//
// The error is ctx's, ErrStopped, or, with Result Refused or Unreadable, what is
// wrong with the file; that has been logged already.
func (l *Loop) Trigger(ctx context.Context) (Outcome, error) {
	l.init()
	reply := make(chan answer, 1) // the loop never waits for a caller
	select {
	case l.asks <- reply:
	case <-l.done:
		return Outcome{}, ErrStopped
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	select {
	case a := <-reply:
		return a.outcome, a.err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	case <-l.done:
	}
	select {
	case a := <-reply: // answered just before the end
		return a.outcome, a.err
	default:
		return Outcome{}, ErrStopped
	}
}

// follow is the one goroutine: whatever wakes it, it looks, and acts on what has
// settled. look is called by it alone.
func (l *Loop) follow(ctx context.Context, changed <-chan struct{}, look func() view) {
	poll := time.NewTicker(l.Poll)
	defer poll.Stop()
	again := time.NewTimer(0) // the first look is now
	defer again.Stop()
	var waiting []chan<- answer
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-poll.C:
		case <-again.C:
		case reply := <-l.asks:
			waiting = append(waiting, reply)
		}
		v := look()
		// A large file was read long before all was found that it names.
		wait, ready := l.settled.see(v, v.at, len(waiting) > 0)
		if wait > 0 {
			wait = max(1, wait-time.Since(v.at))
		}
		if ready && !l.hold(v) { // being saved just now
			ready, wait = false, l.Settle
		}
		if ready {
			a := l.attempt(ctx, v, len(waiting) > 0)
			for _, reply := range waiting {
				reply <- a
			}
			waiting = nil
		}
		again.Stop()
		if wait > 0 {
			again.Reset(wait)
		}
	}
}

// init fills in the defaults and makes the channels.
func (l *Loop) init() {
	l.once.Do(func() {
		if l.Path == "" || l.Apply == nil {
			panic("reload: loop without a path or without an apply function")
		}
		l.Settle = orElse(l.Settle, 100*time.Millisecond)
		l.Unfinished = orElse(l.Unfinished, 1500*time.Millisecond)
		l.Missing = orElse(l.Missing, time.Second)
		l.Poll = orElse(l.Poll, 3*time.Second)
		if l.Logger == nil {
			l.Logger = slog.New(slog.DiscardHandler)
		}
		if l.newWatcher == nil {
			l.newWatcher = fsnotify.NewWatcher
		}
		l.beside.names, l.beside.whole, l.beside.include = l.Beside, l.BesideWhole, l.Include
		l.settled = settling{settle: l.Settle, unfinished: l.Unfinished, missing: l.Missing}
		l.asks = make(chan chan<- answer)
		l.done = make(chan struct{})
	})
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// start notes that Run was called and reports whether it was the first time.
func (l *Loop) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.started
	l.started = true
	return first
}

func (l *Loop) isStarted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}
