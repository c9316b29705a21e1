package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Settling a slot by hand: what the hints say can be typed, and what was settled is on the record.

// typed has a shell run what a hint says, with one of its two ways and a reason.
func (h *host) typed(hint, way string) result {
	h.t.Helper()
	line := map[string]string{"--done": strings.Replace(hint, "--done or --reopen,", "--done", 1),
		"--reopen": strings.Replace(hint, "--done or --reopen,", "--reopen", 1)}[way]
	cmd := exec.Command("sh", "-c", strings.Replace(line, "TEXT", "'checked with the bank'", 1))
	cmd.Env = h.env
	out, err := cmd.CombinedOutput()
	return result{exitStatus(h.t, err), "", string(out)}
}

// SH-12, SH-68: the hint of a slot that waits for a person is what to type, both ways; then one host runs it, or none.
func TestResolveByHint(t *testing.T) {
	t.Parallel()
	hint := regexp.MustCompile(`(?m)^onceonly: hint: (?:find out, then )?(onceonly resolve .*)$`)
	for _, c := range []struct{ job, way, left string }{{"failed", "--done", "failed"}, {"failed", "--reopen", "failed"},
		{"uncertain", "--done", "uncertain"}, {"uncertain", "--reopen", "uncertain"}, {"it's late", "--done", "failed"},
		{"ticks", "--reopen", "failed"}} {
		t.Run(c.job+c.way, func(t *testing.T) {
			t.Parallel()
			log, date := filepath.Join(t.TempDir(), "log"), "2025-06-10"
			line := []string{"run", "--job", c.job, "--lease", "1s"}
			if c.job == "ticks" {
				line, date = append(line, "--schedule", "*/5 * * * *"), "2025-06-10T14:05"
			}
			web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
			// A run without a date, so that the ledger knows the line.
			web1.run(append(line, "--", "true")...).want(t, 0, "")
			line = append(line, "--date", date)
			if c.left == "uncertain" {
				web1.hold(log, line...).die()
				eventually(t, "the lease is over", func() bool { return slotLock(t, c.job) == "" })
			} else {
				web1.run(append(line, "--", "false")...).want(t, 1, "")
			}
			ran := append(line, "--", "sh", "-c", `echo $ONCEONLY_ATTEMPT >>"$0"`, log+".ran")
			told := web2.run(ran...)
			m := hint.FindStringSubmatch(told.stderr)
			if told.status != exitNotDone || m == nil {
				t.Fatalf("no hint: %v", told)
			}
			web1.typed(m[1], c.way).want(t, 0, "")
			for _, h := range []*host{web2, newHost(t, "web-3"), web2} {
				h.run(ran...).wantLike(t, 0, "(onceonly: uncertain 2025-06-10: taking over, attempt 2 of 2: [^\n]*\n)?")
			}
			want := map[string]string{"--done": "", "--reopen": "2"}[c.way]
			if got := strings.Join(lines(log+".ran"), " "); got != want {
				t.Errorf("attempts after %s: %q, want %q", c.way, got, want)
			}
			if r := web1.run("status", c.job); strings.Contains(r.stdout, "onceonly resolve") || r.status != 0 {
				t.Errorf("still to be settled: %v", r)
			}
		})
	}
}

// SH-12: a failed slot is run again by an ordinary call, once, after it was reopened; also with a corrected line.
func TestResolveReopen(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1"), newHost(t, "web-2")
	web1.run("run", "--job", "invoice", "--", "false").want(t, 1, "")
	today := time.Now().UTC().Format(time.DateOnly)
	web2.run("run", "--job", "invoice", "--", "false").wantLike(t, exitNotDone, ".*no attempt left.*")
	web2.run("run", "--job", "invoice", "--", "false").want(t, exitNotDone, "")
	r := web1.run("resolve", "--date", "today", "invoice", "--reopen", "-v", "--reason", "disk replaced")
	r.want(t, 0, "onceonly: invoice "+today+": one more attempt allowed; nothing starts by itself\n"+
		"onceonly: hint: onceonly run --job invoice --date "+today+" -- COMMAND, on a host that has the line\n")
	// A person has it in hand; what to type stands below the slot.
	for view, want := range map[string][]string{web1.run("status", "invoice").stdout: {"none needs attention", "  reopened by "},
		web1.run("status", "invoice", "--date", today).stdout: {"   failed, 1 attempt left", `reopened "disk replaced"`,
			"\nonceonly run --job invoice --date " + today + " -- COMMAND\n"}} {
		for _, text := range want {
			if !strings.Contains(view, text) {
				t.Errorf("status lacks %q:\n%s", text, view)
			}
		}
	}
	web1.run("run", "--job", "invoice", "--", "true").want(t, 0, "") // another line on the same host
	web2.run("run", "--job", "invoice", "--", "true").want(t, exitDisagree, web2.run("run", "--job", "invoice", "--", "true").stderr)
	if e := entryOf(t, "invoice", today); e.State != "done" || e.Attempt != 2 || e.Reopened || e.Resolved != nil {
		t.Errorf("%+v", e)
	}
	web1.run("resolve", "invoice", "--date", "today", "--done", "--reason", "x", "-v").want(t, 0, "onceonly: invoice "+today+": done already\n")
}

