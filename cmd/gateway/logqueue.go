package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// logQueue passes lines on to a writer that may block: whoever reads our log and
// stops reading must not stop us. When the queue is full a line is dropped and
// counted. It is safe for concurrent use.
type logQueue struct {
	out     io.Writer
	lines   chan []byte
	stop    chan struct{}
	done    chan struct{}
	dropped atomic.Int64
}

// logLines is how many lines wait at most; each is some hundred bytes.
const logLines = 1024

// lastWords is how long Close waits for what is in the queue to be written.
const lastWords = 2 * time.Second

// newLogQueue returns a queue to out. Start begins to write, Close ends it.
func newLogQueue(out io.Writer) *logQueue {
	return &logQueue{out: out, lines: make(chan []byte, logLines), stop: make(chan struct{}), done: make(chan struct{})}
}

// Write implements io.Writer. It takes p as one line and never blocks.
func (q *logQueue) Write(p []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(p):
	default:
		q.dropped.Add(1)
	}
	return len(p), nil
}

// Start begins to write.
func (q *logQueue) Start() { go q.run() }

func (q *logQueue) run() {
	defer close(q.done)
	for {
		select {
		case line := <-q.lines:
			q.pass(line)
			continue
		case <-q.stop:
		}
		for n := len(q.lines); n > 0; n-- {
			q.pass(<-q.lines)
		}
		return
	}
}

func (q *logQueue) pass(line []byte) {
	if _, err := q.out.Write(line); err != nil {
		q.dropped.Add(1)
	}
}

// Close writes what is in the queue, if that can be done in lastWords.
func (q *logQueue) Close() {
	close(q.stop)
	select {
	case <-q.done:
	case <-time.After(lastWords):
	}
}
