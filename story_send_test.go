package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
)

// What a story's line sends: the requests that the program would send.

// who splits a.1 into a run ID and a try.
func luaWho(word string) attempt {
	run, try, _ := strings.Cut(word, ".")
	n, _ := strconv.Atoi(try)
	return attempt{strings.Repeat(run, 32), n}
}

func (j *luaJob) lease(word string) *lease {
	run := luaWho(word).RunID
	if j.leases[run] == nil {
		j.leases[run] = newLease(j.ledger, j.job, "web-"+run[:1]+":1", time.Minute)
		j.leases[run].runID = run
	}
	return j.leases[run]
}

// question makes a question of its words. Each run ID is a host of its own, unless the words say otherwise.
func (j *luaJob) question(words []string) question {
	q := question{attempt: luaWho(words[0]), asker: asker{Host: "web-" + words[0][:1], PID: 1, User: "root", Version: "1"},
		terms: terms{Every: "day", DayStart: "00:00", Attempts: 1, Lease: 60000, Keep: 400, Zone: "UTC",
			ZoneYear: "2026", Offsets: map[string]string{"2026": "0,0"}, ZoneFrom: "default", Line: "line"},
		Slot: words[1], Begins: luaBegins(words[1]), Overlap: "wait", CatchUp: "none", Now: millis(time.Now())}
	texts := map[string]*string{"overlap": &q.Overlap, "line": &q.Line, "args": &q.Args, "minute": &q.Minute, "from": &q.ZoneFrom,
		"rerun": &q.Rerun, "every": &q.Every}
	numbers, flags := map[string]*int{"attempts": &q.Attempts, "keep": &q.Keep}, map[string]*bool{"dated": &q.Dated, "dry": &q.Dry}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case texts[key] != nil:
			*texts[key] = value
		case numbers[key] != nil:
			*numbers[key], _ = strconv.Atoi(value)
		case flags[key] != nil:
			*flags[key] = true
		case key == "host":
			q.Host, q.Machine, _ = strings.Cut(value, "/")
		case key == "zone":
			q.Zone, q.Offsets = value, map[string]string{q.ZoneYear: value}
		case key == "previous":
			q.Previous = luaBegins(value)
		case key == "years": // 2025:offsets,2026:offsets; the last one is this year
			q.Offsets = map[string]string{}
			for _, one := range strings.Split(value, ",") {
				year, offsets, _ := strings.Cut(one, ":")
				q.ZoneYear, q.Offsets[year] = year, offsets
			}
		case key == "now":
			off, err := time.ParseDuration(value)
			if err != nil {
				j.t.Fatal(err)
			}
			q.Now += off.Milliseconds()
		default:
			j.t.Fatalf("no such word: %s", word)
		}
	}
	return q
}

func luaBegins(slot string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(slot, "s"), 10, 64)
	return luaEpoch + n*60000
}

// begin sends the bytes of a question, as often as it is called.
func (j *luaJob) begin(q question) string {
	r, err := j.send(q)
	switch {
	case err != nil:
		return "error " + cause(err)
	case r.Verdict != "run":
		return r.Verdict + map[bool]string{true: " told"}[r.Told]
	case !q.Dry:
		j.given[fmt.Sprintf("%s.%d", q.RunID[:1], q.Try)] = r
	}
	return "run " + strconv.Itoa(r.Attempt)
}

func (j *luaJob) send(q question) (*reply, error) {
	if q.Dry {
		return j.foresee(context.Background(), j.job, q)
	}
	s := j.lease(q.RunID[:1])
	s.step.compose(obtainLua, j.script, q)
	lock, err := luaObtain(s)
	if err != nil {
		return nil, err
	}
	r, err := decode[reply](s.step.answer)
	if err == nil && r.Verdict == "run" {
		s.lock = lock
	}
	return r, err
}

// finish sends an end, with the lease where there is one.
func (j *luaJob) finish(state string, words []string) string {
	q, r := j.asked[words[0]], j.given[words[0]]
	if q.Slot == "" { // never asked, as far as Redis knows
		q = j.question(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "kept" }))
	}
	e := j.end(words[0], q, r)
	e.State, e.Exit, e.Took = state, map[string]string{"done": "0", "failed": "1"}[state], 1000
	e.Kept = slices.Contains(words, "kept")
	said, err := j.lease(words[0]).finish(context.Background(), e)
	if err != nil {
		return "error " + cause(err)
	}
	return said.Verdict
}

// end is an end of the attempt, but for how it ended.
func (j *luaJob) end(who string, q question, r *reply) end {
	e := end{attempt: luaWho(who), asker: q.asker, terms: q.terms, Slot: q.Slot, Begins: q.Begins, Channel: j.channel(j.job)}
	if r != nil {
		e.Number, e.Token, e.Began = r.Attempt, r.Token, r.Time
	}
	return e
}

// regain asks for a lapsed lease; the answer is the script's.
func (j *luaJob) regain(who string) string {
	s := j.lease(who)
	s.attempt = func() end { return j.end(who, j.asked[who], j.given[who]) }
	if err := s.regain(context.Background()); err != nil && !errors.Is(err, errLost) {
		return "error " + cause(err)
	}
	r, err := decode[reply](s.step.answer)
	if err != nil {
		return err.Error()
	}
	return r.Verdict
}

// luaObtain sends what is composed, as lease.begin does.
func luaObtain(s *lease) (*redislock.Lock, error) {
	lock, err := s.client.Obtain(context.Background(), s.ledger.keys(s.job)[0], s.ttl,
		&redislock.Options{Token: s.runID, Metadata: s.step.metadata})
	if errors.Is(err, redislock.ErrNotObtained) {
		err = nil
	}
	return lock, err
}
