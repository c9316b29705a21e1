package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// People in the fuzz: they settle slots, stop holders, pause jobs and resume them, and their requests too come twice, late
// or never. The referee treats what settles a slot as an attempt that nobody runs.

// A fuzzHand is one person, at one job.
type fuzzHand struct {
	fuzz *fuzz
	r    *rand.Rand
	l    *ledger
	n    int
	job  string
	k    []string
}

// A fuzzPause is what is known of a job's pauses: when the newest was sent and heard of, and when its end was.
type fuzzPause struct{ sent, paused, resuming, resumed boot }

func (f *fuzz) hand(n int) *fuzzHand {
	l := &ledger{f.rdb, f.namespace()}
	return &fuzzHand{f, rand.New(rand.NewPCG(f.seed, uint64(f.rounds)<<32+2000+uint64(n))), l, n, f.job(n), l.keys(f.job(n))}
}

func (h *fuzzHand) work() {
	for h.fuzz.stop.Err() == nil {
		doze(h.r, 0, 30)
		switch n := h.r.IntN(10); {
		case n < 2:
			h.stop()
		case n < 3:
			h.pause()
		default:
			h.resolve()
		}
	}
}

// order sends a question, perhaps twice, perhaps again when all has changed. The first answer counts; a copy's is heard
// by nobody.
func (h *fuzzHand) order(script string, q map[string]any, hear func(answer string, sent, got boot)) {
	q["by"], q["reason"], q["zone_from"], q["keep"] = "kim@web-9", "x", "date", 40
	text, _ := json.Marshal(q)
	send := func() bool {
		cmd := eval(context.Background(), entryLua+script, h.k, string(text))
		sent := bootNow()
		h.fuzz.rdb.Process(context.Background(), cmd)
		answer, err := cmd.Text()
		h.fuzz.mu.Lock()
		defer h.fuzz.mu.Unlock()
		if err == nil {
			hear(answer, sent, bootNow())
		} else if !strings.Contains(err.Error(), "WRONGTYPE") {
			h.fuzz.fault("by hand: %v", err)
		}
		return err == nil
	}
	if h.r.IntN(3) == 0 {
		delay := time.Duration(h.r.Int64N(int64(fuzzLatest)))
		h.fuzz.copies.Go(func() { time.Sleep(delay); send() }) // the fault: a copy that is late
	}
	if h.r.IntN(10) != 0 {
		for n := 0; !send() && n < 20; n++ {
			time.Sleep(time.Millisecond)
		}
	}
}

// resolve settles a slot as it was seen.
func (h *fuzzHand) resolve() {
	slot := max(0, h.fuzz.bases[h.n].Load()-2+h.r.Int64N(6))
	as := []string{"done", "reopened"}[h.r.IntN(2)]
	a := end{attempt: attempt{newRunID(), 1}, Slot: fmt.Sprintf("slot-%04d", slot)}
	begins := fuzzFirstSlot + slot*60000
	fence := h.l.Get(context.Background(), h.k[1]).Val()
	q := map[string]any{"run_id": a.RunID, "try": 1, "as": as, "slot": a.Slot, "begins": begins, "from": begins, "to": begins,
		"shape": "", "fence": fence, "channel": "events"}
	if as == "reopened" {
		h.fuzz.mu.Lock()
		h.fuzz.reopened[h.k[0]+" "+a.Slot]++
		h.fuzz.mu.Unlock()
	}
	h.order(resolveLua, q, func(answer string, sent, got boot) {
		h.fuzz.sawResolve(h.fuzz.attempt(h.k[0], a), number(fence), as, answer, sent, got)
	})
}

// stop stops whoever holds the job.
func (h *fuzzHand) stop() {
	lock := strings.TrimPrefix(h.l.Get(context.Background(), h.k[0]).Val(), "stop:")
	if len(lock) < 32 {
		return
	}
	h.fuzz.mu.Lock()
	h.fuzz.stopped[lock[:32]] = true
	h.fuzz.mu.Unlock()
	h.order(stopLua, map[string]any{"slot": "", "run_id": lock[:32]}, func(answer string, sent, got boot) {
		if r, err := decode[stopReply](answer); err != nil {
			h.fuzz.fault("%s: %v", answer, err)
		} else if r.Verdict == "stopped" {
			h.fuzz.figures["stops"]++
		}
	})
}