// Who, when and why: in the views, in the JSON, in the log, and told to whoever asks. (SH-63, SH-64)
func TestResolveIsOnTheRecord(t *testing.T) {
	t.Parallel()
	web1, web2 := newHost(t, "web-1", "SUDO_USER=kim"), newHost(t, "web-2")
	who := userName() + "@web-1"
	if userName() == "root" {
		who = "kim@web-1"
	}
	log := filepath.Join(t.TempDir(), "log")
	web1.run("run", "--job", "etl", "--", "true").want(t, 0, "")
	web2.hold(log, "run", "--job", "etl", "--date", "2025-06-10", "--lease", "1s").die()
	eventually(t, "the lease is over", func() bool { return slotLock(t, "etl") == "" })
	was := entryOf(t, "etl", "2025-06-10")
	web1.run("resolve", "etl", "--done", "--date", "2025-06-10", "--reason", "checked with \"bank\"", "--verbose").
		want(t, 0, "onceonly: etl 2025-06-10: done, by "+who+": \"checked with \\\"bank\\\"\"\n")
	newHost(t, "web-3").run("run", "--job", "etl", "--date", "2025-06-10", "-v", "--", "true").
		wantLike(t, 0, `onceonly: etl 2025-06-10: not run: done, by `+who+` at [0-9: -]+: "checked with \\"bank\\""\n`)
	view := web1.run("status", "etl", "--date", "2025-06-10").stdout
	for _, want := range []string{`(?m)^etl 2025-06-10   done, resolved by ` + who + ` `, `(?m)^  1  uncertain  web-2:\d+  .*  ` + fmt.Sprint(was.Token) + `$`,
		`(?m)^\d\d-\d\d [0-9:]{8}  ` + who + ` *resolve           done "checked with \\"bank\\""$`} {
		if !regexp.MustCompile(want).MatchString(view) {
			t.Errorf("status --date has no %q:\n%s", want, view)
		}
	}
	if strings.Contains(view, "onceonly resolve") {
		t.Errorf("it is settled:\n%s", view)
	}
	name, _, _ := strings.Cut(who, "@")
	if r := web1.run("status", "etl"); !regexp.MustCompile(`(?m)^2025-06-10  done +1  web-2  [0-9: -]+ - +-  resolved by ` + name + `$`).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	var jobs []struct {
		Slots []slotJSON `json:"slots"`
	}
	if err := json.Unmarshal([]byte(web1.run("status", "--json", "etl", "--date", "2025-06-10").stdout), &jobs); err != nil {
		t.Fatal(err)
	}
	s := jobs[0].Slots[0]
	if r := s.Resolved; r == nil || *r.As != "done" || *r.By != who || *r.Reason != `checked with "bank"` || r.At == nil ||
		*s.State != "done" || *s.RunID != was.RunID || *s.Token != was.Token || s.EndedAt != nil || s.ExitStatus != nil ||
		len(*s.Attempts) != 1 || (*s.Attempts)[0].State != "uncertain" {
		text, _ := json.Marshal(s)
		t.Errorf("%s", text)
	}
}

// A slot that never began is done by hand, a missed one is no longer missed; each runs never again. (SH-66)
func TestResolveNeverBegan(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "invoice", "--schedule", "0 0 * * *", "--", "true").want(t, 0, "")
	h.run("run", "--job", "invoice", "--schedule", "0 0 * * *", "--date", "2025-06-01", "--", "true").want(t, 0, "")
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	h.run("resolve", "invoice", "--date", "yesterday", "--reopen", "--reason", "x").want(t, exitNo,
		"onceonly: invoice "+yesterday+": nothing to reopen: it runs when it is asked for\n"+
			"onceonly: hint: onceonly run --job invoice --date "+yesterday+" -- COMMAND\n")
	for _, date := range []string{"yesterday", "2025-06-02"} {
		h.run("resolve", "invoice", "--date", date, "--done", "--reason", "no data that day").want(t, 0, "")
		h.run("run", "--job", "invoice", "--schedule", "0 0 * * *", "--date", date, "--exit-done", "9", "--", "true").want(t, 9, "")
	}
	if e := entryOf(t, "invoice", "2025-06-02"); e.Attempt != 0 || e.State != "done" || e.Host != "" {
		t.Errorf("%+v", e)
	}
	r := h.run("status", "invoice", "-n", "0")
	if !regexp.MustCompile(`(?m)^` + yesterday + `  done +-  - +- +- +-  resolved by \w+$`).MatchString(r.stdout) {
		t.Errorf("%s", r.stdout)
	}
	r = h.run("status", "invoice", "--date", "2025-06-02")
	if strings.Contains(r.stdout, "ATT") || !strings.Contains(r.stdout, `resolve           done "no data that day"`) {
		t.Errorf("%s", r.stdout)
	}
}

