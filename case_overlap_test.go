package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cases of real users about runs that meet: yesterday's is still going, somebody waits, somebody stands by.

// Yesterday's run is still going when today's is due. A day waits for it, and runs then; whoever asks again finds it busy or
// done. (SH-11)
func TestYesterdayStillRunningWait(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	run := func(day string) []string { return []string{"run", "--job", "invoice", "--every", "day", "--date", day} }
	first := newHost(t, "web-1").hold(log, run("2025-06-09")...)
	gate := filepath.Join(t.TempDir(), "gate")
	second := newHost(t, "web-2").launch(append(append(run("2025-06-10"), "-v"), gated(log, gate)...)...)
	second.gate = gate
	waitsNow(t, "invoice", 1)
	if s := stateOf(t, "invoice", "2025-06-10"); s != "" {
		t.Errorf("the slot that is waited for is %q", s)
	}
	first.open(0)
	first.wait().want(t, 0, "")
	eventually(t, "today's runs", func() bool { return len(lines(log)) == 3 })
	newHost(t, "web-3").run(append(run("2025-06-10"), "--", "false")...).wantOut(t, "")
	second.open(0)
	second.wait().wantLike(t, 0, `onceonly: invoice 2025-06-10: waiting for 2025-06-09, running on web-1:\d+ since [^\n]*`+"\n")
	newHost(t, "web-3").run(append(run("2025-06-10"), "--", "false")...).wantOut(t, "")
	wantLines(t, traceWords(t, log), "START 2025-06-09 1", "END 2025-06-09 1", "START 2025-06-10 1", "END 2025-06-10 1")
	if e := entryOf(t, "invoice", "2025-06-10"); e.State != "done" || e.Host != "web-2" {
		t.Errorf("today's entry: %+v", e)
	}
}

// With --overlap skip the slot is skipped, on the record, and runs when it is asked for again. (SH-11)
func TestYesterdayStillRunningSkip(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	run := func(day string, more ...string) []string {
		return append([]string{"run", "--job", "invoice", "--every", "day", "--overlap", "skip", "--date", day}, more...)
	}
	first := newHost(t, "web-1").hold(log, run("2025-06-09")...)
	two := newHost(t, "web-2")
	two.run(run("2025-06-10", "--", "echo", "ran")...).wantOut(t, "")
	two.run(run("2025-06-10", "-v", "--", "echo", "ran")...).wantLike(t, 0,
		fmt.Sprintf("onceonly: invoice 2025-06-10: skipped: 2025-06-09 still running on web-1:%d\n", first.cmd.Process.Pid))
	if s := stateOf(t, "invoice", "2025-06-10"); s != "skipped" {
		t.Errorf("while yesterday's runs, today's is %q", s)
	}
	first.open(0)
	first.wait().want(t, 0, "")
	two.run(run("2025-06-10", "--", "echo", "ran")...).wantOut(t, "ran\n")
	two.run(run("2025-06-10", "--", "echo", "ran")...).wantOut(t, "")
	if e := entryOf(t, "invoice", "2025-06-10"); e.State != "done" || e.Attempt != 1 {
		t.Errorf("today's entry: %+v", e)
	}
}

// A slot of a day or longer waits, a shorter one is skipped; --wait-max bounds the wait, and the last line says for whom and
// how long.
func TestOverlapByLength(t *testing.T) {
	t.Parallel()
	first := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "sync", "--every", "day", "--date", "2025-05-01")
	holder := fmt.Sprintf("web-1:%d", first.cmd.Process.Pid)
	for i, c := range []struct {
		options []string
		at      string
		slot    string
		waits   bool
	}{
		{[]string{"--every", "day"}, "2025-06-01", "2025-06-01", true},
		{[]string{"--every", "week"}, "2025-06-10", "2025-W24", true},
		{[]string{"--every", "month"}, "2025-07-10", "2025-07", true},
		{[]string{"--schedule", "0 2 * * *"}, "2025-08-01T02:00:00Z", "2025-08-01", true},
		{[]string{"--schedule", "0 2 * * 1"}, "2025-08-11T02:00:00Z", "2025-08-11", true},
		{[]string{"--every", "day", "--overlap", "skip"}, "2025-08-15", "2025-08-15", false},
		{[]string{"--every", "hour"}, "2025-09-01T02:00:00Z", "2025-09-01T02:00+00:00", false},
		{[]string{"--every", "12h"}, "2025-09-02T02:00:00Z", "2025-09-02T00:00+00:00", false},
		{[]string{"--schedule", "*/5 * * * *"}, "2025-09-03T02:00:00Z", "2025-09-03T02:00+00:00", false},
		{[]string{"--schedule", "30 1,13 * * *"}, "2025-09-04T02:00:00Z", "2025-09-04T01:30", false},
		{[]string{"--every", "5m", "--overlap", "wait"}, "2025-09-05T02:00:00Z", "2025-09-05T02:00+00:00", true},
	} {
		args := append([]string{"run", "--job", "sync", "--date", c.at, "--wait-max", "200ms"}, c.options...)
		r := newHost(t, fmt.Sprint("web-2", i)).run(append(args, "--", "echo", "ran")...)
		if c.waits {
			r.wantLike(t, exitNotDone, fmt.Sprintf(`onceonly: sync %s: not run: 2025-05-01 still running on %s after \S+`+"\n", strings.TrimSuffix(c.slot, "+00:00"), holder))
		} else {
			r.wantOut(t, "")
		}
		if s := stateOf(t, "sync", c.slot); (s == "skipped") == c.waits {
			t.Errorf("%v: the slot is %q", c.options, s)
		}
	}
	if s := stateOf(t, "sync", "2025-05-01"); s != "running" {
		t.Errorf("the holder's slot is %q", s)
	}
}

