package main

import (
	"fmt"
	"time"
)

// What the referee of the fuzz knows, and how it judges each answer of Redis when it is given.

// A fuzzBook is what the referee knows of one round.
type fuzzBook struct {
	attempts map[attempt]*fuzzAttempt
	over     map[string]boot         // run ID -> when its client was through with it, with everything answered
	tokens   map[string]attempt      // lock key and token -> who has it
	done     map[string]boot         // lock key and slot -> when an end "done" had been written
	greatest map[string]*fuzzAttempt // lock key -> the greatest token

	reopened  map[string]int   // lock key and slot -> how often it may have been reopened
	stopped   map[string]bool  // run ID -> somebody may have stopped it
	uncertain map[attempt]bool // settled by hand before it reported
	pauses    map[string]*fuzzPause
}

// A fuzzAttempt is all that is known of one attempt. Times are on this machine's clock; 0 is never.
type fuzzAttempt struct {
	attempt
	lock, slot    string
	asked, given  boot // first sent; first answered with a token
	token         int64
	number        int
	from, until   boot // the command ran, as far as its client can prove
	verdict       string
	state         string
	ended         boot // the end had been answered
	wrote, stales int  // how often the end was taken as new, and as stale
	early         boot // how long before its lease was over the end was answered
	newest        bool // no newer one stood when it was taken as new
	overtook      bool // the attempt before had not reported
	hand          bool // nobody ran it: a person has settled the slot
}

// attempt finds what is known of an attempt, or begins to know it.
func (f *fuzz) attempt(lock string, e end) *fuzzAttempt {
	a := f.attempts[e.attempt]
	if a == nil {
		a = &fuzzAttempt{attempt: e.attempt, lock: lock, slot: e.Slot}
		if e.RunID != "" {
			f.attempts[e.attempt] = a
		}
	}
	return a
}

func (a *fuzzAttempt) String() string {
	return fmt.Sprintf("%s %s, attempt %d (%.6s.%d, token %d)", a.lock, a.slot, a.number, a.RunID, a.Try, a.token)
}

// after says that something was sent when another thing was known to have happened.
func after(sent, known boot) bool { return known != 0 && sent > known }

// sawBegin judges one answer of begin.lua.
func (f *fuzz) sawBegin(a *fuzzAttempt, answer string, sent, got boot, late bool) bool {
	r, err := decode[reply](answer)
	if err != nil {
		f.fault("%s: %v", answer, err)
		return false
	}
	f.sawLock(a, r, sent)
	if late && after(sent, a.ended) {
		f.figures["late begins after the end"]++
	}
	if late && r.Verdict == "ended" && r.Entry.RunID == a.RunID && r.Entry.Try > a.Try && r.TTL > 0 &&
		r.Holder[:32] == a.RunID {
		f.figures["copies spared a newer try"]++
	}
	f.sawPaused(a, r, sent, got)
	if r.Verdict == "paused" {
		f.figures["paused"]++
	}
	if r.Verdict != "run" {
		return false
	}
	switch slot := a.lock + " " + a.slot; {
	case after(sent, a.ended):
		f.fault("%v: begun again by a copy %v after its end (%s) was known", a, time.Duration(sent-a.ended), a.state)
	case after(sent, f.over[a.RunID]):
		f.fault("%v: begun with nobody behind it, %v after its client had left", a, time.Duration(sent-f.over[a.RunID]))
	case after(sent, f.done[slot]) && f.reopened[slot] == 0:
		f.fault("%v: begun %v after the slot was done", a, time.Duration(sent-f.done[slot]))
	case a.token != 0 && (a.token != r.Token || a.number != r.Attempt):
		f.fault("%v: asked again, got token %d, attempt %d", a, r.Token, r.Attempt)
	}
	if a.token == 0 {
		a.token, a.number, a.given = r.Token, r.Attempt, got
		f.granted(a, r)
	}
	a.given = min(a.given, got)
	if r.Entry != nil && r.Entry.State == "running" && r.Entry.Resolved == nil && (r.Entry.RunID != a.RunID || r.Entry.Try != a.Try) {
		a.overtook = true
	}
	if best := f.greatest[a.lock]; best == nil || r.Token > best.token {
		f.greatest[a.lock] = a
	} else if r.Token < best.token && after(sent, best.given) {
		f.fault("%v: the token was given again when %v had been given", a, best)
	}
	return true
}

// granted judges a token that is new.
func (f *fuzz) granted(a *fuzzAttempt, r *reply) {
	name := fmt.Sprint(a.lock, a.token)
	if other, taken := f.tokens[name]; taken {
		f.fault("%v: %v has the same token", a, f.attempts[other])
	}
	f.tokens[name] = a.attempt
	f.figures["grants"]++
}

// sawLock judges the lock as a question found it, and left it.
func (f *fuzz) sawLock(a *fuzzAttempt, r *reply, sent boot) {
	if r.TTL == -1 {
		f.fault("%v: the lock has no expiry", a)
	}
	if r.Holder == "" {
		return
	}
	holder := r.Holder[:32]
	if holder == a.RunID && r.Verdict != "run" && r.TTL != -2 {
		if best := f.greatest[a.lock]; r.Verdict == "lost" || (r.Entry != nil && r.Entry.RunID == a.RunID &&
			best != nil && best.token > r.Entry.Token && after(sent, best.given)) {
			f.fault("%v: its token was spent, and it kept a lease (%s)", a, r.Verdict)
		}
	}
	if !after(sent, f.over[holder]) {
		return
	}
	ago := time.Duration(sent - f.over[holder])
	switch {
	case holder != a.RunID:
		f.fault("%v asked, and found the lock of %.6s, which had left %v before", a, holder, ago)
	case r.TTL != -2:
		f.fault("%v: a copy that came %v after it had left kept a lease (%s)", a, ago, r.Verdict)
	}
}

// sawEnd judges one answer of finish.lua.
func (f *fuzz) sawEnd(a *fuzzAttempt, e end, answer string, sent, got boot, late bool) {
	r, err := decode[reply](answer)
	if err != nil {
		f.fault("%s: %v", answer, err)
		return
	}
	if after(sent, a.ended) && r.Verdict != "already" && r.Verdict != "late" {
		f.fault("%v: end told twice: %s after %s", a, r.Verdict, a.verdict)
	}
	switch r.Verdict {
	case "already":
		if late {
			f.figures["late ends told before"]++
		}
	case "ok":
		a.wrote++
		a.state = e.State
		f.figures[e.State]++
		a.newest = r.Entry != nil && r.Entry.RunID == a.RunID && r.Entry.Try == a.Try
		if slot := a.lock + " " + a.slot; e.State == "done" && (f.done[slot] == 0 || got < f.done[slot]) {
			f.done[slot] = got
		}
	case "stale":
		a.stales++
		f.figures["stale"]++
		f.figures[a.lock+" count_stale"]++
	}
	if a.verdict == "" || a.verdict == "already" {
		a.verdict = r.Verdict
	}
	if a.ended == 0 || got < a.ended {
		a.ended = got
	}
}
