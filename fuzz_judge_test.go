package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is judged at the end of a round of the fuzz, when nothing moves any more: slots, entries, the order of the
// tokens and the log.

// judge compares what a job's keys say with what was seen, when nothing moves any more.
func (f *fuzz) judge(job string) {
	ctx := context.Background()
	k := (&ledger{f.rdb, f.namespace()}).keys(job)
	if lock, err := f.rdb.Get(ctx, k[0]).Result(); err != redis.Nil {
		f.fault("%s: a lock is left: %q, %v", job, lock, err)
	}
	entries, meta := f.rdb.HGetAll(ctx, k[2]).Val(), f.rdb.HGetAll(ctx, k[5]).Val()
	var all []*fuzzAttempt
	slots := map[string][]*fuzzAttempt{}
	for _, a := range f.attempts {
		if a.lock == k[0] {
			all = append(all, a)
			slots[a.slot] = append(slots[a.slot], a)
			if a.overtook {
				f.figures["takeovers"]++
				f.figures[k[0]+" count_uncertain"]++
			}
			if a.wrote > 0 && a.newest && a.token != 0 {
				f.figures[k[0]+" count_"+a.state]++
			}
		}
	}
	for slot, attempts := range slots {
		f.judgeSlot(job, slot, attempts, entries[slot], number(meta["low"]))
	}
	for _, what := range []string{"done", "failed", "unstarted", "stale", "uncertain"} {
		what = "count_" + what
		if got, seen := number(meta[what]), f.figures[k[0]+" "+what]; got != int64(seen) {
			f.fault("%s: %s is %d, seen were %d", job, what, got, seen)
		}
		delete(f.figures, k[0]+" "+what)
	}
	f.judgeOrder(all)
	f.judgeLog(job, f.rdb.XRange(ctx, k[4], "-", "+").Val())
}

// judgeSlot judges one slot: its attempts, and the entry that is left.
func (f *fuzz) judgeSlot(job, slot string, attempts []*fuzzAttempt, text string, low int64) {
	n, _ := strconv.ParseInt(slot[len(slot)-4:], 10, 64)
	var newest *fuzzAttempt
	stales, started := 0, map[int]*fuzzAttempt{}
	for _, a := range attempts {
		stales += a.stales
		if a.token != 0 && (newest == nil || a.token > newest.token) {
			newest = a
		}
		if a.wrote+a.stales > 1 || (a.wrote+a.stales == 0 && a.verdict == "already") {
			f.fault("%v: its end was taken %d times, %d of them stale", a, a.wrote+a.stales, a.stales)
		}
		// Judged here, and not when the answer comes: of two copies the one that was executed first may be heard second.
		if a.early > 0 && a.verdict != "" && a.wrote == 0 {
			f.fault("%v: its end was %s %v before its lease was over", a, a.verdict, time.Duration(a.early))
		}
		if a.from == 0 {
			continue
		}
		if other := started[a.number]; other != nil {
			f.fault("%v and %v both started", a, other)
		}
		started[a.number] = a
		if allowed := 1 + int(n%3) + f.reopened[a.lock+" "+slot]; a.number > allowed {
			f.fault("%v: %d were allowed", a, allowed)
		}
	}
	for _, a := range attempts {
		done := a.state == "done" && (a.wrote == 1 || a.hand)
		if done && newest == nil {
			f.fault("%v is done, and was given no token", a)
		} else if done && newest != a && f.reopened[a.lock+" "+slot] == 0 && !(newest.hand && a.token < newest.token && !a.hand) {
			f.fault("%v is done, and %v came after it", a, newest)
		}
	}
	if text == "" {
		if newest != nil && fuzzFirstSlot+n*60000 > low {
			f.fault("%v: no entry", newest)
		}
		return
	}
	e, err := decode[entry](text)
	if err != nil {
		f.fault("%s %s: %v", job, slot, err)
		return
	}
	f.judgeEntry(job, slot, e, newest, stales)
}

// judgeEntry compares an entry with the newest attempt.
func (f *fuzz) judgeEntry(job, slot string, e *entry, newest *fuzzAttempt, stales int) {
	state, number := "", 0
	if newest != nil {
		state, number = "running", newest.number
		switch {
		case newest.hand:
			state = newest.state
		case newest.wrote > 0 && newest.state == "unstarted":
			state, number = "failed", number-1
		case newest.wrote > 0:
			state = newest.state
		}
		if e.Token != newest.token || e.RunID != newest.RunID || e.Try != newest.Try {
			f.fault("%s %s: the entry is of token %d, not of %v", job, slot, e.Token, newest)
		}
	}
	switch left := f.over[e.RunID] != 0; {
	case newest == nil && (e.Attempt != 0 || e.State == "running" || e.State == "done"):
		f.fault("%s %s: nothing ran, the entry is %+v", job, slot, *e)
	case newest != nil && (e.State != state || e.Attempt != number):
		f.fault("%v: the entry is %+v, want %s, attempt %d", newest, *e, state, number)
	case left && e.State == "running":
		f.fault("%v: running, and nobody runs it", newest)
	case left && e.Kept:
		f.fault("%v: kept for the next try, and nobody is there", newest)
	case e.Stale != stales:
		f.fault("%s %s: %d stale ends are written, %d were seen", job, slot, e.Stale, stales)
	}
}

// judgeOrder holds tokens and commands of one job against real time.
func (f *fuzz) judgeOrder(all []*fuzzAttempt) {
	given := slices.DeleteFunc(slices.Clone(all), func(a *fuzzAttempt) bool { return a.token == 0 })
	asked := slices.Clone(given)
	slices.SortFunc(given, func(a, b *fuzzAttempt) int { return int(a.given - b.given) })
	slices.SortFunc(asked, func(a, b *fuzzAttempt) int { return int(a.asked - b.asked) })
	var greatest *fuzzAttempt
	for _, a := range asked {
		for len(given) > 0 && given[0].given < a.asked {
			if greatest == nil || given[0].token > greatest.token {
				greatest = given[0]
			}
			given = given[1:]
		}
		if greatest != nil && greatest.token >= a.token {
			f.fault("%v was asked for when %v had been given", a, greatest)
		}
	}
	ran := slices.DeleteFunc(asked, func(a *fuzzAttempt) bool { return a.from == 0 || a.until <= a.from })
	slices.SortFunc(ran, func(a, b *fuzzAttempt) int { return int(a.from - b.from) })
	for i := 1; i < len(ran); i++ {
		if before := ran[i-1]; before.until > ran[i].from {
			f.fault("%v and %v overlap by %v", before, ran[i], time.Duration(before.until-ran[i].from))
		}
		if ran[i].until < ran[i-1].until {
			ran[i].until = ran[i-1].until // the longest so far is what the next must not meet
		}
	}
}

// judgeLog wants the tokens of the log in its order, each one given to somebody.
func (f *fuzz) judgeLog(job string, log []redis.XMessage) {
	last := int64(0)
	for _, event := range log {
		switch event.Values["event"] {
		case "begin", "resolve", "stop":
		default:
			continue
		}
		token := number(event.Values["token"].(string))
		if token <= last {
			f.fault("%s: the log has token %d after %d", job, token, last)
		}
		last = token
	}
}
