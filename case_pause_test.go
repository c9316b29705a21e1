package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Pausing a job in the whole fleet, and stopping its holder: who, when and why is told.

// What somebody gave as reason is one line wherever it is told, and moves no cursor.
func TestPauseReason(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run(caseRun("j", "", "true")...).want(t, 0, "")
	h.run("pause", "j", "--reason", "two\nlines \x1b[31m").want(t, 0, "")
	for _, r := range []result{h.run("explain", "--job", "j", "--", "true"), h.run("status", "j"), h.run("status", "j", "--date", caseDay),
		h.run("run", "-v", "--job", "j", "--", "true"), h.run("status", "--brief")} {
		if said := r.stdout + r.stderr; strings.Contains(said, "\x1b") || strings.Contains(said, "two\nlines") {
			t.Errorf("%v", r)
		}
	}
}

// A pause keeps every host from starting, on the record, until it is resumed; nothing is made up for.
func TestPause(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
	log := filepath.Join(t.TempDir(), "log")
	who := web1.who()
	held := web2.hold(log, "run", "--job", "purge", "--every", "day", "--date", "2025-06-10")
	web1.run("pause", "-v", "purge", "--reason", "bank migration").want(t, 0,
		"onceonly: purge: paused by "+who+"; 2025-06-10 goes on running on web-2\n")
	held.open(0)
	held.wait().want(t, 0, "")
	today := time.Now().UTC().Format(time.DateOnly)
	ask := []string{"run", "--job", "purge", "--every", "day", "--", "sh", "-c", `echo ran >>"$0"`, log + ".ran"}
	web1.run(ask...).want(t, 0, "")
	web2.run(append([]string{"run", "-v"}, ask[1:]...)...).wantLike(t, 0,
		"onceonly: purge "+today+": not run: paused by "+who+" since "+today+": bank migration\n")
	if len(lines(log+".ran")) > 0 {
		t.Error("it ran")
	}
	r := web1.run("status", "purge")
	want := `(?s)^purge .*\npaused since [0-9: -]{16} by ` + who + `: bank migration\n.*\n` + today + `  paused +- +- +- +- +-\n`
	if !regexp.MustCompile(want).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	if p := pausedJSON(t, web1, "purge"); p == nil || p.Since == nil || p.Until != nil || *p.By != who || *p.Reason != "bank migration" {
		t.Errorf("%+v", p)
	}
	if r := web1.run("status"); !regexp.MustCompile(`(?m)^purge +` + today + `  paused +- .*p$`).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	web2.run("resume", "purge", "--reason", "it is over", "-v").want(t, 0, "onceonly: purge: may run again; nothing is made up for (1 slot was paused)\n")
	web2.run("resume", "purge", "-v").want(t, 0, "onceonly: purge: not paused\n")
	if p := pausedJSON(t, web1, "purge"); p != nil {
		t.Errorf("%+v", p)
	}
	view := web1.run("status", "purge", "--date", today).stdout
	for _, want := range []string{who + ` +pause +"bank migration"`, web2.who() + ` +resume +"it is over"`} {
		if !regexp.MustCompile(`(?m)^[0-9:]{8}  ` + want + `$`).MatchString(view) {
			t.Errorf("no %q in\n%s", want, view)
		}
	}
	web1.run(ask...).want(t, 0, "")
	if got := lines(log + ".ran"); len(got) != 1 {
		t.Errorf("allowed again, it ran %d times", len(got))
	}
}

func (h *host) who() string { return userName() + "@" + h.name }

func pausedJSON(t *testing.T, h *host, job string) *pauseJSON {
	t.Helper()
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(h.run("status", "--json", job).stdout), &jobs); err != nil || len(jobs) != 1 {
		t.Fatal(err, jobs)
	}
	return jobs[0].Paused
}

// A pause with an end is over then, in the job's zone, by Redis's clock.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1", "ONCEONLY_TZ=Asia/Seoul")
	h.run("run", "--job", "purge", "--", "true").want(t, 0, "")
	for _, c := range []struct{ until, said, json string }{
		{"2099-12-01", "2099-12-01 00:00", "2099-12-01T00:00:00+09:00"},
		{"2099-12-01T06:30", "2099-12-01 06:30", "2099-12-01T06:30:00+09:00"},
		{"2099-12-01 06:30", "2099-12-01 06:30", "2099-12-01T06:30:00+09:00"},
		{"2099-11-30T22:00:00Z", "2099-12-01 07:00", "2099-12-01T07:00:00+09:00"},
	} {
		h.run("pause", "purge", "-v", "--until", c.until).want(t, 0, "onceonly: purge: paused until "+c.said+" by "+h.who()+"\n")
		if p := pausedJSON(t, h, "purge"); p == nil || p.Until == nil || *p.Until != c.json || p.Reason != nil {
			t.Errorf("%+v, want until %s", p, c.json)
		}
	}
	for _, until := range []string{"2025-06-10", "2025-06-10T01:00:00Z"} {
		h.run("pause", "purge", "--until", until).wantLike(t, exitUsage, `onceonly: --until "`+until+`": is past: it is [0-9: -]+ there\n`)
	}
	until := time.Now().Add(1500 * time.Millisecond).UTC().Truncate(time.Second).Add(time.Second)
	h.run("pause", "purge", "--until", until.Format(time.RFC3339)).want(t, 0, "")
	log := filepath.Join(t.TempDir(), "log")
	ask := []string{"run", "--job", "purge", "--date", "2025-06-10", "--", "sh", "-c", `date +%s >>"$0"`, log}
	eventually(t, "the pause is over", func() bool { h.run(ask...).want(t, 0, ""); return len(lines(log)) > 0 })
	if ran := number(lines(log)[0]); ran < until.Unix() {
		t.Errorf("ran at %d, paused until %d", ran, until.Unix())
	}
}

