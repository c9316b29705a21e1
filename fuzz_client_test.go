package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// One process of the fuzz, as onceonly has it: it asks, its command runs, it reports the end; and it stalls or dies.

// A fuzzClient is one process after another, each as onceonly has it.
type fuzzClient struct {
	fuzz *fuzz
	r    *rand.Rand
	name string
	wire *fuzzWire
	n    int
	l    *lease
	q    question
}

func (f *fuzz) client(n int) *fuzzClient {
	return &fuzzClient{fuzz: f, name: "host" + strconv.Itoa(n),
		r: rand.New(rand.NewPCG(f.seed, uint64(f.rounds)<<32+uint64(n)+1))}
}

// choose takes a job, and one of its slots: mostly one of the four that are worth asking for. Every slot has its own
// number of attempts; job 0 keeps next to nothing.
func (c *fuzzClient) choose() {
	c.n = c.r.IntN(fuzzJobs)
	slot := c.fuzz.bases[c.n].Load() + c.r.Int64N(4)
	if c.r.IntN(20) == 0 {
		slot = max(0, slot-c.r.Int64N(30))
	}
	keep := 40
	if c.n == 0 {
		keep = 3
	}
	c.q = question{asker: asker{Host: c.name, PID: 1, User: "root", Version: "test"},
		terms: terms{Every: "1m", DayStart: "00:00", Attempts: 1 + int(slot%3), Lease: 1, Keep: keep, Zone: "UTC",
			ZoneYear: "2026", Offsets: map[string]string{"2026": "0,0"}, ZoneFrom: "default", Line: "line"},
		Slot: fmt.Sprintf("slot-%04d", slot), Begins: fuzzFirstSlot + slot*60000,
		Overlap: []string{"skip", "wait"}[c.r.IntN(2)]}
}

// run is one process, from its question to its end.
func (c *fuzzClient) run() {
	c.choose()
	c.wire = &fuzzWire{fuzz: c.fuzz, r: c.r}
	ttl := time.Duration(20+c.r.IntN(int(fuzzLongest/time.Millisecond)-19)) * time.Millisecond
	c.l = newLease(&ledger{c.wire, c.fuzz.namespace()}, c.fuzz.job(c.n), c.name+":1", ttl)
	for c.q.Try = 1; ; c.q.Try++ {
		r := c.ask()
		if r == nil || r.Verdict != "run" {
			c.refused(r)
			return
		}
		if c.q.Try > 1 {
			c.fuzz.count("next tries")
		}
		if !c.attempt(r) {
			return
		}
	}
}

// ask asks until there is an answer with more than half the lease left; nil if it gives up.
func (c *fuzzClient) ask() *reply {
	given := false
	for {
		r, err := c.l.begin(context.Background(), c.q)
		switch {
		case err == nil && r.Verdict != "run":
			if given && !c.l.ends().past() && !c.wasStopped() {
				c.fault("asked again in its lease, it was told %s", r.Verdict)
			}
			return r
		case err == nil && c.l.kill().until() > c.l.ttl/2:
			return r
		case err == nil:
			given, c.wire.unanswered = true, true
		case !errors.Is(err, errUnanswered):
			return nil
		}
		if c.r.IntN(8) == 0 {
			return nil
		}
		doze(c.r, 0, 4)
		c.wire.stall(4)
	}
}

// refused leaves. Who has asked without an answer, or has kept the lease, says so: what is under way then does nothing.
func (c *fuzzClient) refused(r *reply) {
	if c.q.Try > 1 {
		c.fuzz.count("refused next tries")
	}
	if c.wire.unanswered || (r == nil && c.q.Try > 1) || (r != nil && (r.Verdict == "lost" || r.Verdict == "ended")) {
		if c.r.IntN(10) != 0 { // else it dies
			c.unstarted(r)
		}
		return
	}
	c.over()
	if r == nil { // Redis refused
		return
	}
	switch r.Verdict {
	case "done", "failed", "uncertain", "old":
		oldest := &c.fuzz.bases[c.n]
		if n := (c.q.Begins - fuzzFirstSlot) / 60000; n == oldest.Load() {
			oldest.CompareAndSwap(n, n+1)
		}
		if r.Verdict == "old" {
			c.fuzz.count("trimmed")
		}
	}
	doze(c.r, 0, 4)
}

// wasStopped says whether somebody may have stopped this process by hand.
func (c *fuzzClient) wasStopped() bool {
	c.fuzz.mu.Lock()
	defer c.fuzz.mu.Unlock()
	return c.fuzz.stopped[c.l.runID]
}

