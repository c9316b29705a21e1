package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about running again by hand what is settled.

// A day that is run by hand is a slot of its own: it neither takes today's place nor is taken for it, and is run once. To run
// it again must be asked for, and is a further attempt that status shows. (SH-21)
func TestCaseBackfillBesideToday(t *testing.T) {
	t.Parallel()
	// A zone in which it is about noon, so that no day ends meanwhile. Its name counts to the west.
	now := time.Now().UTC()
	east := 12 - now.Hour()
	now = now.Add(time.Duration(east) * time.Hour)
	log, h := filepath.Join(t.TempDir(), "log"), newHost(t, "web-1", fmt.Sprintf("ONCEONLY_TZ=Etc/GMT%+d", -east))
	run := func(more ...string) result {
		t.Helper()
		words := []string{"sh", "-c", `echo "$ONCEONLY_BUSINESS_DATE $ONCEONLY_ATTEMPT" >>"$0"`, log}
		return h.run(slices.Concat([]string{"run", "--job", "etl", "--every", "day"}, more, []string{"--"}, words)...)
	}
	past, today := now.AddDate(0, 0, -3).Format(time.DateOnly), now.Format(time.DateOnly)
	run("--date", past).want(t, 0, "")
	run().want(t, 0, "")
	run("--date", past).want(t, 0, "")
	run().want(t, 0, "")
	wantLines(t, lines(log), past+" 1", today+" 1")
	for _, day := range []string{past, today} {
		if e := entryOf(t, "etl", day); e.State != "done" || e.Attempt != 1 {
			t.Errorf("%s: %+v", day, e)
		}
	}
	run("--date", past, "--rerun", "--reason", "amounts were wrong").want(t, 0, "")
	wantLines(t, lines(log), past+" 1", today+" 1", past+" 2")
	if got := h.run("status", "etl", "--date", past); !strings.Contains(got.stdout, `rerun             "amounts were wrong"`) {
		t.Errorf("status: %v", got)
	}
}

// rerun asks for a further attempt by hand.
var rerun = []string{"--rerun", "--reason", "amounts were wrong"}

// A rerunner is two hosts, and a command for one day that does well, or fails with 7.
type rerunner struct {
	log        string
	web1, web2 *host
	good, bad  []string
}

func newRerunner(t *testing.T) *rerunner {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	return &rerunner{log, newHost(t, "web-1"), newHost(t, "web-2"), apart(failing(log, 0)), apart(failing(log, 7))}
}

func (r *rerunner) run(h *host, job string, words []string, more ...string) result {
	return h.run(slices.Concat([]string{"run", "--job", job, "--date", "2025-06-10", "--lease", "1s"}, more, words)...)
}

// A rerun is one further attempt at a slot that is done, by hand and on the record, however it ends.
func TestRerunOfDone(t *testing.T) {
	t.Parallel()
	r := newRerunner(t)
	run, log, web1, web2, good, bad := r.run, r.log, r.web1, r.web2, r.good, r.bad
	run(web1, "done", good).want(t, 0, "")
	run(web2, "done", good, rerun...).want(t, 0, "")
	if e := entryOf(t, "done", "2025-06-10"); e.State != "done" || e.Attempt != 2 || e.Host != "web-2" || e.Rerun != "amounts were wrong" || len(e.Earlier) != 1 {
		t.Errorf("done: %+v", e)
	}
	run(web2, "done", bad, rerun...).want(t, 7, "") // a corrected line, which fails; once, whatever attempts says
	if e := entryOf(t, "done", "2025-06-10"); e.State != "failed" || e.Attempt != 3 {
		t.Errorf("done, failed: %+v", e)
	}
	run(web2, "done", bad, append(rerun, "--attempts", "9", "--retry-delay", "1ms")...).want(t, 7, "")
	run(web1, "done", good, rerun...).want(t, 0, "")
	run(web1, "done", good).want(t, 0, "")
	wantLines(t, traceWords(t, log), "START 2025-06-10 1", "END 2025-06-10 1", "START 2025-06-10 2", "END 2025-06-10 2", "START 2025-06-10 3", "END 2025-06-10 3",
		"START 2025-06-10 4", "END 2025-06-10 4", "START 2025-06-10 5", "END 2025-06-10 5")
	token := int64(0)
	for _, e := range gateTraces(t, log) {
		if e.word == "START" && e.token <= token {
			t.Errorf("token %d after %d", e.token, token)
		}
		token = e.token
	}
}

