package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Waiting for another job's slot, and asking inside a command whether the job is still held.

// A waiter is woken by the end: 0 when the slot is done, 1 when it cannot become so any more, 75 when its time is over.
func TestWait(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
	log := filepath.Join(t.TempDir(), "log")
	for status, want := range map[int]string{0: "", 3: `onceonly: etl3 2025-06-10: failed on web-1 at [0-9: -]+ \(exit 3\), no attempt left\n` +
		`onceonly: hint: onceonly resolve etl3 --date 2025-06-10 --done or --reopen, --reason TEXT\n`} {
		job := "etl" + string(rune('0'+status))
		held := web1.hold(log+job, "run", "--job", job, "--date", "2025-06-10")
		w := web2.launch("wait", "--date", "2025-06-10", job)
		waitsNow(t, job, 1)
		held.open(status)
		opened := time.Now()
		w.wait().wantLike(t, map[int]int{0: 0, 3: 1}[status], want)
		if took := time.Since(opened); took > lookEvery {
			t.Errorf("woken after %v", took)
		}
		held.wait().want(t, status, "")
		// Once it is settled, it is at once.
		web2.run("wait", job, "--date", "2025-06-10").wantLike(t, map[int]int{0: 0, 3: 1}[status], want)
	}
	web1.run("resolve", "etl3", "--date", "2025-06-10", "--done", "--reason", "x").want(t, 0, "")
	web2.run("wait", "etl3", "--date", "2025-06-10").want(t, 0, "")
}

func TestWaitUncertain(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
	held := web1.hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "etl", "--date", "2025-06-10", "--lease", "1s")
	w := web2.launch("wait", "--date", "2025-06-10", "etl")
	waitsNow(t, "etl", 1)
	held.die()
	w.wait().wantLike(t, 1, `onceonly: etl 2025-06-10: uncertain: web-1:\d+ began at [0-9: -]+ and never reported; it may have done all, part or nothing\n`+
		`onceonly: hint: find out, then onceonly resolve etl --date 2025-06-10 --done or --reopen, --reason TEXT\n`)
}

// An attempt that never reported, where another one may follow, is waited for: somebody may take over.
func TestWaitTakeover(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
	held := web1.hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "etl", "--date", "2025-06-10", "--attempts", "2", "--lease", "1s")
	held.die()
	eventually(t, "the lease is over", func() bool { return !isHeld(t, "etl") })
	web2.run("wait", "--date", "2025-06-10", "etl", "--timeout", "100ms").wantLike(t, exitNotDone,
		`onceonly: etl 2025-06-10: not done after 0s: attempt 1 began on web-1 at \d\d-\d\d \d\d:\d\d:\d\d\n`)
}

// Without a date it is the newest slot of the job's line: yesterday's being done is not enough.
func TestWaitNewest(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	line := []string{"run", "--job", "etl", "--schedule", "0 0 * * *"}
	h.run(append(line, "--date", "yesterday", "--", "true")...).want(t, 0, "")
	shared.rdb.HSet(context.Background(), jobKeys(t, "etl")[5], "zone", "UTC") // as a run without a date leaves it
	today := time.Now().UTC().Format(time.DateOnly)
	h.run("wait", "etl", "--timeout", "300ms").want(t, exitNotDone, "onceonly: etl "+today+": not done after 0s: nobody has begun\n")
	w := waiting(t, h, "onceonly: etl "+today+": waiting: nobody has begun\n", "wait", "etl", "-v")
	h.run(append(line, "--", "true")...).want(t, 0, "")
	w()
	h.run("wait", "etl", "--date", "yesterday").want(t, 0, "")
	h.run("wait", "etl", "--date", "2025-13-01").wantLike(t, exitUsage, `onceonly: --date "2025-13-01": there is no such day\n`)
}

// waiting starts a wait, and returns when it has said this; what it returns wants it to end well, with nothing more to say.
func waiting(t *testing.T, h *host, said string, words ...string) func() {
	t.Helper()
	p := caseStart(t, h.command(words...))
	eventually(t, "it says that it waits", func() bool { text, _ := os.ReadFile(p.err); return string(text) == said })
	return func() { t.Helper(); p.wait().want(t, 0, said) }
}

// A job that was never seen may be new: it is waited for.
func TestWaitForNewJob(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "invoice", "--", "true").want(t, 0, "")
	h.run("wait", "invocie", "--timeout", "100ms").want(t, exitNotDone,
		"onceonly: invocie: not done after 0s: no such job yet in namespace "+namespaceOf(t)+"\n")
	w := waiting(t, h, "onceonly: new: waiting: no such job yet in namespace "+namespaceOf(t)+"\n", "wait", "-v", "new")
	h.run("run", "--job", "new", "--", "true").want(t, 0, "")
	w()
}

