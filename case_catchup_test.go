package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about catching up with missed slots one by one, each as its own run.

// --catch-up each runs what was missed, oldest first, each slot as its own, under a lease of its own; --catch-up-max takes the
// newest of them.
func TestCatchUpEach(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "each")
	b.run("web-1", "--catch-up", "each").want(t, 0, b.missedLine(false, -2, -1))
	b.wantRan(-3, -2, -1, 0)
	b.wantStates(map[int]string{-2: "done", -1: "done", 0: "done"})
	runs, tokens := map[string]bool{}, []int64{}
	for n := -3; n <= 0; n++ {
		e := entryOf(t, "each", b.day(n))
		runs[e.RunID], tokens = true, append(tokens, e.Token)
	}
	if len(runs) != 4 || !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 4 {
		t.Errorf("run IDs %v, tokens %v", runs, tokens)
	}
	wantNoLock(t, "each")

	b = newBacklog(t, "max")
	b.run("web-1", "--catch-up", "each", "--catch-up-max", "1").want(t, 0, b.missedLine(false, -2, -1))
	b.wantRan(-3, -1, 0)
	b.wantStates(map[int]string{-2: "missed", -1: "done", 0: "done"})
	tomorrow := b.call(map[string]string{"catch-up": "each", "catch-up-max": "1"})
	tomorrow.slot = must(tomorrow.line.next(tomorrow.slot))(t)
	if e := tomorrow.execute(&voice{w: os.Stderr}); e != nil && e.status != 0 {
		t.Errorf("%+v", e)
	}
	b.wantRan(-3, -1, 0, 1) // what was left out stays so
}

// A slot that fails while it is caught up with does not stop the others; the first status that is not 0 is the exit status.
func TestCatchUpFails(t *testing.T) {
	t.Parallel()
	for job, c := range map[string]struct {
		fails  map[int]int
		status int
	}{
		"oldest": {map[int]int{-2: 3, -1: 4}, 3},
		"middle": {map[int]int{-1: 4, 0: 5}, 4},
		"own":    {map[int]int{0: 5}, 5},
		"all":    {map[int]int{-2: 9, -1: 8, 0: 7}, 9},
	} {
		b := newBacklog(t, job)
		states := map[int]string{-2: "done", -1: "done", 0: "done"}
		for n, status := range c.fails {
			slotWrite(t, b.log+"."+b.day(n), fmt.Sprint(status))
			states[n] = "failed"
		}
		b.run("web-1", "--catch-up", "each").want(t, c.status, b.missedLine(false, -2, -1))
		b.wantRan(-3, -2, -1, 0)
		b.wantStates(states)
	}
	// A command that cannot be started is no reason either.
	b := newBacklog(t, "absent")
	args := b.line("--catch-up", "each")
	r := newHost(t, "web-1").run(append(args[:slices.Index(args, "--")], "--", "/no/such/command")...)
	if r.status != exitNotFound || strings.Count(r.stderr, "/no/such/command: no such file or directory\n") != 3 {
		t.Errorf("%v", r)
	}
	b.wantRan(-3)
	b.wantStates(map[int]string{-2: "failed", -1: "failed", 0: "failed"})
	b.run("web-2", "--catch-up", "each").want(t, 0, "") // it uses up no attempt of today's
	if all := lines(b.log); len(all) != 4 || all[3] != "END "+b.day(0) {
		t.Errorf("effects: %q", all)
	}
}

// Hosts that catch up at the same time run each slot once, one after the other, oldest first.
func TestCatchUpTogether(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		b := newBacklog(t, fmt.Sprint("together-", round))
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				if r := b.run(fmt.Sprint("web-", i), "--catch-up", "each"); r.status != 0 {
					t.Errorf("%v", r)
				}
			})
		}
		all.Wait()
		b.wantRan(-3, -2, -1, 0)
		b.wantStates(map[int]string{-2: "done", -1: "done", 0: "done"})
		wantNoLock(t, b.job)
	}
}

// Of hosts that catch up together one dies in the middle: another one goes on with what is left.
func TestCatchUpSurvivesADeath(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "death")
	slotWrite(t, b.log+".hold."+b.day(-2), "")
	one := newHost(t, "web-1").launch(b.line("--catch-up", "each", "--lease", "1s")...)
	eventually(t, "the first missed slot runs", func() bool { return len(lines(b.log)) == 3 })
	two := newHost(t, "web-2").launch(b.line("--catch-up", "each", "--lease", "1s")...)
	waitsNow(t, "death", 1)
	one.die()
	slotRemove(t, b.log+".hold."+b.day(-2))
	if r := two.wait(); r.status != 0 || !strings.Contains(r.stderr, "death "+b.day(-2)+": uncertain: web-1:") {
		t.Errorf("the other host: %v", r)
	}
	b.wantStates(map[int]string{-2: "running", -1: "done", 0: "done"})
	if e := entryOf(t, "death", b.day(-1)); e.Host != "web-2" {
		t.Errorf("yesterday's: %+v", e)
	}
}

