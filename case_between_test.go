package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"
)

// What happens to a slot between its being found missed and its turn: each slot that is caught up with is asked for as any
// other, but waits for nobody, and catches up with nothing.
//
//	this host: today? two are missed -> writes them -> the day before yesterday? ... -> yesterday? ... -> today
//	the other:                                     meddles

// A meddling is what the other host does, and what becomes of it.
type meddling struct {
	do      func(*testing.T, *backlog)
	options map[string]string // of the line, beside --catch-up each
	status  int
	says    func(*backlog) string // after the line of what was missed; a pattern
	states  map[int]string
	ran     []int // by this host
}

func (b *backlog) other(day int, options ...string) *heldRun {
	b.t.Helper()
	slotWrite(b.t, b.log+".hold."+b.day(day), "")
	before := len(lines(b.log))
	r := newHost(b.t, "web-2").launch(b.line(append(options, "--date", b.day(day))...)...)
	eventually(b.t, "the other host runs", func() bool { return len(lines(b.log)) > before })
	return r
}

// A caughtUp is what it left.
type caughtUp struct {
	*exit
	said string
}

// catchesUp runs the line in this process, and meddles before the first slot that it catches up with.
func (b *backlog) catchesUp(options map[string]string, meddle func()) <-chan caughtUp {
	b.t.Helper()
	options["catch-up"] = "each"
	c := b.call(options)
	c.ledger.AddHook(&hookAt{3, meddle})
	ended := make(chan caughtUp, 1)
	go func() {
		var said bytes.Buffer
		v := &voice{w: &said, verbose: options["verbose"] != ""}
		e := c.execute(v)
		if e == nil {
			e = &exit{}
		}
		v.leave(e)
		ended <- caughtUp{e, said.String()}
	}()
	return ended
}

func wantCaughtUp(t *testing.T, ended <-chan caughtUp, status int, says string) {
	t.Helper()
	select {
	case c := <-ended:
		result{status: c.status, stderr: c.said}.wantMatch(t, status, says)
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// A catch-up slot that another host has left uncertain, failed, done or paused meanwhile is told as such, and stops none of
// the others.
func TestCaseCatchUpSlotTaken(t *testing.T) {
	t.Parallel()
	silent := func(*backlog) string { return "" }
	hint := func(b *backlog) string {
		return fmt.Sprintf("onceonly: hint: (find out, then )?onceonly resolve %s [^\n]*--date %s --done or --reopen, --reason TEXT\n", b.job, b.day(-2))
	}
	for job, m := range map[string]meddling{
		"uncertain": {do: func(t *testing.T, b *backlog) {
			b.other(-2).die()
			slotRemove(t, b.log+".hold."+b.day(-2))
			shared.rdb.Del(context.Background(), lockKey(t, b.job)) // its lease is over
		}, status: exitNotDone, states: map[int]string{-2: "running", -1: "done", 0: "done"}, ran: []int{-1, 0},
			says: func(b *backlog) string {
				return fmt.Sprintf("onceonly: %s %s: not run: uncertain: web-2:[^\n]*\n", b.job, b.day(-2)) + hint(b) +
					fmt.Sprintf("onceonly: %s %s: uncertain: web-2:[^\n]*\n", b.job, b.day(-2)) + hint(b)
			}},
		"failed": {do: func(t *testing.T, b *backlog) {
			slotWrite(t, b.log+"."+b.day(-2), "3")
			b.run("web-2", "--date", b.day(-2)).want(t, 3, "")
		}, options: map[string]string{"exit-failed": "9"}, status: 9, states: map[int]string{-2: "failed", -1: "done", 0: "done"}, ran: []int{-1, 0},
			says: func(b *backlog) string {
				return fmt.Sprintf(`onceonly: %s %s: not run: failed on web-2 at [^\n]* \(exit 3\), no attempt left`+"\n", b.job, b.day(-2)) + hint(b)
			}},
		"done": {do: func(t *testing.T, b *backlog) {
			b.run("web-2", "--date", b.day(-2)).want(t, 0, "")
		}, options: map[string]string{"exit-done": "7"}, states: map[int]string{-2: "done", -1: "done", 0: "done"}, ran: []int{-1, 0}, says: silent},
		"paused": {do: func(t *testing.T, b *backlog) {
			slotPause(t, b.job)
		}, states: map[int]string{-2: "missed", -1: "missed", 0: "paused"}, says: silent},
	} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			b := newBacklog(t, job)
			if m.options == nil {
				m.options = map[string]string{}
			}
			before := 0
			ended := b.catchesUp(m.options, func() { m.do(t, b); before = len(lines(b.log)) })
			wantCaughtUp(t, ended, m.status, b.missedLine(false, -2, -1)+m.says(b))
			b.wantStates(m.states)
			var want []string
			for _, n := range m.ran {
				want = append(want, fmt.Sprintf("START %[1]s %[1]s %[1]s 1", b.day(n)), "END "+b.day(n))
			}
			wantLines(t, lines(b.log)[before:], want...)
			wantNoLock(t, job)
		})
	}
}

// A line that stands by does so for its own slot alone: behind a catch-up slot that another host is running it is a loser
// like any other. Here it skips, and is over while the other one still runs.
func TestCaseCatchUpStandsByForNone(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "standby")
	var other *heldRun
	wantCaughtUp(t, b.catchesUp(map[string]string{"standby": "yes", "attempts": "2", "overlap": "skip"}, func() {
		other = b.other(-2, "--attempts", "2")
	}), 0, b.missedLine(false, -2, -1))
	if other.over() {
		t.Error("it has waited for the other host")
	}
	b.wantStates(map[int]string{-2: "running", -1: "missed", 0: "skipped"})
	slotRemove(t, b.log+".hold."+b.day(-2))
	other.wait().want(t, 0, "")
}

// Behind another slot's run a catch-up slot neither waits nor loses its place: it stays missed, the line's own slot waits, and
// then what is left is caught up with, in order.
func TestCaseCatchUpBehindStaysMissed(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "behind")
	var other *heldRun
	ended := b.catchesUp(map[string]string{"verbose": "yes"}, func() { other = b.other(-1) })
	waitsNow(t, b.job, 1)
	b.wantStates(map[int]string{-2: "missed", -1: "running", 0: ""})
	slotRemove(t, b.log+".hold."+b.day(-1))
	wantCaughtUp(t, ended, 0, b.missedLine(false, -2, -1)+
		fmt.Sprintf("onceonly: %s %s: waiting for %s, running on web-2:[^\n]*\n", b.job, b.day(0), b.day(-1)))
	other.wait().want(t, 0, "")
	b.wantRan(-3, -1, -2, 0)
	b.wantStates(map[int]string{-2: "done", -1: "done", 0: "done"})
}

// Redis goes away between two slots: 69, with the slot that could not be asked for; what is left stays missed, and the
// next call catches up with it.
func TestCaseCatchUpRedisGone(t *testing.T) {
	t.Parallel()
	b, p := newBacklog(t, "gone"), newProxy(t, shared.address())
	options := map[string]string{"redis": p.url(), "redis-wait": "100ms", "lease": "1s"}
	wantCaughtUp(t, b.catchesUp(options, p.refuse), exitAway, b.missedLine(false, -2, -1)+
		fmt.Sprintf("onceonly: %s %s: not run: Redis at %s not reached in [^\n]*\n", b.job, b.day(-2), p.address()))
	b.wantRan(-3)
	b.wantStates(map[int]string{-2: "missed", -1: "missed", 0: ""})
	b.run("web-1", "--catch-up", "each").want(t, 0, "")
	b.wantRan(-3, -2, -1, 0)
}