// While anybody holds the job nothing is settled, and one that was told to stop holds it until it has.
func TestResolveHeld(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	log := filepath.Join(t.TempDir(), "log")
	held := newHost(t, "web-2").hold(log, "run", "--job", "sync", "--date", "2025-06-10")
	pid := entryOf(t, "sync", "2025-06-10").PID
	refused := fmt.Sprintf("onceonly: sync 2025-06-10: not settled: 2025-06-10 is running on web-2:%d\n"+
		"onceonly: hint: wait for its end, or onceonly stop sync --reason TEXT\n", pid)
	for _, way := range []string{"--done", "--reopen"} {
		h.run("resolve", "sync", "--date", "2025-06-10", way, "--reason", "x").want(t, exitNotDone, refused)
	}
	held.open(0)
	held.wait().want(t, 0, "")
	h.run("resolve", "sync", "--date", "2025-06-10", "--reopen", "--reason", "x").want(t, 0, "")
}

// An end that comes late, from a host's disk, does not change what a person has settled; it is told as stale.
func TestResolveThenLateEnd(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	p := newProxy(t, r.address())
	web1 := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url())
	web2 := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url())
	log := filepath.Join(t.TempDir(), "log")
	held := web1.hold(log, "run", "--job", "pay", "--date", "2025-06-10", "--lease", "2s")
	p.refuse()
	held.open(1)
	if got := held.wait(); got.status != 1 || !strings.Contains(got.stderr, "not recorded") {
		t.Fatalf("%v", got)
	}
	k := (&ledger{r.rdb, namespaceOf(t)}).keys("pay")
	eventually(t, "the lease is over", func() bool { return r.rdb.Exists(context.Background(), k[0]).Val() == 0 })
	web2.run("resolve", "pay", "--date", "2025-06-10", "--done", "--reason", "paid").want(t, 0, "")
	p.pass()
	got := web1.run("run", "--job", "pay", "--date", "2025-06-11", "--", "true")
	if got.status != 0 || !strings.Contains(got.stderr, "pay 2025-06-10: attempt 1 (web-1, exit 1) reported late; what ") ||
		!strings.Contains(got.stderr, " has settled stands\n") {
		t.Errorf("%v", got)
	}
	if e := entryIn(t, r.rdb, namespaceOf(t), "pay", "2025-06-10"); e.State != "done" || e.Stale != 1 {
		t.Errorf("%+v", e)
	}
	if got := web2.run("status", "pay", "-n", "0"); !strings.Contains(got.stdout, "stale +1") {
		t.Errorf("%s", got.stdout)
	}
}

// A lease that lapsed, and a person who did not wait: the run is stopped at its next renewal, and who has settled the slot
// is named; one that ends before that finds its end refused.
func TestResolveLapsed(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	settle := func(job string) {
		t.Helper()
		shared.rdb.Del(context.Background(), lockKey(t, job))
		h.run("resolve", job, "--date", caseDay, "--done", "--reason", "x").want(t, 0, "")
	}
	held := h.hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "renewing", "--date", caseDay, "--lease", "1s", "--kill-after", "1s")
	settle("renewing")
	held.wait().want(t, exitNotDone, "onceonly: renewing "+caseDay+": stopped: lease lost: "+h.who()+" has settled the slot\n")
	held = h.hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "ending", "--date", caseDay, "--lease", "1m")
	settle("ending")
	held.open(0)
	held.wait().want(t, exitNotDone, "onceonly: ending "+caseDay+": attempt 1 ended after "+h.who()+" had settled the slot; that stands\n")
}

// What the ledger has forgotten is not settled, nor is anything while somebody holds a job of which Redis has lost whose it is.
func TestResolveRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "kept", "--keep", "10", "--", "true").want(t, 0, "") // which leaves the line
	for day := 10; day < 21; day++ {
		h.run("run", "--job", "kept", "--keep", "10", "--date", fmt.Sprintf("2024-02-%d", day), "--", "true").want(t, 0, "")
	}
	h.run("resolve", "kept", "--date", "2024-02-11", "--done", "--reason", "x").want(t, exitNotDone,
		"onceonly: kept 2024-02-11: not settled: the ledger reaches back to 2024-02-12, nobody can say whether it ran\n")
	h.run(caseRun("lost", "", "true")...).want(t, 0, "")
	ctx, k := context.Background(), jobKeys(t, "lost")
	shared.rdb.HDel(ctx, k[5], "current")
	shared.rdb.Set(ctx, k[0], strings.Repeat("0", 32)+"web-2:1", time.Minute)
	h.run("resolve", "lost", "--date", caseDay, "--reopen", "--reason", "x").want(t, exitNotDone, "onceonly: lost "+caseDay+
		": not settled: somebody holds the job\nonceonly: hint: wait for its end, or onceonly stop lost --reason TEXT\n")
	odd := (&hand{settings: initial(), job: "j"}).resolved(&jobState{job: "j", chosen: &slotState{name: caseDay}}, &resolveReply{Verdict: "odd"})
	if e, ok := odd.(*exit); !ok || e.status != exitBug || e.msg != "j "+caseDay+`: not settled: unknown verdict "odd"` {
		t.Errorf("%v", odd)
	}
}
