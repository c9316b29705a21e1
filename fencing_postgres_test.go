package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The recipes for PostgreSQL.

const (
	work     = "-- here the job writes\n"
	workPart = "-- here a part of the job writes\n"
)

// newSink is a database with the tables of the page, and one that the job writes: who, in which order.
func newSink(t *testing.T) *database {
	t.Helper()
	d := newDatabase(t)
	d.do(fencingText(t, "tables"))
	d.do(`CREATE TABLE report (id bigserial PRIMARY KEY, token bigint, total int)`)
	return d
}

// TestFencingPostgresAsShown runs the scripts of the page as they stand, by one writer after the other.
func TestFencingPostgresAsShown(t *testing.T) {
	t.Parallel()
	a, b := meet(0)
	tie := writer{b.token, a.run}
	const write = "INSERT INTO report (token) VALUES (:token);\n"
	for name, c := range map[string]struct {
		sql  string
		want string // who has written, in the end
		ends []int  // of the writers a, a, b, a, tie, b
	}{
		"first": {changed(t, fencingText(t, "first"), work, write), "aabb", []int{0, 0, 0, 3, 3, 0}},
		"share": {fencingText(t, "first") + changed(t, fencingText(t, "share"), workPart, write), "aabb", []int{0, 0, 0, 3, 3, 0}},
		"once":  {changed(t, fencingText(t, "once"), work, write), "a", []int{0, 0, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, dir := newSink(t), t.TempDir()
			newScript(t, dir, "report.sql", c.sql)
			script := newScript(t, dir, "report", fencingText(t, "values"), "/srv/", dir+"/")
			for i, w := range []writer{a, a, b, a, tie, b} {
				cmd := exec.Command(script)
				cmd.Env = append(append(os.Environ(), d.env...), w.env()...)
				out, err := cmd.CombinedOutput()
				if status := exitStatus(t, err); status != c.ends[i] || (status == 0) != (len(out) == 0) {
					t.Errorf("writer %d: status %d, want %d: %s", i, status, c.ends[i], out)
				}
			}
			got := strings.NewReplacer(fmt.Sprint(a.token), "a", fmt.Sprint(b.token), "b", "\n", "").
				Replace(d.do("SELECT token FROM report ORDER BY id"))
			if got != c.want {
				t.Errorf("written by %s, want %s", got, c.want)
			}
		})
	}
}

// A recipe is what a writer does, cut into the steps between which it may be frozen.
type recipe struct{ steps []string }

// cut cuts a transaction of the page after its BEGIN, its question and its work.
func cut(t *testing.T, sql, at, write string) []string {
	t.Helper()
	before, after, found := strings.Cut(sql, at)
	begin, question, begun := strings.Cut(before, ";\n")
	if !found || !begun {
		t.Fatalf("not a transaction: %s", sql)
	}
	return []string{begin + ";", question, write, after}
}

// do does the steps, and says whether the last one was done. Before each it may be frozen.
func (r recipe) do(s *session, w writer, frozen func(at int)) bool {
	s.do(fmt.Sprintf("\\set job report\n\\set key %d\n\\set token %d\n\\set run %s", w.token/2, w.token, w.run))
	for again := 0; again < 10; again++ {
		switch o := r.once(s, frozen); {
		case o.state == "40001": // the transaction is to begin anew
			frozen = func(int) {}
		default:
			return o.state == "00000"
		}
	}
	return false
}

func (r recipe) once(s *session, frozen func(at int)) sqlResult {
	for i, sql := range r.steps {
		frozen(i)
		o := s.do(sql)
		if o.state == "00000" && (strings.Contains(sql, `\gset`) && o.rows == 0 || strings.Contains(o.out, "already")) {
			o.state = "refused"
		}
		if o.state != "00000" {
			s.do("ROLLBACK;")
			return o
		}
	}
	return sqlResult{state: "00000"}
}

// A tally is what a race came to.
type tally struct{ refused, stale, both, none int }

// race lets the writers meet. A stale write is one that the old writer committed after one of the new.
func (r recipe) race(t *testing.T, d *database, wins bool) (n tally) {
	t.Helper()
	older, newer, watch := d.session(), d.session(), d.session()
	for i := range raceRounds {
		a, b := meet(i)
		done := make(chan bool, 1)
		start := func() { go func() { done <- r.do(newer, b, func(int) {}) }() }
		at, began := i%(len(r.steps)+2), false
		wrote := r.do(older, a, func(step int) {
			if step != at {
				return
			}
			began = true
			start()
			if i%3 > 0 { // else both go on at once
				untilDoneOrBlocked(watch, done)
			}
		})
		if !began { // the old one had ended, or was refused, before it came so far
			start()
		}
		if !<-done && wins {
			t.Fatalf("round %d: the newer writer was refused", i)
		}
		if !wrote {
			n.refused++
		}
	}
	fmt.Sscan(strings.ReplaceAll(d.do(`
		WITH met AS (SELECT token / 2 AS round, count(*) FILTER (WHERE token % 2 = 0) AS old,
			count(*) FILTER (WHERE token % 2 = 1) AS new, max(at) FILTER (WHERE token % 2 = 0) > min(at) FILTER (WHERE token % 2 = 1) AS stale
			FROM (SELECT token, pg_xact_commit_timestamp(xmin) AS at FROM report) r GROUP BY 1)
		SELECT count(*) FILTER (WHERE stale), count(*) FILTER (WHERE old + new > 1), `+fmt.Sprint(raceRounds)+` - count(*) FROM met`),
		"|", " "), &n.stale, &n.both, &n.none)
	t.Logf("%d rounds: the older was refused %d times, wrote after the newer %d times; both wrote %d times, none %d",
		raceRounds, n.refused, n.stale, n.both, n.none)
	return n
}

