package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Cases of real users about what fails: who tries again, how often, and under which lease.

// failing is a command that logs an attempt and ends with the next status of a list, at last with its last.
func failing(log string, statuses ...int) []string {
	return []string{"--", "sh", "-c", `echo START $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"
		n=$ONCEONLY_ATTEMPT; while [ $n -gt 1 ] && [ $# -gt 1 ]; do shift; n=$((n-1)); done
		echo END $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"; exit $1`,
		log, strings.Trim(fmt.Sprint(statuses), "[]")}
}

// apart gives failing's statuses as words of their own.
func apart(words []string) []string {
	last := len(words) - 1
	return append(words[:last:last], strings.Fields(words[last])...)
}

// delaying starts a job whose first attempt fails with 5 and whose next one is an hour away, and returns in between.
func delaying(t *testing.T, job, log string, more ...string) *heldRun {
	t.Helper()
	options := append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", "3", "--retry-delay", "1h", "--lease", "2s"}, more...)
	r := newHost(t, "web-1").launch(append(options, apart(failing(log, 5))...)...)
	eventually(t, "the first attempt has failed", func() bool {
		return stateOf(t, job, "2025-06-10") == "failed"
	})
	return r
}

// A failed run does not count. With an attempt left the next host has it; without, nobody tries again until somebody says
// so, and the slot never looks done. (SH-12, but for resolve)
//
// Manual: the command fails
func TestFailedRunDoesNotCount(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	// The first host fails and is told to stop before it tries again itself.
	one := delaying(t, "two", log)
	one.cmd.Process.Signal(syscall.SIGTERM)
	one.wait().want(t, 5, "")
	ask := func(name, job, log string, attempts int, more ...string) result {
		t.Helper()
		options := append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", fmt.Sprint(attempts)}, more...)
		return newHost(t, name).run(append(options, apart(failing(log, 1, 0))...)...)
	}
	ask("web-2", "two", log, 3).want(t, 0, "")
	ask("web-3", "two", log, 3).want(t, 0, "")
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
	if e := entryOf(t, "two", "2025-06-10"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" {
		t.Errorf("the entry: %+v", e)
	}

	log += "1"
	ask("web-1", "one", log, 1).want(t, 1, "")
	ask("web-2", "one", log, 1).wantLike(t, exitNotDone, `onceonly: one 2025-06-10: not run: failed on web-1 at [^\n]* \(exit 1\), no attempt left`+
		"\nonceonly: hint: onceonly resolve one --date 2025-06-10 --done or --reopen, --reason TEXT\n")
	ask("web-3", "one", log, 1).want(t, exitNotDone, "")
	ask("web-2", "one", log, 1, "--exit-failed", "3").want(t, 3, "")
	ask("web-3", "one", log, 1, "-v").wantLike(t, exitNotDone, `onceonly: one 2025-06-10: not run: failed on web-1 .*`)
	if e := entryOf(t, "one", "2025-06-10"); e.State != "failed" || e.Exit == nil || *e.Exit != 1 {
		t.Errorf("the entry: %+v", e)
	}
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1")
	ask("web-2", "one", log, 1, "--rerun", "--reason", "fixed").want(t, 0, "")
	ask("web-3", "one", log, 1).want(t, 0, "")
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
}

// askTenTimes has twenty hosts ask ten times each, mostly at once: how often each status came, and how many said something.
func askTenTimes(t *testing.T, args []string) (statuses map[int]int, told int) {
	t.Helper()
	statuses = map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for round := range 10 {
		for i := range 20 {
			all.Go(func() {
				r := newHost(t, fmt.Sprint("web-", i)).run(args...)
				mu.Lock()
				defer mu.Unlock()
				statuses[r.status]++
				if r.stderr != "" {
					told++
					if !strings.Contains(r.stderr, "(exit 1), no attempt left\n") {
						t.Errorf("%v", r)
					}
				}
			})
		}
		if round%3 == 2 {
			all.Wait()
		}
	}
	all.Wait()
	return statuses, told
}

// Twenty hosts and a job that always fails at once do not make a storm: three starts when three were asked for, one
// otherwise, however often they ask; one line in the fleet, and no key more than at the beginning. (SH-13)
func TestAttemptStorm(t *testing.T) {
	t.Parallel()
	for job, attempts := range map[string]int{"three": 3, "one": 1} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			statuses, told := askTenTimes(t, append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", fmt.Sprint(attempts),
				"--retry-delay", "200ms"}, apart(failing(log, 1))...))
			var want []string
			token := int64(0)
			for n := range attempts {
				want = append(want, fmt.Sprintf("START 2025-06-10 %d", n+1), fmt.Sprintf("END 2025-06-10 %d", n+1))
			}
			wantLines(t, traceWords(t, log), want...) // so none overlapped
			for _, e := range gateTraces(t, log) {
				if e.word == "START" && e.token <= token {
					t.Errorf("token %d after %d", e.token, token)
				}
				token = e.token
			}
			if statuses[1] != 1 || statuses[0]+statuses[1]+statuses[exitNotDone] != 200 || statuses[exitNotDone] < 20 || told != 1 {
				t.Errorf("statuses %v, %d told", statuses, told)
			}
			if e := entryOf(t, job, "2025-06-10"); e.State != "failed" || e.Attempt != attempts {
				t.Errorf("the entry: %+v", e)
			}
			keys, _ := shared.rdb.Keys(context.Background(), namespaceOf(t)+":*").Result()
			if len(keys) > 7 {
				t.Errorf("keys: %q", keys)
			}
		})
	}
}

