package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// day is a day's traffic whose answers are known: users who come and go with the
// sun and never hurry, a crawler that asks ten times a second, an office of which
// five people a second ask from one address, and a botnet each of whose addresses
// tries to log in twice in one second.
type dayOf struct {
	seconds, users, bots int
	office               [2]int // seconds from which and to which it works
}

const (
	crawlerRate, officeRate = 10, 5
	crawler, office         = "192.0.2.66", "198.51.100.1"
)

// dayRules: with a bucket of 60 that refills at one a second, who asks r times in
// each of s seconds is let through 60 + (s-1) times once r*s is more than that.
const dayRules = `
upstream: http://127.0.0.1:1
rules:
  - name: per-ip
    limit: 60/m
  - name: login
    match: POST /login
    limit: 1/h
  - name: everybody
    key: global
    limit: 1000000/s
`

// write writes the log, in lines of nginx, and returns how many there are.
func (d dayOf) write(out io.Writer) (lines int) {
	w := bufio.NewWriterSize(out, 1<<16)
	defer w.Flush()
	begin := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	user, bot := 0, 0
	line := func(stamp, client, method, path, agent string) {
		lines++
		w.WriteString(client)
		w.WriteString(" - - [")
		w.WriteString(stamp)
		w.WriteString(`] "`)
		w.WriteString(method)
		w.WriteByte(' ')
		w.WriteString(path)
		w.WriteString(` HTTP/1.1" 200 512 "-" "`)
		w.WriteString(agent)
		w.WriteString("\"\n")
	}
	addrs := make([]string, d.users)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	for s := range d.seconds {
		stamp := begin.Add(time.Duration(s) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
		for range d.awake(s) {
			line(stamp, addrs[user], "GET", "/shop/item", "Mozilla/5.0")
			user = (user + 1) % d.users
		}
		for range crawlerRate {
			line(stamp, crawler, "GET", "/shop/all", "crawler/1.0")
		}
		if s >= d.office[0] && s < d.office[1] {
			for range officeRate {
				line(stamp, office, "GET", "/shop/orders", "Mozilla/5.0")
			}
		}
		for ; bot < d.bots*(s+1)/d.seconds; bot++ { // spread over the day
			client := fmt.Sprintf("172.%d.%d.%d", 16+bot>>16, bot>>8&255, bot&255)
			line(stamp, client, "POST", "/login", "bot")
			line(stamp, client, "POST", "/login", "bot")
		}
	}
	return lines
}

// awake is how many users ask in a second: few at night, most at noon. Each of them
// asks less than once a second.
func (d dayOf) awake(second int) int {
	sun := 0.5 - 0.5*math.Cos(2*math.Pi*float64(second)/float64(d.seconds))
	return int(float64(d.users) / 200 * (0.1 + 1.9*sun))
}

// check holds a report to the answers.
func (d dayOf) check(t *testing.T, rep *Report, lines int) {
	t.Helper()
	if rep.Lines != int64(lines) || rep.LinesUnread != 0 || rep.Requests != int64(lines) || rep.Late != 0 {
		t.Errorf("%d lines, %d unread, %d requests, %d late; want %d", rep.Lines, rep.LinesUnread, rep.Requests, rep.Late, lines)
	}
	through := func(seconds int) int64 { return 60 + int64(seconds) - 1 }
	worked := d.office[1] - d.office[0]
	crawled, sat := int64(crawlerRate*d.seconds), int64(officeRate*worked)
	fromCrawler, fromOffice := crawled-through(d.seconds), sat-through(worked)
	r := rep.Rules[0]
	clients := int64(d.users + d.bots + 2)
	if r.Requests != int64(lines) || r.Refused != fromCrawler+fromOffice || r.Clients != clients || r.ClientsRefused != 2 {
		t.Errorf("per-ip: %d requests, %d refused, %d clients, %d of them refused; want %d, %d, %d, 2",
			r.Requests, r.Refused, r.Clients, r.ClientsRefused, lines, fromCrawler+fromOffice, clients)
	}
	want := []TopKey{
		{Key: crawler, Requests: crawled, Refused: fromCrawler, Share: share(fromCrawler, crawled)},
		{Key: office, Requests: sat, Refused: fromOffice, Share: share(fromOffice, sat)},
	}
	if len(r.Top) != 2 || r.Top[0] != want[0] || r.Top[1] != want[1] {
		t.Errorf("refused most: %+v, want %+v", r.Top, want)
	}
	// 600 a minute, and nearly all others one or two.
	if b := r.Busiest; b.Max != 60*crawlerRate || b.MaxKey != crawler || b.P50 > 2 || b.Limit != 60 {
		t.Errorf("busiest: %+v", b)
	}
	// What is refused is not charged to the other rule, so of each bot's two attempts one passes.
	r = rep.Rules[1]
	if bots := int64(d.bots); r.Requests != 2*bots || r.Refused != bots || r.Clients != bots || r.ClientsRefused != bots || r.Units != bots {
		t.Errorf("login: %+v; want %d requests, %d refused", r, 2*bots, bots)
	}
	if r = rep.Rules[2]; r.Requests != int64(lines) || r.Refused != 0 || r.Clients != 1 || r.Units != int64(lines)-fromCrawler-fromOffice-int64(d.bots) {
		t.Errorf("everybody: %+v", r)
	}
	sum := int64(0)
	for _, s := range rep.Rules[0].When {
		sum += s.Refused
	}
	if sum != fromCrawler+fromOffice {
		t.Errorf("%d refusals over time, want %d", sum, fromCrawler+fromOffice)
	}
}

// decideAll decides all requests of logs.
func decideAll(t testing.TB, s *Run, names []string, o Options) *Report {
	t.Helper()
	r, err := Open(names, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		batch, err := r.Next()
		if err == io.EOF {
			break
		}
		s.Do(batch, nil)
		r.Free(batch)
	}
	return s.Report(r, Wanted{"clients", 0.001}, 10)
}

// hour is a small day.
var hour = dayOf{seconds: 3600, users: 4000, bots: 5000, office: [2]int{1200, 2400}}

func TestASyntheticDayHasTheAnswersItWasMadeWith(t *testing.T) {
	var log bytes.Buffer
	lines := hour.write(&log)
	all := log.Bytes()
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	zipped := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	zstd := func(text []byte) []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	one, two := bytes.LastIndexByte(all[:len(all)/3], '\n')+1, bytes.LastIndexByte(all[:2*len(all)/3], '\n')+1
	for _, c := range []struct {
		name  string
		files []string
		stdin string
	}{
		{name: "one file", files: []string{file("plain.log", all)}},
		{name: "gzip", files: []string{file("log.gz", zipped(all))}},
		{name: "several gzip streams in one file", files: []string{file("two.gz", append(zipped(all[:one]), zipped(all[one:])...))}},
		{name: "zstd", files: []string{file("log.zst", zstd(all))}},
		{name: "a pipe", files: []string{pipe(t, dir, all)}},
		{name: "stdin", files: []string{"-"}, stdin: log.String()},
		{name: "rotated, named in the wrong order", files: []string{file("log", all[two:]), file("log.1", all[one:two]), file("log.2.gz", zipped(all[:one]))}},
		{name: "two at the same time", files: split(t, dir, all)},
		{name: "out of order by up to a minute", files: []string{file("odd.log", shuffled(all))}},
		{name: "with CR LF and empty lines", files: []string{file("dos.log", bytes.ReplaceAll(all, []byte("\n"), []byte("\r\n\r\n")))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hour.check(t, decideAll(t, NewRun(setOf(t, dayRules), ""), c.files, Options{Stdin: strings.NewReader(c.stdin)}), lines)
		})
	}
}

// pipe returns a named pipe that the log is written into.
func pipe(t *testing.T, dir string, all []byte) string {
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := os.WriteFile(path, all, 0o600); err != nil { // waits for a reader
			t.Error(err)
		}
	}()
	return path
}

// split writes every other line to another file, as two servers would.
func split(t *testing.T, dir string, all []byte) (paths []string) {
	var parts [2]bytes.Buffer
	i := 0
	for line := range bytes.Lines(all) {
		parts[i%2].Write(line)
		i++
	}
	for i := range parts {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("server%d.log", i)))
		if err := os.WriteFile(paths[i], parts[i].Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// shuffled writes lines up to a few thousand later than they came, as long requests
// are.
func shuffled(all []byte) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out bytes.Buffer
	var late [][]byte
	for line := range bytes.Lines(all) {
		if r.IntN(10) == 0 {
			late = append(late, line)
		} else {
			out.Write(line)
		}
		if len(late) > 0 && r.IntN(12) == 0 || len(late) > 400 {
			i := r.IntN(len(late))
			out.Write(late[i])
			late = append(late[:i], late[i+1:]...)
		}
	}
	for _, line := range late {
		out.Write(line)
	}
	return out.Bytes()
}
