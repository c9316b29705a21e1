package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Waiting until a job's slot is done: onceonly run --job report -- sh -c 'onceonly wait etl && report'.

const waitPatience = 5 * time.Minute // --redis-wait of wait, unless given: who waits can wait for Redis, too

var waitOptions = append([]*option{
	dateOption,
	{name: "timeout", line: true, set: func(s *settings, v string) error { return setDuration(&s.timeout, v, time.Millisecond) }},
}, commonOptions...)

// A waiter is one wait.
type waiter struct {
	*hand
	signals chan os.Signal
	turn    *turn
	began   time.Time // the host's clock, which decides the slot where no date is given
	j       *jobState // nil: the job has not been seen yet
	slot    string
	begins  int64
	meant   string // the job that is probably meant
}

// A waitReply is wait.lua's.
type waitReply struct {
	Verdict string `json:"verdict"`
	Time    int64  `json:"time"`
	Entry   *entry `json:"entry"`
	TTL     int64  `json:"ttl"` // ms
	Oldest  string `json:"oldest"`
}

// waitFor waits for a slot of a job.
func waitFor(args []string, s *settings, v *voice) error {
	h, err := newHand("wait", args, s, v)
	if err != nil {
		return err
	}
	if s.from["redis-wait"] == "" {
		h.wait = waitPatience
	}
	since := bootNow()
	w := &waiter{hand: h, signals: listen(), began: time.Now(),
		turn: &turn{since: since, bound: since.add(s.timeout), wake: make(chan struct{}, 1)}}
	defer w.turn.close()
	// What ends before the subscription is seen by looking once more.
	if e := await(w.signals, w.turn.subscribe(h.ledger, h.ledger.channel(h.job))); e != nil {
		return e
	}
	return w.untilDone()
}

// untilDone looks again and again, and returns what came of it.
func (w *waiter) untilDone() error {
	for told := false; ; told = true {
		r, err := w.look()
		if err != nil {
			return err
		}
		if e, over := w.over(r); over {
			return orNil(e)
		}
		left := w.turn.bound.until()
		if left <= 0 {
			return w.timeOver(r)
		}
		if !told {
			w.tell(r)
		}
		pause := lookEvery + rand.N(lookEvery/5)
		if r != nil && r.TTL > 0 {
			pause = min(pause, time.Duration(r.TTL)*time.Millisecond+pastLease)
		}
		timer := time.AfterFunc(min(pause, left), w.turn.wakeUp)
		e := await(w.signals, w.turn.wake)
		timer.Stop()
		if e != nil {
			return e
		}
	}
}

// look asks how the slot stands; nil if the job has not been seen. A signal ends it, an answer or not.
func (w *waiter) look() (r *waitReply, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w.timeout > 0 || w.j != nil {
			w.hand.wait = min(w.hand.wait, max(w.turn.bound.until(), requestTimeout)) // a slow answer is one
		}
		if err = w.find(); err == nil && w.slot != "" {
			r, err = order[waitReply](w.hand, waitLua, map[string]any{"slot": w.slot, "begins": w.begins})
		}
	}()
	if e := await(w.signals, done); e != nil {
		return nil, e
	}
	return r, err
}

// find finds the slot, once the job is known: that of the date, else the line's newest, else the ledger's.
func (w *waiter) find() error {
	if w.slot != "" {
		return nil
	}
	j, err := w.state("")
	if no := (*exit)(nil); errors.As(err, &no) && no.status == exitNo {
		w.meant = no.hint
		w.bind(nil)
		return nil
	}
	if err != nil {
		return err
	}
	if j.line == nil && w.date != "" {
		if j, err = w.state(w.date); err != nil {
			return err
		}
	}
	w.j = j
	w.bind(j.line)
	switch {
	case j.chosen != nil:
		w.slot, w.begins = j.chosen.name, j.chosen.begins
	case j.line == nil && len(j.slots) > 0:
		w.slot, w.begins = j.slots[0].name, j.slots[0].begins
	case j.line != nil:
		return w.ofLine(j.line)
	}
	return nil
}

// ofLine takes the line's slot at the date, or now.
func (w *waiter) ofLine(l *line) error {
	s, err := l.at(w.began)
	if w.date != "" {
		s, err = l.parse(w.date, w.began)
		err = wrong("date", place{"--date", w.date}, err)
	}
	w.slot, w.begins = s.name, millis(s.begins)
	return err
}

// bind sets the end of the wait, unless it was given: when the next slot begins, by the line, or at midnight.
func (w *waiter) bind(l *line) {
	if w.timeout > 0 || w.turn.bound != w.turn.since {
		return
	}
	year, month, day := w.began.Date()
	end := time.Date(year, month, day+1, 0, 0, 0, 0, w.began.Location())
	if l != nil {
		if s, err := l.at(w.began); err == nil {
			if next, err := l.next(s); err == nil {
				end = next.begins
			}
		}
	}
	w.turn.bound = w.turn.since.add(max(end.Sub(w.began), time.Millisecond))
}

func (w *waiter) name() string {
	if w.j == nil {
		return w.job
	}
	return w.job + " " + w.j.label(w.slot)
}

// over says whether there is nothing more to wait for, and what to say then.
func (w *waiter) over(r *waitReply) (*exit, bool) {
	if r == nil {
		return nil, false
	}
	settle := toSettle(w.j.typed, w.j.label(w.slot), "--done or --reopen,")
	switch r.Verdict {
	case "done":
		return nil, true
	case "failed":
		return &exit{status: exitNo, hint: settle, msg: fmt.Sprintf("%s: failed on %s at %s (%s), no attempt left", w.name(),
			r.Entry.Host, w.clock(cmp.Or(r.Entry.Ended, r.Entry.Began)), endOf(r.Entry))}, true
	case "uncertain":
		return &exit{status: exitNo, hint: "find out, then " + settle, msg: fmt.Sprintf(
			"%s: uncertain: %s began at %s and never reported; it may have done all, part or nothing", w.name(),
			holderOf(r.Entry), w.clock(r.Entry.Began))}, true
	case "old":
		return &exit{status: exitNo, msg: fmt.Sprintf("%s: the ledger reaches back to %s, nobody can say whether it ran",
			w.name(), w.j.label(r.Oldest))}, true
	}
	return nil, false
}

func (w *waiter) clock(ms int64) string { return w.j.clock(ms, dateOf(w.slot)) }

// standing says how the slot stands that is not done.
func (w *waiter) standing(r *waitReply) string {
	switch {
	case r == nil:
		return "no such job yet in namespace " + w.namespace
	case r.Verdict == "running":
		return fmt.Sprintf("running on %s since %s", holderOf(r.Entry), w.clock(r.Entry.Began))
	case r.Entry != nil && r.Entry.Attempt > 0:
		return fmt.Sprintf("attempt %d began on %s at %s", r.Entry.Attempt, r.Entry.Host, w.clock(r.Entry.Began))
	case r.Entry != nil:
		return r.Entry.State
	}
	return "nobody has begun"
}

// tell says what is waited for.
func (w *waiter) tell(r *waitReply) {
	w.voice.normally("%s: waiting: %s", w.name(), w.standing(r))
	if r == nil && w.voice.verbose {
		w.voice.hint(w.meant)
	}
}

// timeOver is the exit at the bound.
func (w *waiter) timeOver(r *waitReply) *exit {
	return &exit{status: exitNotDone, msg: fmt.Sprintf("%s: not done after %s: %s", w.name(),
		brief(time.Duration(bootNow()-w.turn.since)), w.standing(r))}
}
