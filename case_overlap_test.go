package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about runs that meet: yesterday's is still going, a host dies, somebody stands by.

// A heldRun is an onceonly that has been started and not waited for. Its command runs until the gate is opened.
type heldRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	gate   string
	stderr bytes.Buffer
	ended  chan struct{}
	err    error
}

// launch starts onceonly, and returns at once.
func (h *host) launch(args ...string) *heldRun {
	h.t.Helper()
	return h.launchAs(h.command(args...))
}

func (h *host) launchAs(cmd *exec.Cmd) *heldRun {
	h.t.Helper()
	r := &heldRun{t: h.t, cmd: cmd, ended: make(chan struct{})}
	r.cmd.Stderr = &r.stderr
	if err := r.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { r.err = r.cmd.Wait(); close(r.ended) }()
	h.t.Cleanup(func() { r.cmd.Process.Kill(); <-r.ended })
	return r
}

// hold runs a command that writes to its log, and ends with the status that is written into its gate. It returns when the
// command has begun.
func (h *host) hold(log string, options ...string) *heldRun {
	h.t.Helper()
	gate := filepath.Join(h.t.TempDir(), "gate")
	r := h.launch(append(options, gated(log, gate)...)...)
	r.gate = gate
	eventually(h.t, "the command has begun", func() bool { return len(lines(gate+".began")) > 0 || r.over() })
	return r
}

// gated is a command that logs START, waits for the gate, and logs END.
func gated(log, gate string) []string {
	return []string{"--", "sh", "-c", `echo START $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"
		echo began >>"$1.began"; while [ ! -s "$1" ]; do sleep 0.02; done
		echo END $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"; exit $(cat "$1")`, log, gate}
}

func (r *heldRun) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// open lets the command end with that status.
func (r *heldRun) open(status int) {
	if err := os.WriteFile(r.gate+".new", fmt.Append(nil, status), 0o600); err != nil {
		r.t.Error(err)
	}
	if err := os.Rename(r.gate+".new", r.gate); err != nil {
		r.t.Error(err)
	}
}

// wait returns what it left, when it has ended.
func (r *heldRun) wait() result {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.t.Errorf("%v does not end", r.cmd.Args)
		r.cmd.Process.Kill()
		<-r.ended
	}
	return result{exitStatus(r.t, r.err), "", r.stderr.String()}
}

// die kills it and its command, as if the host went off.
func (r *heldRun) die() {
	r.t.Helper()
	child := childOf(r.t, r.cmd.Process.Pid)
	r.cmd.Process.Kill()
	syscall.Kill(-child, syscall.SIGKILL)
	<-r.ended
}

// A gateTrace is a line of gated's log.
type gateTrace struct {
	word, slot     string
	attempt, token int64
	runID          string
	pid            int
	at             time.Time
}

func gateTraces(t *testing.T, log string) []gateTrace {
	t.Helper()
	var all []gateTrace
	for _, text := range lines(log) {
		var e gateTrace
		var at int64
		if _, err := fmt.Sscan(text, &e.word, &e.slot, &e.attempt, &e.token, &e.runID, &e.pid, &at); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		e.at = time.Unix(0, at)
		all = append(all, e)
	}
	return all
}

// traceWords are what a log says, for comparison: START 2025-06-01 1.
func traceWords(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	for _, e := range gateTraces(t, log) {
		all = append(all, fmt.Sprintf("%s %s %d", e.word, e.slot, e.attempt))
	}
	return all
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// jobKeys are the keys of a job in the shared Redis: lock fence ledger slots log meta hosts.
func jobKeys(t *testing.T, job string) []string {
	return (&ledger{shared.rdb, namespaceOf(t)}).keys(job)
}

func slotLock(t *testing.T, job string) string {
	v, _ := shared.rdb.Get(context.Background(), jobKeys(t, job)[0]).Result()
	return v
}

// ttlOf is what is left of the lease; negative if there is none.
func ttlOf(t *testing.T, job string) time.Duration {
	d, err := shared.rdb.PTTL(context.Background(), jobKeys(t, job)[0]).Result()
	if err != nil {
		t.Error(err)
	}
	return d
}

// waitsNow waits until so many processes listen for the end of a job's run. Each asks once more after that, and sleeps then.
func waitsNow(t *testing.T, job string, n int64) {
	t.Helper()
	channel := (&ledger{shared.rdb, namespaceOf(t)}).channel(job)
	eventually(t, fmt.Sprint(n, " wait"), func() bool {
		all, err := shared.rdb.PubSubNumSub(context.Background(), channel).Result()
		return err == nil && all[channel] == n
	})
}

// slotPause pauses a job, as `onceonly pause` does.
func slotPause(t *testing.T, job string) {
	t.Helper()
	text := fmt.Sprintf(`{"by":"kim@web-9","since":%d,"reason":"migration"}`, time.Now().UnixMilli())
	if err := shared.rdb.HSet(context.Background(), jobKeys(t, job)[5], "paused", text).Err(); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t *testing.T, job, slot string) string {
	t.Helper()
	if n, _ := shared.rdb.HExists(context.Background(), jobKeys(t, job)[2], slot).Result(); !n {
		return ""
	}
	return entryOf(t, job, slot).State
}

// A whole host dies. With an attempt left the next host that asks takes over when the lease is over, not before and not more
// than a second later, and its token is greater. (SH-04)
func TestWholeHostDies(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	options := []string{"run", "--job", "etl", "--date", "2025-06-10", "--attempts", "2", "--lease", "3s"}
	one := newHost(t, "web-1").hold(log, options...)
	one.die()
	left, killed := ttlOf(t, "etl"), time.Now()
	var two *heldRun
	gate := filepath.Join(t.TempDir(), "gate")
	os.WriteFile(gate, []byte("0"), 0o600)
	for competitor := newHost(t, "web-2"); time.Since(killed) < 15*time.Second && len(gateTraces(t, log)) < 2; {
		two = competitor.launch(append(options, gated(log, gate)...)...)
		if r := two.wait(); r.status != 0 {
			t.Errorf("the competitor: %v", r)
		}
	}
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
	all := gateTraces(t, log)
	if len(all) < 2 {
		return
	}
	if after := all[1].at.Sub(killed); after < left-100*time.Millisecond || after > left+time.Second {
		t.Errorf("taken over %v after the kill, when the lease had %v left", after, left)
	}
	if all[1].token <= all[0].token || all[1].runID == all[0].runID {
		t.Errorf("the second attempt's token and run ID: %+v after %+v", all[1], all[0])
	}
	if e := entryOf(t, "etl", "2025-06-10"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Token != all[1].token {
		t.Errorf("the entry: %+v", e)
	}
	if !strings.HasPrefix(two.stderr.String(), "onceonly: etl 2025-06-10: taking over, attempt 2 of 2: web-1:") {
		t.Errorf("it says %q", two.stderr.String())
	}
}

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
// how long. (DESIGN 2, 4)
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
// finds it taken; a pause that came meanwhile counts. (rulings 2, 3)
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

// heeded are the signals that ask to stop, without those that these tests were started ignoring (nohup, a shell's &): they stay
// ignored.
func heeded() (all []syscall.Signal) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
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

func slotWrite(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func slotRemove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}
