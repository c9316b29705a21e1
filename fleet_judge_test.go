package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What is judged of a fleet: the effects, what the machines were told, the ledger, and what status says of it must
// agree.

// An effectLine is what the command wrote.
type effectLine struct {
	word, slot string
	token      int64
	runID      string
	status     int
	at         time.Time
}

func fleetEffects(t *testing.T, log string) []effectLine {
	t.Helper()
	var all []effectLine
	for _, text := range lines(log) {
		var e effectLine
		var at int64
		if _, err := fmt.Sscan(text, &e.word, &e.slot, &e.token, &e.runID, &e.status, &at); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		e.at = time.Unix(0, at)
		all = append(all, e)
	}
	return all
}

// A fleetEntry is an entry of the ledger, and the time that it covers; none if nothing began.
type fleetEntry struct {
	*entry
	from, to time.Time
}

func (f *fleet) ledger() map[string]fleetEntry {
	f.t.Helper()
	l := &ledger{shared.rdb, namespaceOf(f.t)}
	texts, err := shared.rdb.HGetAll(context.Background(), l.keys(f.job)[2]).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]fleetEntry{}
	for slot, text := range texts {
		e, err := decode[entry](text)
		if err != nil {
			f.t.Fatal(err)
		}
		var raw struct{ Span string }
		json.Unmarshal([]byte(text), &raw)
		begins, err := time.Parse("2006-01-02T15:04Z07:00", slot)
		if err != nil {
			f.t.Fatal(err)
		}
		v := fleetEntry{entry: e}
		if before, after, ok := strings.Cut(raw.Span, ","); ok {
			b, _ := strconv.Atoi(before)
			a, _ := strconv.Atoi(after)
			v.from, v.to = begins.Add(-time.Duration(b)*time.Second), begins.Add(time.Duration(a)*time.Second)
		}
		all[slot] = v
	}
	return all
}

// judge holds what the machines were told against what the command did, and both against the ledger.
func (f *fleet) judge(kills int) {
	t := f.t
	began, ended := map[string]effectLine{}, map[string]effectLine{}
	token := int64(0)
	for _, e := range fleetEffects(t, f.log) {
		switch e.word {
		case "OVERLAP":
			t.Errorf("%s began while another command was running", e.slot)
		case "START":
			if other, twice := began[e.slot]; twice {
				t.Errorf("%s ran twice: %v, %v", e.slot, other, e)
			}
			if e.token <= token {
				t.Errorf("%s has the token %d after %d", e.slot, e.token, token)
			}
			began[e.slot], token = e, e.token
		case "END":
			ended[e.slot] = e
		}
	}
	all := f.ledger()
	count := map[string]int{}
	for slot, e := range all {
		count[e.State]++
		f.agrees(slot, e, began, ended)
	}
	for slot := range began {
		if _, ok := all[slot]; !ok {
			t.Errorf("%s ran, and has no entry", slot)
		}
	}
	f.statusAgrees(all)
	f.disjoint(all)
	covered, minutes := f.accounted(all)
	t.Logf("%d asks, %d minutes: %v, %d in a slot of the other line; %d commands; %d machines killed while running one",
		len(f.asks), minutes, count, covered, len(began), kills)
	if kills == 0 || count["done"] == 0 {
		t.Error("this fleet had too quiet a life to prove anything")
	}
}

// agrees: the entry says what the command did.
func (f *fleet) agrees(slot string, e fleetEntry, began, ended map[string]effectLine) {
	b, ran := began[slot]
	end, over := ended[slot]
	bad := func(why string) { f.t.Errorf("%s is %s in the ledger (%+v), but %s", slot, e.State, e.entry, why) }
	switch e.State {
	case "done", "failed":
		if !ran || !over || b.token != e.Token || b.runID != e.RunID || e.Attempt != 1 {
			bad(fmt.Sprintf("the effects are %+v and %+v", b, end))
		} else if (end.status == 0) != (e.State == "done") || *e.Exit != end.status {
			bad(fmt.Sprintf("the command ended with %d", end.status))
		}
	case "running":
		if ran && (b.token != e.Token || b.runID != e.RunID) {
			bad(fmt.Sprintf("the effect is %+v", b))
		}
		if !slices.ContainsFunc(f.asks, func(a *fleetAsk) bool { return a.killed && a.machine == e.Host }) {
			bad("its host was never killed")
		}
	case "skipped", "missed": // missed minutes are accounted for below: they lie in a slot of the other line
		if ran {
			bad("it ran")
		}
	default:
		bad("no such thing can have happened")
	}
}

// statusAgrees: what `onceonly status` says of each slot is what the ledger says, and so what the effects say.
func (f *fleet) statusAgrees(all map[string]fleetEntry) {
	r := newHost(f.t, "web-0").run("status", f.job, "--json", "-n", "0")
	var jobs []struct {
		Slots []struct {
			Slot, State string
			Token       *int64
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &jobs); err != nil || len(jobs) != 1 {
		f.t.Fatalf("%v: %v", err, r)
	}
	said := 0
	for _, s := range jobs[0].Slots {
		e, ok := all[s.Slot]
		if !ok {
			continue // computed: missed, late or pending
		}
		said++
		alive := e.State == "running" && (s.State == "running" || s.State == "uncertain")
		if (s.State != e.State && !alive) || (e.Token != 0 && (s.Token == nil || *s.Token != e.Token)) {
			f.t.Errorf("status says %+v of an entry %+v", s, e.entry)
		}
	}
	if said != len(all) {
		f.t.Errorf("status tells of %d slots of %d", said, len(all))
	}
}

// disjoint: no two slots cover the same time.
func (f *fleet) disjoint(all map[string]fleetEntry) {
	var spans []string
	for slot, e := range all {
		if !e.to.IsZero() {
			spans = append(spans, slot)
		}
	}
	slices.SortFunc(spans, func(a, b string) int { return all[a].from.Compare(all[b].from) })
	for i := 1; i < len(spans); i++ {
		if all[spans[i]].from.Before(all[spans[i-1]].to) {
			f.t.Errorf("%s and %s cover the same time", spans[i-1], spans[i])
		}
	}
}

// accounted: no machine was told anything but these, and none of the minutes is without an answer. It returns how many lie in
// a slot of the other line, and how many there were.
func (f *fleet) accounted(all map[string]fleetEntry) (covered, minutes int) {
	due := map[time.Time]bool{}
	for _, a := range f.asks {
		if a.killed {
			continue
		}
		due[a.minute] = true
		e := all[minuteName(a.minute)]
		switch {
		case a.status == 0, a.status == exitNotDone && (e.State == "running" || e.State == "failed"):
		case a.status == 1 && e.State == "failed" && e.Host == a.machine:
		case a.status == exitDisagree && strings.Contains(a.stderr, "and their slots overlap"):
		default:
			f.t.Errorf("%s (%s) at %s: status %d, and its slot is %+v\n%s", a.machine, a.line, minuteName(a.minute), a.status,
				e.entry, a.stderr)
		}
	}
	for m := range due {
		if e := all[minuteName(m)].entry; e != nil && e.State != "missed" {
			continue
		}
		covered++
		found := false
		for _, e := range all {
			found = found || !m.Before(e.from) && m.Before(e.to)
		}
		if !found {
			f.t.Errorf("%s was due, and nothing became of it", minuteName(m))
		}
	}
	return covered, len(due)
}

func minuteName(m time.Time) string { return m.Format("2006-01-02T15:04+00:00") }
