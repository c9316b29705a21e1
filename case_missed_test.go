package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cases of real users about slots that nobody asked for: hosts were off, cron was stopped, an earlier run took too long.

// A backlog is a job whose line is due at midnight each day. Days are counted from today, in a zone where it is about noon.
type backlog struct {
	t    *testing.T
	job  string
	zone string
	day  func(int) string
	log  string
}

// newBacklog is a job that last ran three days ago.
func newBacklog(t *testing.T, job string) *backlog {
	t.Helper()
	east := 12 - time.Now().UTC().Hour()
	b := &backlog{t: t, job: job, zone: fmt.Sprintf("Etc/GMT%+d", -east), log: filepath.Join(t.TempDir(), "log")}
	b.day = func(n int) string {
		return time.Now().UTC().Add(time.Duration(east)*time.Hour).AddDate(0, 0, n).Format(time.DateOnly)
	}
	b.run("web-0", "--date", b.day(-3)).want(t, 0, "")
	b.wantRan(-3)
	return b
}

// line is the job's line; the command logs slot, range and attempt, and ends with the status in the file of its slot.
func (b *backlog) line(options ...string) []string {
	args := append([]string{"run", "--job", b.job, "--schedule", "0 0 * * *", "--tz", b.zone}, options...)
	return append(args, "--", "sh", "-c", `echo START $ONCEONLY_SLOT $ONCEONLY_FIRST_SLOT $ONCEONLY_LAST_SLOT $ONCEONLY_ATTEMPT >>"$0"
		while [ -e "$0.hold.$ONCEONLY_SLOT" ]; do sleep 0.02; done
		echo END $ONCEONLY_SLOT >>"$0"; [ ! -e "$0.$ONCEONLY_SLOT" ] || exit $(cat "$0.$ONCEONLY_SLOT")`, b.log)
}

func (b *backlog) run(name string, options ...string) result {
	b.t.Helper()
	return newHost(b.t, name).run(b.line(options...)...)
}

// call is the line as a call in this process, of web-1.
func (b *backlog) call(options map[string]string) *call {
	b.t.Helper()
	options["job"], options["schedule"], options["tz"] = b.job, "0 0 * * *", b.zone
	words := b.line()
	c, err := newCallAt(b.t, time.Now(), options, words[slices.Index(words, "--")+1:]...)
	if err != nil {
		b.t.Fatal(err)
	}
	c.wall = time.Now
	return c
}

// wantRan fails the test if the command did not run for just these days, one after the other.
func (b *backlog) wantRan(days ...int) {
	b.t.Helper()
	var want []string
	for _, n := range days {
		want = append(want, fmt.Sprintf("START %[1]s %[1]s %[1]s 1", b.day(n)), "END "+b.day(n))
	}
	wantLines(b.t, lines(b.log), want...)
}

func (b *backlog) wantStates(days map[int]string) {
	b.t.Helper()
	for n, want := range days {
		if s := stateOf(b.t, b.job, b.day(n)); s != want {
			b.t.Errorf("%s is %q, want %q", b.day(n), s, want)
		}
	}
}

// missedLine is what one host says.
func (b *backlog) missedLine(hint bool, days ...int) string {
	var names []string
	for _, n := range days {
		names = append(names, b.day(n))
	}
	text := fmt.Sprintf("onceonly: %s: missed %s\n", b.job, strings.Join(names, ", "))
	if hint {
		text += fmt.Sprintf("onceonly: hint: --catch-up each, or --date %s\n", names[0])
	}
	return text
}

// Two days of downtime: one line, once in the fleet. The missed days are on the record, can be run later, and only once.
// Nothing before the first entry is missed. (SH-66)
func TestMissedTold(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "told")
	var mu sync.Mutex
	var all sync.WaitGroup
	said := ""
	for i := range 10 {
		all.Go(func() {
			r := b.run(fmt.Sprint("web-", i))
			mu.Lock()
			defer mu.Unlock()
			said += r.stderr
			if r.status != 0 {
				t.Errorf("%v", r)
			}
		})
	}
	all.Wait()
	if want := b.missedLine(true, -2, -1); said != want {
		t.Errorf("ten hosts said %q, want %q", said, want)
	}
	b.wantRan(-3, 0)
	b.wantStates(map[int]string{-4: "", -3: "done", -2: "missed", -1: "missed", 0: "done"})
	for range 2 {
		b.run("web-1", "--date", b.day(-2)).want(t, 0, "")
	}
	b.wantRan(-3, 0, -2)
	b.wantStates(map[int]string{-2: "done", -1: "missed"})

	// Two found the same gap: whoever writes it tells it, the other one is silent.
	b = newBacklog(t, "told-2")
	c := b.call(map[string]string{})
	c.ledger.AddHook(&hookAt{2, func() { b.run("web-2").want(t, 0, b.missedLine(true, -2, -1)) }})
	var second bytes.Buffer
	if e := c.execute(&voice{w: &second}); e != nil && (e.status != 0 || !e.normal) || second.Len() > 0 {
		t.Errorf("the second one: exit %+v, said %q", e, &second)
	}
	b.wantRan(-3, 0)
}