// The next attempt of the same process keeps the lease: nobody could ever have got in between. It has the same run ID, a greater
// token and the next number. The delay grows by half.
func TestNextAttemptKeepsTheLease(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	const first, attempts = 100 * time.Millisecond, 7
	r := newHost(t, "web-1").launch(append([]string{"run", "--job", "etl", "--date", "2025-06-10", "--attempts", fmt.Sprint(attempts + 1), "--retry-delay",
		first.String(), "--lease", "2s", "-v"}, apart(failing(log, 1, 1, 1, 1, 1, 1, 0))...)...)
	eventually(t, "the lease is held", func() bool { return slotLock(t, "etl") != "" })
	samples := 0
	for id := slotLock(t, "etl"); len(gateTraces(t, log)) < 2*attempts && !r.over(); samples++ {
		if now := slotLock(t, "etl"); now != id && len(gateTraces(t, log)) < 2*attempts-1 {
			t.Fatalf("the lease was held by %q, and then by %q, after %d lines of the log", id, now, len(gateTraces(t, log)))
		}
	}
	want := ""
	for n := range attempts - 1 {
		want += fmt.Sprintf(`onceonly: etl 2025-06-10: attempt %d of %d: attempt %d failed on web-1 \(exit 1\)`+"\n", n+2, attempts+1, n+1)
	}
	r.wait().wantLike(t, 0, want)
	wantNoLock(t, "etl")
	all := gateTraces(t, log)
	if len(all) != 2*attempts {
		t.Fatalf("%q", traceWords(t, log))
	}
	for n := 1; n < attempts; n++ {
		before, e := all[2*n-1], all[2*n]
		if e.attempt != int64(n+1) || e.runID != before.runID || e.token <= before.token {
			t.Errorf("%+v after %+v", e, before)
		}
		shortest := first / 2
		for range n - 1 {
			shortest += shortest / 2
		}
		if gap := e.at.Sub(before.at); gap < shortest {
			t.Errorf("attempt %d began %v after the one before, not %v or more", n+1, gap, shortest)
		}
	}
	if samples < 100 {
		t.Errorf("only %d looks at the lease", samples)
	}
	if e := entryOf(t, "etl", "2025-06-10"); e.State != "done" || e.Attempt != attempts || e.Try != attempts {
		t.Errorf("the entry: %+v", e)
	}
}