// over tells the referee that this process has left for good, and that nothing of it may be seen from now on.
func (c *fuzzClient) over() {
	c.fuzz.mu.Lock()
	c.fuzz.over[c.l.runID] = bootNow()
	c.fuzz.mu.Unlock()
}

func (c *fuzzClient) fault(format string, args ...any) {
	f := c.fuzz
	f.mu.Lock()
	f.fault("%v: %s", f.attempt("", end{attempt: attempt{c.l.runID, c.q.Try}}), fmt.Sprintf(format, args...))
	f.mu.Unlock()
}

// attempt is the command, from its start to its end. It returns true if the same process tries again.
func (c *fuzzClient) attempt(r *reply) bool {
	c.wire.stall(12)
	if c.r.IntN(12) == 0 || c.l.kill().past() { // nothing begins once the lease is past
		c.unstarted(r)
		return false
	}
	f := c.fuzz
	f.mu.Lock()
	a := f.attempts[attempt{c.l.runID, c.q.Try}]
	a.from = bootNow()
	f.mu.Unlock()
	c.l.attempt = func() end { return c.end(r) }
	lost, dead := c.work()
	f.mu.Lock()
	a.until = min(bootNow(), dead)
	f.mu.Unlock()
	if c.r.IntN(12) == 0 {
		return false // killed: nobody says how it ended
	}
	e := c.end(r)
	switch n := c.r.IntN(10); {
	case n < 3 && !lost:
		e.State, e.Exit = "done", "0"
	default:
		e.State, e.Exit, e.Kept = "failed", "1", n > 5 && !lost
	}
	if !c.tell(e) {
		return false
	}
	f.mu.Lock()
	a.early = c.l.ends() - a.ended
	if lost {
		a.early = 0
	}
	f.mu.Unlock()
	if e.Kept {
		return c.again(e)
	}
	c.over()
	return false
}

// work takes its time and keeps the lease, more or less. It returns true if the lease is lost, and when the command was
// dead at the latest.
func (c *fuzzClient) work() (bool, boot) {
	for range c.r.IntN(5) {
		if c.r.IntN(3) != 0 {
			time.Sleep(time.Duration(c.r.Int64N(int64(c.l.ttl / 3)))) // the command at work
		}
		c.wire.stall(15)
		if c.l.kill().past() {
			c.fuzz.count("lost")
			return true, c.l.kill()
		}
		if c.r.IntN(3) == 0 {
			continue
		}
		kill := c.l.kill()
		err := c.l.renew(context.Background())
		if left := c.l.ends().until(); errors.Is(err, errLost) && left > 0 && !c.wasStopped() {
			c.fault("its lease was gone %v before its time", left)
		}
		if errors.Is(err, errLost) || kill.past() { // an answer that comes too late finds the command dead
			c.fuzz.count("lost")
			return true, kill
		}
	}
	return false, c.l.kill()
}

// again waits for the next try, with the lease kept. It returns false if there will be none.
func (c *fuzzClient) again(e end) bool {
	c.fuzz.count("kept")
	if c.r.IntN(12) == 0 {
		return false // killed
	}
	c.fuzz.later(c.wire.granted, c.wire.delay()) // to meet the next try
	lost, _ := c.work()
	if c.r.IntN(8) == 0 || (lost && c.r.IntN(2) == 0) || c.q.Try > 5 { // told to stop
		e.Kept = false
		if c.tell(e) {
			c.over()
		}
		return false
	}
	c.wire.unanswered = false // of the question to come nothing is under way
	return true
}

func (c *fuzzClient) end(r *reply) end {
	e := end{attempt: attempt{Try: c.q.Try}, asker: c.q.asker, terms: c.q.terms, Slot: c.q.Slot, Begins: c.q.Begins,
		Channel: "events"}
	if r != nil {
		e.Number, e.Token, e.Began = r.Attempt, r.Token, r.Time
	}
	return e
}

func (c *fuzzClient) unstarted(r *reply) {
	e := c.end(r)
	e.State, e.Reason = "unstarted", "not_started"
	if c.tell(e) {
		c.over()
	}
}

// tell sends an end until it is answered. Seldom the client dies before.
func (c *fuzzClient) tell(e end) bool {
	for n := 0; ; n++ {
		c.wire.quiet = n > 3
		_, err := c.l.finish(context.Background(), e)
		if err == nil {
			c.wire.quiet = false
			return true
		}
		if c.r.IntN(30) == 0 {
			return false
		}
		doze(c.r, 0, 3)
	}
}