// A job that has never run has missed nothing, and neither has a line that does not say when it is due.
func TestNothingMissed(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "new")
	shared.rdb.Del(context.Background(), jobKeys(t, "new")...)
	b.run("web-1", "--catch-up", "each").want(t, 0, "")
	b.wantRan(-3, 0)
	b.wantStates(map[int]string{-3: "", -2: "", -1: "", 0: "done"})

	for i, day := range []string{b.day(-3), ""} {
		args := []string{"run", "--job", "daily", "--every", "day", "--tz", b.zone, "--catch-up", "each"}
		if day != "" {
			args = append(args, "--date", day)
		}
		newHost(t, fmt.Sprint("web-", i)).run(append(args, "--", "true")...).want(t, 0, "")
	}
	if n, _ := shared.rdb.HLen(context.Background(), jobKeys(t, "daily")[2]).Result(); n != 2 {
		t.Errorf("%d entries of a line without a schedule", n)
	}
	// With a date the run is for that day, whatever was missed before.
	b = newBacklog(t, "dated")
	b.run("web-1", "--catch-up", "each", "--date", b.day(-1)).want(t, 0, "")
	b.wantRan(-3, -1)
	b.wantStates(map[int]string{-2: ""})
}

// Of a long downtime the newest hundred slots are written, in one line.
func TestManyMissed(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	line := []string{"run", "--job", "tick", "--schedule", "* * * * *"}
	h.run(append(line, "--date", time.Now().Add(-20*time.Hour).Format(time.RFC3339), "--", "true")...).want(t, 0, "")
	h.run(append(line, "--", "true")...).wantLike(t, 0, `onceonly: tick: missed [^\n]+\nonceonly: hint: --catch-up each, or --date [^\n]+\n`)
	states := map[string]int{}
	texts, _ := shared.rdb.HVals(context.Background(), jobKeys(t, "tick")[2]).Result()
	for _, text := range texts {
		e, err := decode[entry](text)
		if err != nil {
			t.Fatal(err)
		}
		states[e.State]++
	}
	if states["missed"] != 100 || states["done"] != 2 {
		t.Errorf("entries: %v", states)
	}
}

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
}

// A slot that fails while it is caught up with does not stop the others; the first status that is not 0 is the exit status.
// (ruling 4)
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

	b = newBacklog(t, "retry")
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

// What lies in the time of a slot of the other line was not missed: a line that is changed host by host counts from the first
// slot that overlaps none.
func TestOtherLinesTimeIsNotMissed(t *testing.T) {
	t.Parallel()
	even := time.Now().UTC().Truncate(2 * time.Minute)
	at := func(name string, n int, line string, more ...string) result {
		args := append([]string{"run", "--job", "sync", "--schedule", line}, more...)
		return newHost(t, name).runAt(even.Add(time.Duration(n)*time.Minute), append(args, "--", "sh", "-c", "echo $ONCEONLY_SLOT")...)
	}
	name := func(n int) string { return even.Add(time.Duration(n) * time.Minute).Format("2006-01-02T15:04+00:00") }
	clock := func(r result) result { // it may say that its clock is off
		if strings.HasPrefix(r.stderr, "onceonly: clock is ") {
			_, r.stderr, _ = strings.Cut(r.stderr, "\n")
		}
		return r
	}
	clock(at("web-1", 0, "*/2 * * * *")).wantOut(t, name(0)+"\n")
	clock(at("web-2", 1, "* * * * *")).wantLike(t, exitDisagree, "onceonly: sync: not run: .* their slots overlap.*")
	clock(at("web-2", 2, "* * * * *", "--catch-up", "each")).wantOut(t, name(2)+"\n")
	if s := stateOf(t, "sync", name(1)); s != "" {
		t.Errorf("a minute of the other line's slot is %q", s)
	}
}

// A hookAt is a client's hook that does something before the n-th script is sent.
type hookAt struct {
	n  int
	do func()
}

func (h *hookAt) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hookAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hookAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			if h.n--; h.n == 0 {
				h.do()
			}
		}
		return next(ctx, cmd)
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