// What was due while the job was paused, and that nobody asked for, has not been missed.
func TestPausedIsNotMissed(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	const every = "* * * * *"
	now := time.Now().UTC().Truncate(time.Minute)
	minute := func(ago int) string { return now.Add(-time.Duration(ago) * time.Minute).Format("2006-01-02T15:04") }
	run := func(ago int, more ...string) result {
		return h.run(append(append([]string{"run", "--job", "tick", "--schedule", every}, more...), "--", "true")...)
	}
	run(0, "--date", minute(30)).want(t, 0, "")
	since, until := now.Add(-20*time.Minute).UnixMilli(), now.Add(-10*time.Minute).UnixMilli()
	shared.rdb.HSet(context.Background(), jobKeys(t, "tick")[5], "paused", fmt.Sprintf(`{"n":2,"since":%d,"until":%d,"by":"kim@web-1"}`, since, until))
	r := run(0)
	if r.status != 0 || !strings.Contains(r.stderr, "missed ") {
		t.Fatalf("%v", r)
	}
	states := map[string]string{minute(29): "missed", minute(21): "missed", minute(20): "paused", minute(11): "paused", minute(10): "missed"}
	for name, want := range states {
		if e := entryOf(t, "tick", name+"+00:00"); e.State != want {
			t.Errorf("%s is %s, want %s", name, e.State, want)
		}
	}
	if strings.Contains(r.stderr, minute(15)) {
		t.Errorf("told as missed: %s", r.stderr)
	}
}

// A stop is told by the holder and shown with who and why; a day may be named, and nobody else is stopped.
func TestStopIsOnTheRecord(t *testing.T) {
	t.Parallel()
	h := newHost(t, "bastion")
	log := filepath.Join(t.TempDir(), "log")
	newHost(t, "web-3").run("run", "--job", "sync", "--", "true").want(t, 0, "")
	held := newHost(t, "web-3").hold(log, "run", "--job", "sync", "--date", "yesterday", "--lease", "2s", "--kill-after", "1s")
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	pid := entryOf(t, "sync", yesterday).PID
	h.run("stop", "sync", "--date", "today", "--reason", "x").wantLike(t, exitNo,
		fmt.Sprintf(`onceonly: sync \S+: not running; %s is, on web-3:%d\n`, yesterday, pid))
	h.run("stop", "-v", "--reason", "hangs on NFS", "sync", "--date", "yesterday").wantLike(t, 0,
		fmt.Sprintf(`onceonly: sync %s: asked web-3:%d to stop; it will hear within [0-2]s\n`, yesterday, pid))
	held.wait().want(t, exitNotDone, "onceonly: sync "+yesterday+": stopped by "+h.who()+": \"hangs on NFS\"\n")
	h.run("stop", "sync", "--reason", "x").want(t, exitNo, "onceonly: sync: nobody holds it\n")
	view := h.run("status", "sync", "--date", "yesterday").stdout
	for _, want := range []string{h.who() + ` +stop              "hangs on NFS"`, `web-3:\d+ +attempt 1 failed  TERM, stopped by ` + h.who()} {
		if !regexp.MustCompile(`(?m)^(\d\d-\d\d )?[0-9:]{8}  ` + want + `$`).MatchString(view) {
			t.Errorf("no %q in\n%s", want, view)
		}
	}
}

// Between the stop and the holder's end the slot is running, and its holder is known. (SH-64)
func TestStoppedStillRuns(t *testing.T) {
	t.Parallel()
	j := newLuaJob(t, shared.rdb)
	j.tell("begin a.1 s1 -> run 1\nstop -> stopped")
	h := newHost(t, "web-1")
	if r := h.run("status", "invoice"); !regexp.MustCompile(`(?m)^s1 +running +1  web-a `).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(h.run("status", "--json", "invoice").stdout), &jobs); err != nil {
		t.Fatal(err)
	}
	if o := jobs[0].Holder; o == nil || *o.Host != "web-a" || *o.PID != 1 || *o.RunID != strings.Repeat("a", 32) {
		t.Errorf("%+v", o)
	}
	h.run("resolve", "invoice", "--date", "s1", "--done", "--reason", "x").wantLike(t, exitNotDone,
		"onceonly: invoice s1: not settled: s1 on web-a:1 was told to stop, and has (1m0|5\\d)s for it\n")
}
