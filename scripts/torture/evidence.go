//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The evidence of one job, put together after its scene: what the judge has, what the ledger says, what was seen.

// A work is one attempt's trace in the judge's sinks.
type work struct {
	job, slot, run string
	attempt        int
	token          int64
	first, last    boot // raw
	writes         int
	late           []boot // all raw writes, in order
	refused        int
	ended          boot // its end mark; never, if there is none
	status         int
	life           *life
	ask            *ask
	deadline       boot   // when the lease that it was known to have obliges it to be dead
	excused        string // why it may have written too late or beside another
}

type fencedRow struct {
	token int64
	run   string
}

// A dossier is all about one job.
type dossier struct {
	*scene
	line     *line
	works    []*work // in order of their first sign of life
	byToken  map[int64]*work
	fenced   []fencedRow // in commit order
	once     map[string]int
	requests []*request // in the order in which the server executed them; of unknown outcome, in which they were sent
	entries  map[string]*entry
	events   []event
}

// gather puts a dossier together.
func (s *scene) gather(conn *pgx.Conn, l *line) (*dossier, error) {
	d := &dossier{scene: s, line: l, byToken: map[int64]*work{}, once: map[string]int{}, entries: s.entries(l.job),
		events: s.events(l.job)}
	for _, life := range s.history.order {
		if life.job == l.job {
			d.work(life.token, life)
		}
	}
	if err := d.readSinks(conn); err != nil {
		return nil, err
	}
	for _, r := range s.history.requests {
		if r.job == l.job {
			d.requests = append(d.requests, r)
		}
	}
	slices.SortStableFunc(d.requests, func(a, b *request) int { return cmp.Compare(a.when(), b.when()) })
	for _, w := range d.byToken {
		d.works = append(d.works, w)
	}
	slices.SortFunc(d.works, func(a, b *work) int { return cmp.Compare(a.sign(), b.sign()) })
	for _, w := range d.works {
		d.complete(w)
	}
	return d, nil
}

// sign is the first sign of life.
func (w *work) sign() boot {
	if w.life != nil {
		return w.life.began
	}
	return w.first
}

func (d *dossier) work(token int64, l *life) *work {
	w := d.byToken[token]
	if w == nil {
		w = &work{job: d.line.job, token: token, first: never, ended: never}
		d.byToken[token] = w
	}
	if l != nil {
		w.slot, w.run, w.attempt, w.life = l.slot, l.run, l.attempt, l
	}
	return w
}

// readSinks reads what the judge has.
func (d *dossier) readSinks(conn *pgx.Conn) error {
	err := d.each(conn, "SELECT token, run, slot, attempt, at FROM raw WHERE job = $1 ORDER BY at", func(w *work, at boot) {
		w.first, w.last = min(w.first, at), at
		w.late = append(w.late, at)
		w.writes++
	})
	if err != nil {
		return err
	}
	err = d.each(conn, "SELECT token, run, slot, attempt, at FROM refused WHERE job = $1", func(w *work, _ boot) { w.refused++ })
	if err != nil {
		return err
	}
	err = d.each(conn, "SELECT token, run, slot, attempt, at FROM fenced WHERE job = $1 ORDER BY seq", func(w *work, _ boot) {
		d.fenced = append(d.fenced, fencedRow{w.token, w.run})
	})
	if err != nil {
		return err
	}
	err = d.each(conn, "SELECT token, run, slot, attempt, at FROM once WHERE job = $1", func(w *work, _ boot) { d.once[w.slot]++ })
	if err != nil {
		return err
	}
	return d.each(conn, "SELECT token, run, slot, attempt, at FROM ended WHERE job = $1", func(w *work, at boot) { w.ended = at })
}

// each reads rows; a row of another run than its token's is a violation of its own, found by the fenced sink.
func (d *dossier) each(conn *pgx.Conn, query string, take func(*work, boot)) error {
	ctx := context.Background()
	rows, err := conn.Query(ctx, query, d.line.job)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var token int64
		var run, slot string
		var attempt int
		var at boot
		if err := rows.Scan(&token, &run, &slot, &attempt, &at); err != nil {
			return err
		}
		w := d.work(token, nil)
		if w.run == "" {
			w.run, w.slot, w.attempt = run, slot, attempt
		}
		if w.run != run {
			w = &work{job: d.line.job, token: token, run: run, slot: slot, attempt: attempt, first: never, ended: never}
		}
		take(w, at)
	}
	return rows.Err()
}

// complete adds what follows from the rest.
func (d *dossier) complete(w *work) {
	if w.life != nil {
		w.ask, w.status = d.history.byPID[w.life.wrapper], w.life.status
		if w.ask != nil && (w.ask.began > w.life.began || w.ask.job != w.job) { // a number used again
			w.ask = nil
		}
	}
	for _, r := range d.requests {
		if r.run == w.run && r.extends() && r.delivered != never {
			w.deadline = max(w.deadline, r.received.add(d.line.lease*19/20))
		}
	}
	w.excused = d.excuse(w)
}

// excuse finds what the promise does not cover: a tree frozen with its guard, and a command's first second, in which there
// is no guard yet.
func (d *dossier) excuse(w *work) string {
	if w.life == nil {
		return ""
	}
	h := d.history
	for _, f := range h.freezes {
		if f.wrapper != w.life.wrapper || f.end < w.life.began {
			continue
		}
		if f.end < w.deadline { // awake again in time
			continue
		}
		if f.target == "all" || (f.target == "wrapper" && (!f.guarded || d.guardKilled(f.wrapper, f.begin-boot(200*time.Millisecond), f.end))) {
			return "frozen with its guard, or before it had one"
		}
	}
	for _, k := range h.kills {
		if k.wrapper != w.life.wrapper || !k.hit || k.target != "wrapper" || !d.grandchild(w) {
			continue
		}
		switch {
		case k.at.sub(w.life.began) < 1200*time.Millisecond:
			return "a grandchild, and onceonly killed before it had a guard"
		case d.guardKilled(k.wrapper, k.at-boot(hasGuardAfter), k.at):
			return "a grandchild, and onceonly killed before it had another guard"
		case !k.guarded && d.starved(w, k.at):
			return "a grandchild, and onceonly killed when there was no memory for a guard"
		}
	}
	return ""
}

// starved says whether its host had no memory in the time in which a guard was to be started or followed by another.
func (d *dossier) starved(w *work, at boot) bool {
	return slices.ContainsFunc(d.history.faults, func(f *fault) bool {
		return f.what == memoryFull && f.host == w.life.host && f.begin < at && f.end > at-boot(hasGuardAfter)
	})
}

// stalled says whether an attempt lived longer than its deadline only for as long as this machine stood still: in one go
// for at least half of what a lease has in hand, just when the attempt was to be killed.
func (d *dossier) stalled(w *work) bool {
	still := time.Duration(0)
	for _, x := range d.history.stalls {
		if x.late > d.line.lease/40 && x.at > w.deadline && x.at-boot(x.late) < w.last {
			still += x.late
		}
	}
	return w.last > w.deadline && w.last < w.deadline.add(still+deadlineSlack)
}

// guardKilled says whether a guard of an onceonly was killed in that time.
func (d *dossier) guardKilled(wrapper int, from, to boot) bool {
	return slices.ContainsFunc(d.history.kills, func(k *kill) bool {
		return k.wrapper == wrapper && (k.target == "guard" || k.target == "all") && k.at > from && k.at < to
	})
}

func (d *dossier) grandchild(w *work) bool {
	return cast(d.stage.seed, d.mood, w.job, w.slot, fmt.Sprint(w.attempt)).grandchild
}
