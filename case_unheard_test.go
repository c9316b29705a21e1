//go:build !race

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// Redis falls silent when the command is about to end: whether its end is written is asked for as long as the lease lasts, and
// no longer, also where one request would be given more time. Then it is told that the ledger does not know.
func TestCaseEndUnheard(t *testing.T) {
	t.Parallel()
	atOnce([]string{"0", "3"}, func(status string) {
		p, e := newProxy(t, shared.address()), newEnder(t)
		job := "j" + status
		h := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url(), "ONCEONLY_STATE_DIR="+t.TempDir())
		proc := caseStart(t, h.command(caseRun(job, "--lease 1s", e.command(status)...)...))
		eventually(t, "the command runs", e.up)
		p.swallow(true, true)
		silent := time.Now() // the lease lasts for a second from here at the most
		e.end(t)
		said := map[string]string{"0": "done", "3": "exit 3"}[status]
		proc.wait().wantMatch(t, map[string]int{"0": exitUnrecorded, "3": 3}[status],
			notRecorded(job, said, h.stateDir()))
		if took := time.Since(silent); took > time.Second+requestTimeout/2 {
			t.Errorf("it took %v, the lease was over after a second", took)
		}
	})
}

// A signal that asks to stop ends the wait for Redis to take the end, which is kept.
func TestCaseEndUnheardStopped(t *testing.T) {
	t.Parallel()
	p, e := newProxy(t, shared.address()), newEnder(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url(), "ONCEONLY_STATE_DIR="+t.TempDir())
	proc := caseStart(t, h.command(caseRun("j", "--lease 5m", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	p.swallow(true, true)
	p.forget()
	e.end(t)
	eventually(t, "the end is sent", func() bool { return slices.Contains(p.requests(), "EVAL") })
	proc.say(unix.SIGTERM)
	told := time.Now()
	proc.wait().wantMatch(t, exitUnrecorded, notRecorded("j", "done", h.stateDir()))
	if took := time.Since(told); took > requestTimeout-farewell {
		t.Errorf("it took %v to heed TERM", took)
	}
	if len(h.kept()) != 1 {
		t.Errorf("kept: %v", h.kept())
	}
}

// The begin of another attempt is executed and never answered, and onceonly is told to stop: the attempt is not used up, and
// the log tells of it as what it was begun as.
func TestCaseNextAttemptUnheard(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
	p.dropReply("EVAL", 3, false) // begin, finish, begin
	proc := caseStart(t, h.command(caseRun("j", "--attempts 2 --retry-delay 100ms --lease 20s", "false")...))
	eventually(t, "the second begin is executed", func() bool { return p.dropsLeft() == 0 })
	proc.say(unix.SIGTERM)
	proc.wait().want(t, 1, "")
	if e := entryOf(t, "j", caseDay); e.State != "failed" || e.Attempt != 1 {
		t.Errorf("the entry: %+v", e)
	}
	events, err := shared.rdb.XRange(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys("j")[4], "-", "+").Result()
	if err != nil || len(events) != 4 {
		t.Fatalf("the log: %v, %v", events, err)
	}
	begun, unstarted := events[2].Values, events[3].Values
	if unstarted["event"] != "end" || unstarted["token"] != begun["token"] || unstarted["attempt"] != "2" {
		t.Errorf("begun as %v\nended as %v", begun, unstarted)
	}
}

// A question is on its way when the next one is answered: wait. What it asked for is given up with it, so that it begins
// nothing when it arrives at last and nobody waits any more.
//
//	begin ...................................... arrives
//	      begin: behind  waits    not run
func TestCaseBeginArrivesAfterTheWait(t *testing.T) {
	t.Parallel()
	held := newHost(t, "web-2").hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "j", "--date", "2026-01-04")
	c, err := newCallAt(t, time.Now(), map[string]string{"job": "j", "date": caseDay, "wait-max": "1s"}, "true")
	if err != nil {
		t.Fatal(err)
	}
	c.wall = time.Now
	late := &hookLate{}
	c.ledger.AddHook(late)
	var said bytes.Buffer
	if e := c.execute(&voice{w: &said}); e == nil || e.status != exitNotDone || !strings.Contains(e.msg, "still running") {
		t.Errorf("%+v %s", e, &said)
	}
	held.open(0)
	held.wait().want(t, 0, "")
	answer, err := shared.rdb.Do(context.Background(), late.args...).Slice()
	if err != nil || len(answer) != 2 || !strings.Contains(answer[1].(string), `"verdict":"ended"`) {
		t.Errorf("%v, %v", answer, err)
	}
	wantNoLock(t, "j")
	silent(t, "the next host", newHost(t, "web-3").run(caseRun("j", "", "true")...))
	if e := entryOf(t, "j", caseDay); e.State != "done" || e.Attempt != 1 {
		t.Errorf("the entry: %+v", e)
	}
}

// A hookLate keeps the first script that is sent, unheard.
type hookLate struct{ args []any }

func (h *hookLate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hookLate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hookLate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" && h.args == nil {
			h.args = cmd.Args()
			next(ctx, redis.NewStatusCmd(ctx, "ping")) // the connection stands, so it may have been sent
			cmd.SetErr(context.DeadlineExceeded)
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}
