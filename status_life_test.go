package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What status makes of a job's life: whether it needs attention, who holds it, what became of a run.

// A job of every five minutes that is not run any more is noticed, although its newest slot is always just due.
func TestStatusAttention(t *testing.T) {
	t.Parallel()
	day := func(name string, meta ...any) *seed {
		return newSeed(t, name, append([]any{"schedule", "0 2 * * *"}, meta...)...)
	}
	newSeed(t, "dead-tick", "schedule", "*/5 * * * *", "first", "2026-11-29T08:00+09:00").
		ran("2026-11-29T08:00+09:00", "2026-11-29T08:00:00+09:00", "2026-11-29T08:00:00+09:00", "web-1", time.Second, "")
	day("fresh", "first", "2026-11-29").days("2026-11-29", 1, "02:00:00")
	day("by-date", "first", "2026-11-29").days("2026-11-29", 1, "02:00:00").days("2026-11-25", 1, "02:00:00")
	day("paused", "first", "2026-11-26", "paused", fmt.Sprintf(`{"since":%d,"by":"kim"}`, msOf(t, "2026-11-27T00:00:00+09:00"))).
		days("2026-11-26", 1, "02:00:00")
	day("changed", "first", "2026-11-20T08:00+09:00").days("2026-11-29", 1, "02:00:00").
		ran("2026-11-20T08:00+09:00", "2026-11-20T08:00:00+09:00", "2026-11-20T08:00:00+09:00", "web-1", time.Second, `"state":"failed"`)
	day("resolved", "first", "2026-11-28").days("2026-11-29", 1, "02:00:00").ran("2026-11-28", "2026-11-28T02:00:00+09:00",
		"2026-11-28T02:00:00+09:00", "web-1", time.Second, `"state":"failed","exit":1,"resolved":{"as":"reopened","by":"kim"}`)
	day("old", "first", "2026-10-01").days("2026-11-29", 40, "02:00:00").
		ran("2026-10-21", "2026-10-21T02:00:00+09:00", "2026-10-21T02:00:00+09:00", "web-1", time.Second, `"state":"failed"`)
	day("pending", "schedule", "0 9 * * *", "first", "2026-11-28").days("2026-11-28", 1, "09:00:00")
	want := `
JOB        SLOT              STATE    HOST   AGO   TOOK  HISTORY
by-date    2026-11-29        done     web-2   7h  1m00s              ..
changed    2026-11-29        done     web-2   7h  1m00s              F.
dead-tick  2026-11-29T09:10  pending  -       1m      -  ------------- 
fresh      2026-11-29        done     web-2   7h  1m00s               .
old        2026-11-29        done     web-2   7h  1m00s  ..............
paused     2026-11-29        paused   -       7h      -            .ppp
pending    2026-11-29        pending  -      11m      -              . 
resolved   2026-11-29        done     web-2   7h  1m00s              F.
8 jobs, 1 needs attention: dead-tick
`
	same(t, view(t, statusAsk{}, seoulNow, 0), want)
	if got := view(t, statusAsk{}, "2026-11-29T09:15:00+09:00", 0); !strings.Contains(got, "2 need attention: dead-tick pending\n") {
		t.Errorf("15 minutes after 09:00 nobody is late:\n%s", got)
	}
	var old []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{job: "old", json: true}, seoulNow, 0)), &old); err != nil ||
		len(old[0].Attention) != 0 || old[0].Counts.Failed != 1 {
		t.Errorf("a slot that failed 39 days ago: %+v, %v", old, err)
	}
}

// Who holds the lease is told also when that is a run for an older slot.
func TestStatusHolder(t *testing.T) {
	t.Parallel()
	newSeed(t, "etl", "current", "2026-11-27").days("2026-11-29", 2, "02:00:00").ran("2026-11-27", "2026-11-27T00:00:00+09:00",
		"2026-11-29T09:00:00+09:00", "web-1", 0, `"state":"running","attempt":2,"run_id":"`+backupRuns+`"`).
		lock(backupRuns + "web-1:977")
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{json: true}, seoulNow, time.Minute)), &jobs); err != nil {
		t.Fatal(err)
	}
	h := jobs[0].Holder
	if h == nil || h.Slot == nil || *h.Slot != "2026-11-27" || *h.Attempt != 2 || *h.Host != "web-1" || *h.PID != 977 {
		t.Errorf("%+v", h)
	}
}