// A signal that asks to stop ends the wait at once: 128+n, also while Redis does not answer. (SH-47)
func TestWaitSignal(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	w := h.start("wait", "etl")
	waitsNow(t, "etl", 1)
	w.cmd.Process.Signal(syscall.SIGTERM)
	w.result(t).want(t, 128+15, "")
	p := newProxy(t, shared.address())
	p.swallow(true, true)
	w = newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).start("wait", "etl")
	eventually(t, "it has asked", func() bool { return p.connections() > 0 })
	w.cmd.Process.Signal(syscall.SIGINT)
	w.result(t).want(t, 128+2, "")
}

// SH-53: a job after another, in one crontab line.
func TestWaitThenRun(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	log := filepath.Join(t.TempDir(), "log")
	w := h.launch("run", "--job", "report", "--", "sh", "-c", `onceonly wait etl && echo report >>"$0"`, log)
	waitsNow(t, "etl", 1)
	h.run("run", "--job", "etl", "--", "sh", "-c", `echo etl >>"$0"`, log).want(t, 0, "")
	w.wait().want(t, 0, "")
	wantLines(t, lines(log), "etl", "report")
}

// check inside a command: yes while the lease is this run's, no when it is not, and "cannot tell" apart from both.
func TestCheck(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	inside := func(more ...string) []string {
		return append(append([]string{"run", "--job", "pay", "--date", "2025-06-10", "--rerun", "--reason", "x", "--lease", "30s"}, more...), "--", "sh", "-c")
	}
	h.run(append(inside(), "onceonly check && onceonly check --left 20s")...).want(t, 0, "")
	h.run(append(inside(), "onceonly check --left 30s")...).wantLike(t, exitNotDone, `onceonly: pay 2025-06-10: not the holder: (30|29)s of the lease are left\n`)
	h.run(append(inside(), "ONCEONLY_RUN_ID="+strings.Repeat("0", 32)+" onceonly check")...).wantLike(t, exitNotDone, `onceonly: pay 2025-06-10: not the holder: web-1:\d+ holds the lease\n`)
	h.run(append(inside(), "ONCEONLY_FENCING_TOKEN=1 onceonly check")...).wantLike(t, exitNotDone, `onceonly: pay 2025-06-10: not the holder: its token 1 is outdated by \d+\n`)
	h.run(append(inside(), "ONCEONLY_NAMESPACE=elsewhere onceonly check")...).want(t, exitAway,
		"onceonly: pay 2025-06-10: cannot tell: no such job in namespace elsewhere\n"+
			"onceonly: hint: ONCEONLY_NAMESPACE and ONCEONLY_REDIS in the environment or /etc/onceonly.conf, as for the run\n")
	h.run(append(inside(), "ONCEONLY_REDIS=redis://127.0.0.1:1 onceonly check --redis-wait 0s")...).wantLike(t, exitAway,
		`onceonly: pay 2025-06-10: cannot tell: Redis at 127.0.0.1:1 not reached in 0s: connection refused\n`)
	h.run("check").want(t, exitUsage, "onceonly: check: not inside a run: no ONCEONLY_JOB\nonceonly: hint: it is for the command of onceonly run\n")
	h.run(append(inside(), "ONCEONLY_FENCING_TOKEN=x onceonly check")...).wantLike(t, exitUsage, "onceonly: check: not inside a run: no run ID or token of onceonly\n.*")
	h.run(append(inside(), "ONCEONLY_JOB=-x onceonly check")...).want(t, exitUsage,
		"onceonly: ONCEONLY_JOB \"-x\": a name is 1 to 200 bytes of printable UTF-8 and does not begin with \"-\"\n")
	h.run("check", "pay").want(t, exitUsage, "onceonly: check: \"pay\" left over\n")
}

// A command whose run was stopped, or whose lease is gone, hears so from check before onceonly tells it.
func TestCheckAfterStop(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "pay", "--date", "2025-06-10", "--lease", "1m", "--", "sh", "-c",
		`onceonly stop pay --reason 'by mistake'; onceonly check`).wantLike(t, exitNotDone,
		`onceonly: pay 2025-06-10: not the holder: stopped by `+regexp.QuoteMeta(h.who())+`: "by mistake"\n(onceonly: [^\n]*\n)*`)
	h.run("run", "--job", "gone", "--date", "2025-06-10", "--lease", "1m", "--", "sh", "-c",
		`redis-cli -s "$0" del "$1" >/dev/null; onceonly check`, shared.socket, jobKeys(t, "gone")[0]).wantLike(t, exitNotDone,
		`onceonly: gone 2025-06-10: not the holder: nobody holds the lease\n`)
}