// What was skipped is caught up with as well; what was paused is not.
func TestSkippedCaughtUpPausedNot(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"each", "merge", "none"} {
		b := newBacklog(t, "skipped-"+how)
		slotWrite(t, b.log+".hold."+b.day(-2), "")
		one := newHost(t, "web-1").launch(b.line("--date", b.day(-2))...)
		eventually(t, "it runs", func() bool { return len(lines(b.log)) == 3 })
		b.run("web-2", "--overlap", "skip", "--date", b.day(-1)).want(t, 0, "")
		b.wantStates(map[int]string{-2: "running", -1: "skipped"})
		slotRemove(t, b.log+".hold."+b.day(-2))
		one.wait().want(t, 0, "")
		b.run("web-3", "--catch-up", how).want(t, 0, "")
		switch how {
		case "each":
			b.wantRan(-3, -2, -1, 0)
			b.wantStates(map[int]string{-1: "done", 0: "done"})
		case "merge":
			b.wantStates(map[int]string{-1: "merged", 0: "done"})
			if all := lines(b.log); len(all) != 6 || all[4] != fmt.Sprintf("START %s %s %[1]s 1", b.day(0), b.day(-1)) {
				t.Errorf("effects: %q", all)
			}
		case "none":
			b.wantRan(-3, -2, 0)
			b.wantStates(map[int]string{-1: "skipped", 0: "done"})
		}
	}
	for _, how := range []string{"each", "merge"} {
		b := newBacklog(t, "paused-"+how)
		slotPause(t, b.job)
		b.run("web-1", "--date", b.day(-2)).want(t, 0, "")
		b.run("web-1", "--date", b.day(-1)).want(t, 0, "")
		shared.rdb.HDel(context.Background(), jobKeys(t, b.job)[5], "paused")
		b.run("web-2", "--catch-up", how).want(t, 0, "")
		b.wantRan(-3, 0)
		b.wantStates(map[int]string{-2: "paused", -1: "paused", 0: "done"})
	}
}

// A signal in the middle of catching up ends the call: nothing more is begun, and the lease is free.
func TestSignalWhileCatchingUp(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "signal")
	slotWrite(t, b.log+".hold."+b.day(-2), "")
	r := newHost(t, "web-1").launch(b.line("--catch-up", "each", "--attempts", "3", "--retry-delay", "10ms")...)
	eventually(t, "the first missed slot runs", func() bool { return len(lines(b.log)) == 3 })
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait().want(t, 143, b.missedLine(false, -2, -1))
	b.wantStates(map[int]string{-2: "failed", -1: "missed", 0: ""})
	wantNoLock(t, "signal")
	if e := entryOf(t, "signal", b.day(-2)); e.Reason != "interrupted" {
		t.Errorf("the entry: %+v", e)
	}
}

// Two hosts catch up, and the other one is quicker:
//
//	this host: today? two are missed -> writes them -> the day before yesterday? busy -> today? behind, waits        -> yesterday, today
//	the other:                                      begins the day before yesterday ................. ends it
//
// What is left is caught up with by this host, in order.
func TestCatchUpBehindAnother(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "behind")
	slotWrite(t, b.log+".hold."+b.day(-2), "")
	c := b.call(map[string]string{"catch-up": "each"})
	var other *heldRun
	c.ledger.AddHook(&hookAt{3, func() {
		other = newHost(t, "web-2").launch(b.line("--date", b.day(-2))...)
		eventually(t, "the other host runs", func() bool { return len(lines(b.log)) == 3 })
	}})
	ended := make(chan *exit, 1)
	var said bytes.Buffer
	go func() { ended <- c.execute(&voice{w: &said}) }()
	waitsNow(t, b.job, 1)
	remaining := b.log + ".hold." + b.day(-2)
	slotRemove(t, remaining)
	select {
	case e := <-ended:
		if e != nil && e.status != 0 || said.String() != b.missedLine(false, -2, -1) {
			t.Errorf("exit %+v, said %q", e, &said)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	other.wait().want(t, 0, "")
	b.wantRan(-3, -2, -1, 0)
	b.wantStates(map[int]string{-2: "done", -1: "done", 0: "done"})
}

// What was skipped under another line is no slot of this one, and not caught up with.
func TestSkippedByAnotherLine(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	one := newHost(t, "web-1").hold(log, "run", "--job", "j", "--date", "2026-01-05")
	two := newHost(t, "web-2")
	silent(t, "in the way", two.run("run", "--job", "j", "--date", "2026-01-06", "--overlap", "skip", "--", "true"))
	one.open(0)
	one.wait().want(t, 0, "")
	silent(t, "the line is a week's now", two.run("run", "--job", "j", "--every", "week", "--catch-up", "each", "--", "true"))
	if s := stateOf(t, "j", "2026-01-06"); s != "skipped" {
		t.Errorf("the day's slot is %q", s)
	}
}