// A slot that failed can be run again, and then by a line that was corrected.
func TestRerunOfFailed(t *testing.T) {
	t.Parallel()
	r := newRerunner(t)
	run, web1, good, bad := r.run, r.web1, r.good, r.bad
	run(web1, "failed", bad).want(t, 7, "")
	run(web1, "failed", bad).wantLike(t, exitNotDone, "onceonly: failed 2025-06-10: not run: failed .*")
	run(web1, "failed", good).wantLike(t, exitDisagree, "onceonly: failed 2025-06-10: not run: another line of this host has the same name.*")
	run(web1, "failed", good, rerun...).want(t, 0, "") // the corrected line
	run(web1, "failed", good).want(t, 0, "")           // which is the host's from now on
	run(web1, "failed", bad).wantLike(t, exitDisagree, "onceonly: failed 2025-06-10: not run: another line of this host has the same name.*")
}

// A rerun finds the slot busy while it runs, and takes it over when it has become uncertain.
func TestRerunOfUncertain(t *testing.T) {
	t.Parallel()
	r := newRerunner(t)
	run, log, web1, web2, good := r.run, r.log, r.web1, r.web2, r.good
	one := web1.hold(log+"2", "run", "--job", "uncertain", "--date", "2025-06-10", "--lease", "1s")
	run(web2, "uncertain", good, rerun...).want(t, 0, "")
	run(web2, "uncertain", good, append(rerun, "--exit-busy", "9")...).want(t, 9, "")
	one.die()
	eventually(t, "the lease is over", func() bool { return slotLock(t, "uncertain") == "" })
	web2.run("run", "--job", "uncertain", "--date", "2025-06-11", "--", "true") // another slot's run, which was heard of since
	run(web2, "uncertain", good, rerun...).wantLike(t, 0,
		"onceonly: uncertain 2025-06-10: taking over, attempt 2 of 2: web-1:[0-9]+ not heard of for [1-9][^\n]*\n")
	wantLines(t, traceWords(t, log), "START 2025-06-10 2", "END 2025-06-10 2")
	if e := entryOf(t, "uncertain", "2025-06-10"); e.State != "done" || e.Attempt != 2 || e.Rerun == "" {
		t.Errorf("uncertain: %+v", e)
	}
}

// A rerun is refused while the job is paused, and without the date or the reason.
func TestRerunRefused(t *testing.T) {
	t.Parallel()
	r := newRerunner(t)
	run, log, web1, web2, good, bad := r.run, r.log, r.web1, r.web2, r.good, r.bad
	run(web1, "paused", good).want(t, 0, "")
	slotPause(t, "paused")
	run(web2, "paused", bad, rerun...).wantLike(t, exitNotDone, `onceonly: paused 2025-06-10: not run: paused by kim@web-9 since [0-9-]+: migration\n`)
	for _, c := range [][]string{{"--rerun", "--reason", "x"}, {"--rerun", "--date", "2025-06-10"}, {"--reason", "x", "--date", "2025-06-10"},
		{"--rerun", "--reason", "", "--date", "2025-06-10"}, {"--rerun", "--reason", "x", "--date", ""}} {
		web1.run(append(append([]string{"run", "--job", "done"}, c...), "--", "touch", log+".ran")...).wantLike(t, exitUsage, `onceonly: --.*`)
	}
	if _, err := os.Stat(log + ".ran"); err == nil {
		t.Error("a rerun without date or reason ran")
	}
}
