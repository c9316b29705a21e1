package main

import (
	"fmt"
	"sync"
	"testing"
)

// Cases of real users about one run that covers all missed slots.

// --catch-up merge lets one run cover the missed slots: the command is told the range, they are recorded as part of it, and
// whoever takes over, or tries again, covers the range too.
func TestCatchUpMerge(t *testing.T) {
	t.Parallel()
	covers := func(b *backlog, n, attempt int) string {
		return fmt.Sprintf("START %s %s %s %d", b.day(0), b.day(n), b.day(0), attempt)
	}
	merged := func(b *backlog, first int, states map[int]string) {
		t.Helper()
		b.wantStates(states)
		if e := entryOf(t, b.job, b.day(0)); e.First != b.day(first) {
			t.Errorf("the range of the entry begins with %q", e.First)
		}
		for n := first; n < 0; n++ {
			if e := entryOf(t, b.job, b.day(n)); e.Into != b.day(0) {
				t.Errorf("%s is merged into %q", b.day(n), e.Into)
			}
		}
	}
	b := newBacklog(t, "merge")
	begin := lines(b.log)
	b.run("web-1", "--catch-up", "merge").want(t, 0, b.missedLine(false, -2, -1))
	wantLines(t, lines(b.log), append(begin, covers(b, -2, 1), "END "+b.day(0))...)
	merged(b, -2, map[int]string{-3: "done", -2: "merged", -1: "merged", 0: "done"})
	b.run("web-2", "--catch-up", "merge").want(t, 0, "")

	b = newBacklog(t, "merge-max")
	begin = lines(b.log)
	b.run("web-1", "--catch-up", "merge", "--catch-up-max", "1").want(t, 0, b.missedLine(false, -2, -1))
	wantLines(t, lines(b.log), append(begin, covers(b, -1, 1), "END "+b.day(0))...)
	merged(b, -1, map[int]string{-2: "missed", -1: "merged", 0: "done"})

	b = newBacklog(t, "again")
	begin = lines(b.log)
	slotWrite(t, b.log+"."+b.day(0), "6")
	b.run("web-1", "--catch-up", "merge", "--attempts", "2", "--retry-delay", "10ms").want(t, 6, b.missedLine(false, -2, -1))
	wantLines(t, lines(b.log), append(begin, covers(b, -2, 1), "END "+b.day(0), covers(b, -2, 2), "END "+b.day(0))...)
	merged(b, -2, map[int]string{-2: "merged", -1: "merged", 0: "failed"})

	b = newBacklog(t, "takeover")
	begin = lines(b.log)
	slotWrite(t, b.log+".hold."+b.day(0), "")
	options := []string{"--catch-up", "merge", "--attempts", "2", "--lease", "1s"}
	one := newHost(t, "web-1").launch(b.line(options...)...)
	eventually(t, "the merged run has begun", func() bool { return len(lines(b.log)) == len(begin)+1 })
	one.die()
	eventually(t, "the lease is over", func() bool { return slotLock(t, "takeover") == "" })
	slotRemove(t, b.log+".hold."+b.day(0))
	b.run("web-2", options...).wantLike(t, 0, "onceonly: takeover "+b.day(0)+": taking over, attempt 2 of 2: .*")
	wantLines(t, lines(b.log), append(begin, covers(b, -2, 1), covers(b, -2, 2), "END "+b.day(0))...)
	merged(b, -2, map[int]string{-2: "merged", -1: "merged", 0: "done"})
}

// A slot that another run has covered is part of that run: nobody runs it again, by date or because a clock is behind, and
// while the run that covers it goes on nobody overlaps with it. (promises 1, 2)
func TestMergedIsNotRunAgain(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "merged")
	begin := lines(b.log)
	b.run("web-1", "--catch-up", "merge").want(t, 0, b.missedLine(false, -2, -1))
	for _, n := range []int{-1, -2} {
		if r := b.run("web-2", "--date", b.day(n)); r.status != 0 || r.stdout != "" || r.stderr != "" {
			t.Errorf("%s again: %v", b.day(n), r)
		}
	}
	wantLines(t, lines(b.log), append(begin, fmt.Sprintf("START %s %s %[1]s 1", b.day(0), b.day(-2)), "END "+b.day(0))...)
	b.wantStates(map[int]string{-2: "merged", -1: "merged", 0: "done"})

	b = newBacklog(t, "going-on")
	slotWrite(t, b.log+".hold."+b.day(0), "")
	slotWrite(t, b.log+"."+b.day(0), "6")
	one := newHost(t, "web-1").launch(b.line("--catch-up", "merge")...)
	eventually(t, "the merged run has begun", func() bool { return len(lines(b.log)) == 3 })
	for _, overlap := range []string{"skip", "wait"} {
		b.run("web-2", "--date", b.day(-1), "--overlap", overlap).want(t, 0, "")
	}
	slotRemove(t, b.log+".hold."+b.day(0))
	one.wait().want(t, 6, b.missedLine(false, -2, -1))
	if r := b.run("web-3", "--date", b.day(-1)); r.status != exitNotDone || len(lines(b.log)) != 4 {
		t.Errorf("%s, part of a run that failed: %v, effects %q", b.day(-1), r, lines(b.log))
	}
	b.wantStates(map[int]string{-2: "merged", -1: "merged", 0: "failed"})
}

// Hosts that merge at the same time run one command for the whole range.
func TestMergeTogether(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "together")
	begin := lines(b.log)
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if r := b.run(fmt.Sprint("web-", i), "--catch-up", "merge"); r.status != 0 {
				t.Errorf("%v", r)
			}
		})
	}
	all.Wait()
	wantLines(t, lines(b.log), append(begin, fmt.Sprintf("START %s %s %[1]s 1", b.day(0), b.day(-2)), "END "+b.day(0))...)
	b.wantStates(map[int]string{-2: "merged", -1: "merged", 0: "done"})
}