// untilDoneOrBlocked waits until the newer writer has ended, or waits for the older.
func untilDoneOrBlocked(watch *session, done chan bool) {
	watch.t.Helper()
	eventually(watch.t, "the newer writer has ended, or waits for the older", func() bool {
		select {
		case end := <-done:
			done <- end
			return true
		default:
		}
		o := watch.do("SELECT 'blocked' FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock';")
		return strings.Contains(o.out, "blocked")
	})
}

// TestFencingPostgresRaces: in the right forms no stale writer writes after a newer one; in the wrong ones it does.
func TestFencingPostgresRaces(t *testing.T) {
	t.Parallel()
	const write = "INSERT INTO report (token) VALUES (:token);"
	first, share, once := fencingText(t, "first"), fencingText(t, "share"), fencingText(t, "once")
	begin, commit, _ := strings.Cut(first, work)
	raise := []string{begin, commit}
	decided := `\if :done` + "\n" + `  ROLLBACK;` + "\n" + `  \quit` + "\n" + `\endif` + "\n"
	keyed := changed(t, once, decided, `\if :done`+"\n"+`  \echo already`+"\n"+`\endif`+"\n")
	for name, c := range map[string]struct {
		steps []string
		wrong bool
	}{
		"first":                     {cut(t, first, work, write), false},
		"first, repeatable read":    {cut(t, changed(t, first, "BEGIN;", "BEGIN ISOLATION LEVEL REPEATABLE READ;"), work, write), false},
		"for share":                 {slices.Concat(raise, cut(t, share, workPart, write)), false},
		"for share, twice":          {slices.Concat(raise, cut(t, share, workPart, write), cut(t, share, workPart, write)), false},
		"once":                      {cut(t, keyed, work, write), false},
		"wrong: for key share":      {slices.Concat(raise, cut(t, changed(t, share, "FOR SHARE", "FOR KEY SHARE"), workPart, write)), true},
		"wrong: check, then write":  {slices.Concat(raise, cut(t, changed(t, share, "FOR SHARE", ""), workPart, write)), true},
		"wrong: raise, then begin":  {slices.Concat(raise, []string{"BEGIN;", write, "COMMIT;"}), true},
		"wrong: no fence, no table": {[]string{"BEGIN;", write, "COMMIT;"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := recipe{steps: c.steps}.race(t, newSink(t), name != "once")
			switch {
			case c.wrong:
				if n.stale == 0 {
					t.Error("the wrong form let no stale writer through: this test sees nothing")
				}
			case n.stale > 0 || n.none > 0 || n.refused == 0 || name == "once" && n.both > 0:
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestFencingTrigger: the same, where the session's settings are all that the writers have, and a trigger looks.
func TestFencingTrigger(t *testing.T) {
	t.Parallel()
	trigger := fencingText(t, "trigger")
	tell := `SELECT set_config('onceonly.resource', 'report', false), set_config('onceonly.token', :'token', false),
		set_config('onceonly.run_id', :'run', false);`
	const write = "INSERT INTO report (token) VALUES (:token);"
	for name, c := range map[string]struct {
		trigger, begin string
		wrong          bool
	}{
		"as shown":             {trigger, "BEGIN;", false},
		"repeatable read":      {trigger, "BEGIN ISOLATION LEVEL REPEATABLE READ;", false},
		"wrong: for key share": {strings.ReplaceAll(trigger, "FOR SHARE", "FOR KEY SHARE"), "BEGIN;", true},
		"wrong: no lock":       {strings.ReplaceAll(trigger, "FOR SHARE", ""), "BEGIN;", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newSink(t)
			d.do(c.trigger)
			n := recipe{steps: []string{tell, c.begin, write, "COMMIT;", c.begin, write, write, "COMMIT;"}}.race(t, d, true)
			if c.wrong != (n.stale > 0) || !c.wrong && (n.none > 0 || n.refused == 0) {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestFencingTriggerRefuses: whom the trigger refuses, and with which code; and how a person gets by.
func TestFencingTriggerRefuses(t *testing.T) {
	t.Parallel()
	d := newSink(t)
	d.do(fencingText(t, "trigger"))
	a, b := meet(0)
	s := d.session()
	as := func(w writer) {
		s.do(fmt.Sprintf("SET onceonly.resource = 'report'; SET onceonly.token = '%d'; SET onceonly.run_id = '%s';", w.token, w.run))
	}
	want := func(what, state string) {
		t.Helper()
		for _, sql := range []string{"INSERT INTO report (total) VALUES (1);", "UPDATE report SET total = 2;", "DELETE FROM report WHERE false;",
			"TRUNCATE report;", "INSERT INTO report SELECT FROM generate_series(1, 0);", "COPY report (total) FROM stdin;\n1\n\\."} {
			if o := s.do(sql); o.state != state {
				t.Errorf("%s: %s: %s, want %s", what, sql, o.state, state)
			}
		}
	}
	want("nobody", "OF001")
	as(a)
	want("the first", "00000")
	as(b)
	want("a newer", "00000")
	want("the same", "00000")
	as(a)
	want("an older", "OF002")
	as(writer{b.token, a.run})
	want("another with this token", "OF002")
	s.do("SET onceonly.run_id = '';")
	want("no run", "OF001")
	as(b)
	s.do("INSERT INTO report (total) VALUES (NULL);")
	d.do(fencingText(t, "by hand")) // a session of its own, that has no token
	if got := d.do("SELECT count(*) FILTER (WHERE total = 0), count(*) FILTER (WHERE total IS NULL) FROM report"); got != "1|0" {
		t.Errorf("by hand: %s", got)
	}
	as(a)
	want("an older, afterwards", "OF002")
}
