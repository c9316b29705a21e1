package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Told to stop while Redis owes an answer: whatever is asked, and whether Redis is heard again or not, onceonly ends, and
// nothing is begun.

// A told is a wait that TERM comes into.
type told struct {
	lose func(*proxy)             // the answer that never comes
	job  func(*testing.T, string) // what makes onceonly ask that
	line []string
}

func tolds() map[string]told {
	dated := []string{"--date", "today"}
	answer := func(command string, n int) func(*proxy) { return func(p *proxy) { p.dropReply(command, n, false) } }
	forgotten := func(t *testing.T, job string) { shared.rdb.Del(context.Background(), jobKeys(t, job)...) }
	return map[string]told{
		"handshake":     {lose: answer("HELLO", 1), line: dated},
		"begin":         {lose: answer("EVAL", 1), line: dated},
		"list of jobs":  {lose: answer("SADD", 1), line: dated, job: forgotten},
		"missed slots":  {lose: answer("EVAL", 2)},
		"turn, its own": {lose: answer("HELLO", 2), line: dated, job: yesterdayRuns},
		"subscription":  {lose: answer("SUBSCRIBE", 1), line: dated, job: yesterdayRuns},
		"second look":   {lose: answer("EVAL", 2), line: dated, job: yesterdayRuns},
	}
}

// yesterdayRuns begins a run of another slot, which lasts as long as the test.
func yesterdayRuns(t *testing.T, job string) {
	t.Helper()
	newHost(t, "web-2").hold(t.TempDir()+"/log", "run", "--job", job, "--every", "day", "--tz", "UTC", "--date", "2020-01-01")
}

// TERM ends every wait for Redis within about a second, with 143 and not a word.
func TestCaseToldWhileRedisIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range tolds() {
		for _, dead := range []bool{false, true} {
			job := name
			if dead {
				job += ", then silence"
			}
			t.Run(job, func(t *testing.T) {
				t.Parallel()
				b, p := newBacklog(t, "told"), newProxy(t, shared.address())
				if c.job != nil {
					c.job(t, b.job)
				}
				before := lines(b.log)
				c.lose(p)
				proc := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).command(b.line(c.line...)...))
				eventually(t, "the answer is lost", func() bool { return p.dropsLeft() == 0 })
				if dead {
					p.swallow(true, true)
				}
				wantEndsAtTerm(t, proc, exitSignal+int(unix.SIGTERM))
				if now := lines(b.log); !slices.Equal(now, before) {
					t.Errorf("the command ran: %q", now)
				}
				if value := slotLock(t, b.job); !dead && c.job == nil && value != "" {
					t.Errorf("the lease is held by %q", value)
				}
			})
		}
	}
}

// wantEndsAtTerm tells it to stop, and wants that status within about a second, and no word.
func wantEndsAtTerm(t *testing.T, p *caseProc, status int) {
	t.Helper()
	said := time.Now()
	p.say(unix.SIGTERM)
	p.wait().want(t, status, "")
	if took := time.Since(said); took > 2*time.Second { // one request is given 3 s
		t.Errorf("ended %v after it was told to", took)
	}
}