// Without --wait-max a waiter gives up when the line's next slot begins, by its own host's clock.
func TestWaitUntilTheNextSlot(t *testing.T) {
	t.Parallel()
	for job, off := range map[string]time.Duration{"ahead": 20 * time.Minute, "behind": -20 * time.Minute} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			first := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), "run", "--job", job, "--schedule", "* * * * *", "--date", "2025-06-01T00:00:00Z")
			h := newHost(t, "web-2")
			now := time.Now().Add(off).Truncate(time.Minute).Add(57 * time.Second) // three seconds before the next slot
			begun := time.Now()
			r := h.launchAs(h.commandAt(now, "run", "--job", job, "--schedule", "* * * * *", "--overlap", "wait", "--", "echo", "ran"))
			got := r.wait()
			waited := time.Since(begun)
			name := strings.TrimSuffix(now.UTC().Format("2006-01-02T15:04-07:00"), "+00:00")
			got.wantLike(t, exitNotDone, fmt.Sprintf(`onceonly: %s %s: not run: 2025-06-01T00:00 still running on web-1:%d after \S+`+"\n", job, name, first.cmd.Process.Pid))
			if waited < 2500*time.Millisecond {
				t.Errorf("gave up after %v, the next slot began after 3s", waited)
			}
		})
	}
}

// A waiter is woken by the end, and then everything is decided anew: of two that wait for one slot one runs and the other
// finds it taken; a pause that came meanwhile counts.
func TestWaiterDecidesAnew(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	run := func(job, day string) []string {
		return []string{"run", "--job", job, "--every", "day", "--date", day}
	}
	first := newHost(t, "web-1").hold(log, run("invoice", "2025-06-09")...)
	var waiters []*heldRun
	for i := range 3 {
		waiters = append(waiters, newHost(t, fmt.Sprint("web-2", i)).launch(append(run("invoice", "2025-06-10"), "--", "sh", "-c", `echo ran >>"$0"`, log)...))
	}
	waitsNow(t, "invoice", 3)
	first.open(1) // that yesterday's failed does not block today's
	first.wait().want(t, 1, "")
	for _, w := range waiters {
		w.wait().want(t, 0, "")
	}
	if all := lines(log); len(all) != 3 || all[2] != "ran" {
		t.Errorf("effects: %q", all)
	}

	first = newHost(t, "web-1").hold(log+"2", run("paused", "2025-06-09")...)
	waiter := newHost(t, "web-2").launch(append(run("paused", "2025-06-10"), "--", "touch", log+".ran")...)
	waitsNow(t, "paused", 1)
	slotPause(t, "paused")
	first.open(0)
	first.wait().want(t, 0, "")
	waiter.wait().want(t, 0, "")
	if _, err := os.Stat(log + ".ran"); err == nil {
		t.Error("a paused job ran")
	}
	if s := stateOf(t, "paused", "2025-06-10"); s != "paused" {
		t.Errorf("the paused slot is %q", s)
	}
}