// A signal during the delay ends it: the last status, and the lease is free at once for whoever comes next.
func TestSignalDuringTheDelay(t *testing.T) {
	t.Parallel()
	for _, s := range heeded() {
		log, job := filepath.Join(t.TempDir(), "log"), fmt.Sprint("etl-", int(s))
		r := delaying(t, job, log)
		r.cmd.Process.Signal(s)
		r.wait().want(t, 5, "")
		wantNoLock(t, job)
		if e := entryOf(t, job, "2025-06-10"); e.State != "failed" || e.Attempt != 1 || e.Kept {
			t.Errorf("the entry: %+v", e)
		}
		newHost(t, "web-2").run(append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", "2"}, apart(failing(log, 5, 0))...)...).want(t, 0, "")
		wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
	}
	// One that asks for nothing is no reason to stop, and none to try again at once.
	log := filepath.Join(t.TempDir(), "log")
	r := delaying(t, "usr1", log)
	r.cmd.Process.Signal(syscall.SIGUSR1)
	r.cmd.Process.Signal(syscall.SIGWINCH)
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond && !r.over(); { // longer than the lease
		if slotLock(t, "usr1") == "" {
			t.Fatal("the lease was not kept during the delay")
		}
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait().want(t, 5, "")
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1")
}

// A signal that comes while the end of an attempt is written is not lost: there is no delay, and no other attempt.
func TestSignalBeforeTheDelay(t *testing.T) {
	t.Parallel()
	c, err := newCallAt(t, time.Now(), map[string]string{"job": "etl", "attempts": "2", "retry-delay": "1h"}, "false")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{call: c, voice: &voice{w: &bytes.Buffer{}}, signals: make(chan os.Signal, 1)}
	c.ledger.AddHook(&hookAt{2, func() {
		r.signals <- unix.SIGTERM
		eventually(t, "the signal is taken", func() bool { return len(r.signals) == 0 })
	}})
	ended := make(chan *exit, 1)
	go func() { ended <- r.decide() }()
	select {
	case e := <-ended:
		if e == nil || e.status != 1 {
			t.Errorf("%+v", e)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for its next attempt")
	}
	wantNoLock(t, "etl")
	if e := entryOf(t, "etl", c.slot.name); e.State != "failed" || e.Attempt != 1 || e.Kept {
		t.Errorf("the entry: %+v", e)
	}
}

// No attempt is begun when the job was paused during the delay, or when the lease is gone or somebody else's: the exit is the
// last status, and what is somebody else's is left alone.
func TestDelayThatComesToNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	foreign := strings.Repeat("f", 32) + "web-9:1"
	for job, meddle := range map[string]func(t *testing.T, lock string){
		"paused":  func(t *testing.T, _ string) { slotPause(t, "paused") },
		"deleted": func(t *testing.T, lock string) { shared.rdb.Del(ctx, lock) },
		"taken":   func(t *testing.T, lock string) { shared.rdb.Set(ctx, lock, foreign, time.Minute) },
	} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			options := []string{"run", "--job", job, "--date", "2025-06-10", "--attempts", "3", "--retry-delay", "2s", "--lease", "2s"}
			r := newHost(t, "web-1").launch(append(options, apart(failing(log, 5))...)...)
			eventually(t, "the first attempt has failed", func() bool { return stateOf(t, job, "2025-06-10") == "failed" })
			meddle(t, jobKeys(t, job)[0])
			if got := r.wait(); got.status != 5 || strings.Count(got.stderr, "\n") > 1 {
				t.Errorf("%v", got)
			}
			wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1")
			if e := entryOf(t, job, "2025-06-10"); e.State != "failed" || e.Attempt != 1 {
				t.Errorf("the entry: %+v", e)
			}
			if job != "taken" {
				wantNoLock(t, job)
			} else if ttl := ttlOf(t, job); slotLock(t, job) != foreign || ttl < 50*time.Second {
				t.Errorf("somebody else's lease became %q, %v", slotLock(t, job), ttl)
			}
			// What was not done may be done by others: a pause ends, a foreign lease too.
			shared.rdb.HDel(ctx, jobKeys(t, job)[5], "paused")
			shared.rdb.Del(ctx, jobKeys(t, job)[0])
			newHost(t, "web-2").run(append([]string{"run", "--job", job, "--date", "2025-06-10", "--attempts", "3"}, apart(failing(log, 5, 0))...)...).want(t, 0, "")
			wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2")
		})
	}
}

// A process that is killed during the delay keeps nobody from going on: the next host has the next attempt when the lease is
// over, and not before.
func TestKilledDuringTheDelay(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	r := delaying(t, "etl", log)
	r.cmd.Process.Kill()
	r.wait()
	left, killed := ttlOf(t, "etl"), time.Now()
	two := newHost(t, "web-2")
	args := append([]string{"run", "--job", "etl", "--date", "2025-06-10", "--attempts", "3"}, apart(failing(log, 5, 0))...)
	eventually(t, "another host goes on", func() bool {
		if r := two.run(args...); r.status != 0 {
			t.Fatalf("%v", r)
		}
		return len(gateTraces(t, log)) == 4
	})
	all := gateTraces(t, log)
	if after := all[2].at.Sub(killed); after < left-100*time.Millisecond || after > left+time.Second {
		t.Errorf("went on %v after the kill, when the lease had %v left", after, left)
	}
	if all[2].attempt != 2 || all[2].token <= all[0].token || all[2].runID == all[0].runID {
		t.Errorf("%+v after %+v", all[2], all[0])
	}
}

// What an attempt leaves running is killed before the next one begins: two attempts never work at once.
func TestLeftoversKilledBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	r := newHost(t, "web-1").run("run", "--job", "etl", "--date", "2025-06-10", "--attempts", "2", "--retry-delay", "10ms", "--", "sh", "-c", `
		if [ $ONCEONLY_ATTEMPT = 1 ]; then
			sleep 600 >/dev/null 2>&1 & echo $! >>"$0"
			sh -c 'trap "" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 & echo $! >>"$0"
			exit 1
		fi
		for p in $(cat "$0"); do
			if [ -e /proc/$p/stat ] && ! grep -q '^[0-9]* ([^)]*) Z' /proc/$p/stat; then echo $p lives; fi
		done`, pids)
	if len(lines(pids)) != 2 {
		t.Errorf("attempt 1 left %q", lines(pids))
	}
	r.wantOut(t, "")
}
