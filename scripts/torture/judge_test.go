//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A judge that cannot fail proves nothing: what it is shown is broken once for each thing that an invariant forbids.

const (
	runA, runB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	tokenA     = 1000
	tokenB     = 2000
)

// after is an instant of the made-up scene.
func after(d time.Duration) boot { return boot(time.Hour).add(d) }

// madeUp is a scene in which all is well: a slot's first attempt fails on h0, its second succeeds on h1.
func madeUp(t *testing.T) *dossier {
	t.Helper()
	l := &line{job: "s1-a", lease: 2 * time.Second, attempts: 2}
	h := newHistory()
	s := &scene{plan: &plan{kind: alone, nemeses: []string{"N1"}}, stage: &stage{seed: "made up", logf: t.Logf}, history: h,
		hosts: []*host{{name: "h0", state: t.TempDir()}}, lines: []*line{l}}
	d := &dossier{scene: s, line: l, byToken: map[int64]*work{}, once: map[string]int{date(0): 1}, entries: map[string]*entry{}}
	d.attempt("h0", runA, 1, tokenA, after(0), statusFailing)
	d.attempt("h1", runB, 2, tokenB, after(5*time.Second), 0)
	d.entries[date(0)] = &entry{State: "done", RunID: runB, Try: 1, Attempt: 2, Token: tokenB, Host: "h1", PID: 102}
	return d
}

// attempt adds one of a second: what was asked about it, what it wrote, how it ended, and how its onceonly left.
func (d *dossier) attempt(host, run string, number int, token int64, at boot, status int) {
	state := map[bool]string{true: "done", false: "failed"}[status == 0]
	pid := 100 + number
	a := &ask{job: d.line.job, slot: date(0), host: host, pid: pid, attempts: 2, began: at, ended: at.add(time.Second + 100*time.Millisecond),
		status: status}
	l := &life{job: d.line.job, slot: date(0), run: run, attempt: number, token: token, wrapper: pid, pid: 200 + number, host: host,
		began: at.add(20 * time.Millisecond), exits: at.add(time.Second), status: status}
	d.history.asks, d.history.byPID[pid] = append(d.history.asks, a), a
	d.history.order = append(d.history.order, l)
	w := d.work(token, l)
	w.first, w.last, w.writes, w.ended = at.add(30*time.Millisecond), at.add(990*time.Millisecond), 100, at.add(time.Second)
	d.works = append(d.works, w)
	for range 3 {
		d.fenced = append(d.fenced, fencedRow{token, run})
	}
	ask := func(kind, state, verdict string, after time.Duration) {
		d.requests = append(d.requests, &request{kind: kind, host: host, job: d.line.job, slot: date(0), run: run, try: 1, pid: pid, state: state,
			release: kind == "finish", received: at.add(after), executed: at.add(after + time.Millisecond),
			delivered: at.add(after + 2*time.Millisecond), verdict: verdict, token: token, attempt: number})
	}
	ask("begin", "", "run", 10*time.Millisecond)
	ask("renew", "", "renewed", 510*time.Millisecond)
	ask("finish", state, "ok", time.Second+10*time.Millisecond)
	d.events = append(d.events, event{what: "begin", slot: date(0), token: token},
		event{what: "end", slot: date(0), state: state, token: token})
}

// judge is what verdict does, without PostgreSQL and Redis.
func (d *dossier) judge() *verdict {
	v := &verdict{scene: d.plan, excused: map[string]int{}}
	for _, w := range d.works {
		d.complete(w)
	}
	d.judgeEffects(v)
	d.judgeEnds(v)
	d.judgeStarts(v)
	d.judgeSettled(v)
	d.judgeHistory(v)
	d.judgeProcesses(v)
	return v
}

func TestJudgeFindsNothing(t *testing.T) {
	d := madeUp(t)
	if v := d.judge(); len(v.violations) > 0 || v.figures.linear != 6 {
		t.Errorf("%+v, %d linearizable", v.violations, v.figures.linear)
	}
}