// A signal that asks to stop ends a waiter at once: 128 and its number, and it leaves nothing behind. (SH-47)
func TestSignalToAWaiter(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	options := func(day string) []string {
		return []string{"run", "--job", "invoice", "--every", "day", "--attempts", "2", "--date", day}
	}
	holder := newHost(t, "web-1").hold(log, options("2025-06-09")...)
	held := slotLock(t, "invoice")
	gate := filepath.Join(t.TempDir(), "gate")
	for _, s := range heeded() {
		for kind, args := range map[string][]string{"waiting": options("2025-06-10"), "standing by": append(options("2025-06-09"), "--standby")} {
			w := newHost(t, "web-2").launch(append(args, gated(log, gate)...)...)
			waitsNow(t, "invoice", 1)
			sent := time.Now()
			w.cmd.Process.Signal(s)
			w.wait().want(t, 128+int(s), "")
			if took := time.Since(sent); took > time.Second {
				t.Errorf("%s, %v: ended after %v", kind, s, took)
			}
			waitsNow(t, "invoice", 0)
		}
	}
	wantLines(t, traceWords(t, log), "START 2025-06-09 1")
	if now := slotLock(t, "invoice"); now != held {
		t.Errorf("the lock is %q, was %q", now, held)
	}
	if e := entryOf(t, "invoice", "2025-06-09"); e.State != "running" || e.Attempt != 1 {
		t.Errorf("the holder's entry: %+v", e)
	}
	// A signal that met a question on its way leaves an entry that says so. It used up nothing.
	holder.open(0)
	holder.wait().want(t, 0, "")
	newHost(t, "web-3").run(append(options("2025-06-10"), "--", "sh", "-c", "echo $ONCEONLY_ATTEMPT")...).wantOut(t, "1\n")
}

// Whoever stands by takes over within a second of the lease's end, when the holder's host has died.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	options := []string{"run", "--job", "etl", "--date", "2025-06-10", "--attempts", "2", "--lease", "2s"}
	one := newHost(t, "web-1").hold(log, options...)
	gate := filepath.Join(t.TempDir(), "gate")
	os.WriteFile(gate, []byte("0"), 0o600)
	two := newHost(t, "web-2").launch(append(append(options, "--standby", "-v"), gated(log, gate)...)...)
	waitsNow(t, "etl", 1)
	one.die()
	left, killed := ttlOf(t, "etl"), time.Now()
	two.wait().wantLike(t, 0, fmt.Sprintf(`onceonly: etl 2025-06-10: standing by: running on web-1:%[1]d since [^\n]*
onceonly: etl 2025-06-10: taking over, attempt 2 of 2: web-1:%[1]d not heard of for [^\n]*
`, one.cmd.Process.Pid))
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
	if all := gateTraces(t, log); len(all) > 1 {
		if after := all[1].at.Sub(killed) - left; after < -100*time.Millisecond || after > time.Second {
			t.Errorf("taken over %v after the lease's end", after)
		}
		if all[1].token <= all[0].token {
			t.Errorf("tokens %d, %d", all[0].token, all[1].token)
		}
	}
}

// Whoever stands by has nothing to do when the holder's run ends well, is told when it fails for good, gives up at
// --wait-max, and is refused where nobody may take over.
func TestStandbyEnds(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	options := func(job string, more ...string) []string {
		return append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", "2", "--retry-delay", "10ms"}, more...)
	}
	two := newHost(t, "web-2")
	one := newHost(t, "web-1").hold(log, options("good")...)
	by := two.launch(append(options("good", "--standby"), "--", "touch", log+".ran")...)
	waitsNow(t, "good", 1)
	one.open(0)
	one.wait().want(t, 0, "")
	by.wait().want(t, 0, "")

	one = newHost(t, "web-1").hold(log, options("bad")...)
	by = two.launch(append(options("bad", "--standby"), "--", "touch", log+".ran")...)
	waitsNow(t, "bad", 1)
	one.open(4)
	one.wait().want(t, 4, "")
	by.wait().wantLike(t, exitNotDone, `onceonly: bad 2025-06-10: not run: failed on web-1 at [^\n]* \(exit 4\), no attempt left`+
		"\nonceonly: hint: onceonly resolve bad --date 2025-06-10 --done or --reopen, --reason TEXT\n")

	one = newHost(t, "web-1").hold(log, options("long")...)
	two.run(append(options("long", "--standby", "--wait-max", "300ms"), "--", "touch", log+".ran")...).wantLike(t, exitNotDone,
		fmt.Sprintf(`onceonly: long 2025-06-10: not run: 2025-06-10 still running on web-1:%d after \S+`+"\n", one.cmd.Process.Pid))
	two.run("run", "--job", "one", "--date", "2025-06-10", "--standby", "--", "touch", log+".ran").wantLike(t, exitUsage,
		`onceonly: --standby needs --attempts 2 or more`+"\n(onceonly: hint: [^\n]*\n)?")
	if _, err := os.Stat(log + ".ran"); err == nil {
		t.Error("whoever stood by ran the command")
	}
}