// pause pauses the job for a moment.
func (h *fuzzHand) pause() {
	ctx := context.Background()
	for _, what := range []string{"pause", "resume"} {
		text, err := h.l.HGet(ctx, h.k[5], "paused").Result()
		if err == redis.Nil {
			text, err = "{}", nil
		}
		p, wrong := decode[pause](text)
		if err != nil || wrong != nil { // the key is broken for a moment
			time.Sleep(time.Millisecond)
			continue
		}
		known := h.fuzz.pauseOf(h.k[0], what)
		h.order(pauseLua, map[string]any{"id": newRunID(), "seen": p.N, "what": what, "until": 0, "slot": ""},
			func(answer string, sent, got boot) { h.fuzz.sawPause(known, answer, got) })
		doze(h.r, 1, 13)
	}
}

// pauseOf is the job's newest pause, which begins or ends now. Each is known apart: the answer to a copy of the last one's
// end may be heard when the next one's end is under way.
func (f *fuzz) pauseOf(lock, what string) *fuzzPause {
	f.mu.Lock()
	defer f.mu.Unlock()
	if what == "pause" || f.pauses[lock] == nil {
		f.pauses[lock] = &fuzzPause{sent: bootNow()}
	}
	if what == "resume" {
		f.pauses[lock].resuming = bootNow()
	}
	return f.pauses[lock]
}

// sawPause notes that a job is paused, or is not any more.
func (f *fuzz) sawPause(p *fuzzPause, answer string, got boot) {
	switch r, err := decode[pauseReply](answer); {
	case err != nil:
		f.fault("%s: %v", answer, err)
	case r.Verdict == "paused" && p.paused == 0 && p.resuming == 0:
		p.paused = got
	case r.Verdict == "resumed" || r.Verdict == "idle":
		if p.resuming != 0 && p.resumed == 0 {
			p.resumed = got
		}
	}
}

// sawResolve judges one answer of resolve.lua. Fence is the newest token that the person has seen.
func (f *fuzz) sawResolve(a *fuzzAttempt, fence int64, as, answer string, sent, got boot) {
	r, err := decode[resolveReply](answer)
	if err != nil {
		f.fault("%s: %v", answer, err)
		return
	}
	f.figures["resolve "+r.Verdict]++
	if r.Verdict != "settled" || a.token != 0 {
		if r.Verdict == "settled" && a.token != r.Entry.Token {
			f.fault("%v: settled twice", a)
		}
		return
	}
	a.asked, a.given, a.token, a.number, a.hand, a.state = sent, got, r.Entry.Token, r.Entry.Attempt, true, r.Entry.State
	name := fmt.Sprint(a.lock, a.token)
	if other, taken := f.tokens[name]; taken {
		f.fault("%v: %v has the same token", a, f.attempts[other])
	}
	f.tokens[name] = a.attempt
	best := f.greatest[a.lock]
	if best != nil && best.token > fence && after(sent, best.given) {
		f.fault("%v: settled by a request that had not seen %v", a, best)
	}
	if best == nil || a.token > best.token {
		f.greatest[a.lock] = a
	}
	if was := r.Entry.Resolved; was.Was == "running" {
		if real := (attempt{was.RunID, was.Try}); !f.uncertain[real] {
			f.uncertain[real] = true
			f.figures[a.lock+" count_uncertain"]++
		}
	}
	if slot := a.lock + " " + a.slot; as == "done" && f.done[slot] == 0 {
		f.done[slot] = got
	}
}

// sawPaused holds a verdict against what is known of the job's pauses.
func (f *fuzz) sawPaused(a *fuzzAttempt, r *reply, sent, got boot) {
	p := f.pauses[a.lock]
	switch {
	case p == nil:
	case r.Verdict == "paused" && after(sent, p.resumed):
		f.fault("%v: told paused %v after the job was resumed", a, time.Duration(sent-p.resumed))
	case r.Verdict == "run" && a.token == 0 && after(sent, p.paused) && p.resuming == 0:
		f.fault("%v: begun %v after the job was paused", a, time.Duration(sent-p.paused))
	}
}