func TestJudgeFinds(t *testing.T) {
	for what, c := range map[string]struct {
		invariant string
		harm      func(*dossier)
	}{
		"an older token after a newer": {"I1", func(d *dossier) { d.fenced = append(d.fenced, fencedRow{tokenA, runA}) }},
		"a token of two runs":          {"I1", func(d *dossier) { d.fenced = append(d.fenced, fencedRow{tokenB, runA}) }},
		"an attempt with two tokens": {"I1", func(d *dossier) {
			again := *d.requests[0]
			again.token++
			d.requests = append(d.requests, &again)
		}},
		"a later start with a lower token": {"I1", func(d *dossier) { d.works[1].token = tokenA - 1 }},
		"two effects":                      {"I2", func(d *dossier) { d.once[date(0)] = 2 }},
		"two attempts at a time":           {"I3", func(d *dossier) { d.works[0].last = d.works[1].first.add(time.Millisecond) }},
		"a write after the deadline":       {"I4", func(d *dossier) { d.works[1].last = after(8 * time.Second) }},
		"an end that nobody was told":      {"I5", func(d *dossier) { d.events = d.events[:3] }},
		"an end told twice":                {"I5", func(d *dossier) { d.events = append(d.events, d.events[3]) }},
		"an end that is still kept": {"I5", func(d *dossier) {
			os.WriteFile(filepath.Join(d.hosts[0].state, "x.1.json"), nil, 0o600)
		}},
		"done, and never came to its end":   {"I6", func(d *dossier) { d.works[1].ended = never }},
		"done by an attempt that failed":    {"I6", func(d *dossier) { d.works[1].life.status = statusFailing }},
		"done by a token that nobody had":   {"I6", func(d *dossier) { d.entries[date(0)].Token++ }},
		"done in the log, and failed":       {"I6", func(d *dossier) { d.events[1].state = "done" }},
		"uncertain, and nobody was killed":  {"I6", func(d *dossier) { d.entries[date(0)].State = "running" }},
		"one start too many":                {"I7", func(d *dossier) { d.line.attempts = 1 }},
		"one start too many, the clock off": {"I7", func(d *dossier) { d.line.attempts, d.stepped = 1, true }},
		"granted beside a lease": {"I7", func(d *dossier) {
			d.requests = append(d.requests[:2], d.requests[3:]...)
			d.requests[1].received += boot(3 * time.Second)
		}},
		"granted again after done":             {"I7", func(d *dossier) { d.requests[2].state = "done" }},
		"0, and the command failed":            {"I8", func(d *dossier) { d.history.asks[0].status = 0 }},
		"done before, and there was a command": {"I8", func(d *dossier) { d.history.asks[1].status = statusDone }},
		"another status than the command's":    {"I8", func(d *dossier) { d.history.asks[1].status = statusFailing }},
		"75 after a command, and no word":      {"I8", func(d *dossier) { d.history.asks[1].status = 75 }},
		"a status that nobody knows":           {"I8", func(d *dossier) { d.history.asks[1].status = 2 }},
		"a slot that is not in the ledger":     {"I9", func(d *dossier) { delete(d.entries, date(0)) }},
		"a slot not tried again":               {"I9", func(d *dossier) { *d.entries[date(0)] = entry{State: "failed", RunID: runA, Attempt: 1, Token: tokenA} }},
		"an onceonly that does not end":        {"I9", func(d *dossier) { d.history.asks[1].ended = never }},
		"a process that lives on":              {"I10", func(d *dossier) { d.history.orphans = []orphan{{runB, 202, after(20 * time.Second)}} }},
		"a renewal of a lease that is over": {"I11", func(d *dossier) {
			r := d.requests[1]
			r.received, r.executed = after(5500*time.Millisecond), after(5501*time.Millisecond)
		}},
		"a token granted twice": {"I11", func(d *dossier) { d.requests[3].token = tokenA }},
	} {
		t.Run(what, func(t *testing.T) {
			d := madeUp(t)
			c.harm(d)
			if v := d.judge(); !v.found(c.invariant) {
				t.Errorf("%s is not found: %+v", c.invariant, v.violations)
			}
		})
	}
}