// Running, dead, done, failed: each is told as it is. (SH-64)
func TestStatusOfALife(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	state := func(job string) jobJSON {
		var jobs []jobJSON
		if r := h.run("status", "--json", job); r.status != 0 || json.Unmarshal([]byte(r.stdout), &jobs) != nil || len(jobs) != 1 {
			t.Fatal(r)
		}
		return jobs[0]
	}
	cmd := h.command("run", "--job", "etl", "--lease", "2s", "--", "sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "running", func() bool { return h.run("status", "etl").status == 0 && *state("etl").State == "running" })
	j := state("etl")
	if j.Holder == nil || *j.Holder.Host != "web-1" || *j.Holder.PID != int64(cmd.Process.Pid) || j.Holder.LeaseEndsAt == nil ||
		*j.Holder.RunID != *j.Slots[0].RunID || len(j.Attention) != 0 || j.Slots[0].ExitStatus != nil {
		t.Errorf("running: %+v %+v", j, j.Holder)
	}
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "uncertain", func() bool { return *state("etl").State == "uncertain" })
	if j = state("etl"); j.Holder != nil || len(j.Attention) != 1 || j.Attention[0].State != "uncertain" || j.Failures != 1 {
		t.Errorf("dead: %+v", j)
	}
	h.run("run", "--job", "bad", "--", "sh", "-c", "kill -KILL $$")
	h.run("run", "--job", "bad", "--date", "yesterday", "--", "true")
	if j = state("bad"); *j.State != "failed" || *j.Slots[0].Signal != "KILL" || j.Slots[0].ExitStatus != nil || *j.LastDone.EndedAt == "" {
		t.Errorf("failed: %+v", j)
	}
}

// Of slots that begin together, when the hour that the clock skips is over, each is known as due.
func TestDueTogether(t *testing.T) {
	c, err := newCallAt(t, instantOf(t, "2026-03-08T12:00:00Z"), map[string]string{"schedule": "15,30 2 * * *", "tz": "America/New_York"}, "etl")
	if err != nil {
		t.Fatal(err)
	}
	j := &jobState{line: &c.line}
	for _, name := range []string{"2026-03-08T02:15", "2026-03-08T02:30"} {
		s := must(c.line.named(name))(t)
		if due := j.due(&slotState{name: name, begins: millis(s.begins)}); due != millis(instantOf(t, "2026-03-08T07:00:00Z")) {
			t.Errorf("%s is due at %d", name, due)
		}
	}
	if due := j.due(&slotState{name: "2026-03-08T02:20", begins: millis(instantOf(t, "2026-03-08T07:00:00Z"))}); due != 0 {
		t.Errorf("no slot of the line is due at %d", due)
	}
}

// Two lines that differ only in how often they run have one command, so it is the slot by which the roll call tells them apart.
func TestStatusTellsLinesApart(t *testing.T) {
	t.Parallel()
	ask := func(host, every, date string) result {
		return newHost(t, host).run(append(strings.Fields("run --job j --every "+every+date), "--", "true")...)
	}
	ask("web-1", "day", "").wantOut(t, "")
	ask("web-2", "hour", " --date 2025-06-10T14:30:00Z").wantOut(t, "")
	ask("web-3", "day", "").wantOut(t, "")
	shown := newHost(t, "web-1").run("status", "j", "--hosts").stdout
	if !strings.HasSuffix(shown, "\nweb-2: 2025-06-10T14:00 is no slot of 'every day'\n") || strings.Count(shown, " is no slot of ") != 1 {
		t.Errorf("%s", shown)
	}
}