// What the promise does not cover is excused, and no more than that.
func TestJudgeExcuses(t *testing.T) {
	for what, c := range map[string]struct {
		target     string
		begin, end time.Duration
		guarded    bool
		excused    bool
	}{
		"all, past the deadline":                   {"all", 5500 * time.Millisecond, 9 * time.Second, true, true},
		"all, awake before it":                     {"all", 5500 * time.Millisecond, 6 * time.Second, true, false},
		"onceonly alone, with a guard":             {"wrapper", 5500 * time.Millisecond, 9 * time.Second, true, false},
		"onceonly alone, before there was a guard": {"wrapper", 5500 * time.Millisecond, 9 * time.Second, false, true},
		"the command alone":                        {"command", 5500 * time.Millisecond, 9 * time.Second, true, false},
		"an attempt before this":                   {"all", 0, time.Second, true, false},
	} {
		t.Run(what, func(t *testing.T) {
			d := madeUp(t)
			d.works[1].last = after(8 * time.Second)
			d.history.freezes = []*freeze{{target: c.target, wrapper: 102, guarded: c.guarded, begin: after(c.begin), end: after(c.end)}}
			if v := d.judge(); v.found("I4") == c.excused || (v.excused["I4"] > 0) != c.excused {
				t.Errorf("%+v, excused %v", v.violations, v.excused)
			}
		})
	}
}

// The sinks are read as they were written.
func TestSinksAreRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "judge")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	j, err := newJudge(filepath.Join(dir, "judge"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.stop()
	ctx := context.Background()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := j.conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("SELECT set_config('torture.job', 's1-a', false), set_config('torture.token', '1000', false), set_config('torture.run', $1, false)", runA)
	const row = " (job, slot, attempt, token, run, at) VALUES ('s1-a', '2020-01-01', 1, 1000, $1, $2)"
	exec("INSERT INTO raw"+row, runA, 5)
	exec("INSERT INTO raw"+row, runA, 9)
	exec("INSERT INTO fenced"+row, runA, 6)
	exec("INSERT INTO refused"+row, runA, 7)
	exec("INSERT INTO once"+row, runA, 8)
	exec("INSERT INTO once"+row, runB, 8)
	exec("INSERT INTO ended"+row, runA, 10)
	d := &dossier{scene: &scene{}, line: &line{job: "s1-a"}, byToken: map[int64]*work{}, once: map[string]int{}}
	if err := d.readSinks(j.conn); err != nil {
		t.Fatal(err)
	}
	w := d.byToken[1000]
	if w == nil || w.first != 5 || w.last != 9 || w.writes != 2 || w.refused != 1 || w.ended != 10 || len(d.fenced) != 1 || d.once["2020-01-01"] != 2 {
		t.Errorf("%+v, fenced %v, once %v", w, d.fenced, d.once)
	}
	exec("SELECT set_config('torture.token', '999', false)")
	if _, err := j.conn.Exec(ctx, "INSERT INTO fenced"+row, runA, 11); err == nil {
		t.Error("the fence took an older token")
	}
}

// A round in which a nemesis never took effect, or nothing ran, is void.
func TestReportJudgesItself(t *testing.T) {
	round := func(harm func(*figures, *report)) *report {
		r := newReport()
		f := figures{runs: 10, slots: 10, writes: 10, linear: 10, refused: 1, acts: map[string]int{"N3": 1}, hits: map[string]int{}}
		for _, step := range steps {
			f.hits[step] = leastHits
		}
		r.took, r.whole = time.Hour, true
		harm(&f, r)
		r.take(&verdict{scene: &plan{nemeses: []string{"N3"}}, figures: f})
		r.judgeItself()
		return r
	}
	if r := round(func(*figures, *report) {}); r.wrong() {
		t.Errorf("%q", r.failed)
	}
	for what, harm := range map[string]func(*figures, *report){
		"no effect":          func(f *figures, _ *report) { f.acts = nil },
		"nothing ran":        func(f *figures, _ *report) { f.runs = 0 },
		"nothing written":    func(f *figures, _ *report) { f.writes = 0 },
		"no history":         func(f *figures, _ *report) { f.linear = 0 },
		"no stale write":     func(f *figures, _ *report) { f.refused = 0 },
		"a step rarely hit":  func(f *figures, _ *report) { f.hits[stepFinish] = leastHits - 1 },
		"a control uncaught": func(_ *figures, r *report) { r.failed = append(r.failed, "not caught") },
	} {
		if r := round(harm); !r.void() || !r.wrong() {
			t.Errorf("%s: not void", what)
		}
	}
}
