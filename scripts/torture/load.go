//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The load: every host asks for the same slots at about the same time, as cron would have it, only faster: a slot is a
// business date, and the dates go by in seconds.

const (
	mostAsks   = 50               // onceonly processes at a time
	longestRun = 30 * time.Second // that one may take once all faults are over
	firstDate  = "2020-01-01"
)

// date is the n-th slot.
func date(n int) string {
	first, _ := time.Parse(time.DateOnly, firstDate)
	return first.AddDate(0, 0, n).Format(time.DateOnly)
}

// askAlong asks for one slot after the other until the scene is over.
func (s *scene) askAlong(l *line) {
	defer s.work.Done()
	r := newRandom(s.stage.seed, l.job)
	for n := 0; ; n++ {
		for _, h := range s.askers(r) {
			late := time.Duration(r.ExpFloat64() * float64(20*time.Millisecond))
			if r.IntN(10) == 0 {
				late += between(r, 0, 3*time.Second)
			}
			s.work.Add(1)
			go func() {
				defer s.work.Done()
				if s.pause(late) && s.running() < mostAsks {
					s.ask(h, l, date(n), false)
				}
			}()
		}
		longest := 3 * time.Second
		if s.mood == brisk {
			longest = 600 * time.Millisecond
		}
		if !s.pause(between(r, 200*time.Millisecond, longest)) {
			return
		}
	}
}

// askers are the hosts that ask for a slot: mostly all.
func (s *scene) askers(r *rand.Rand) []*host {
	if s.mood == brisk || r.IntN(5) == 0 {
		return []*host{pick(r, s.hosts...)}
	}
	return s.hosts
}

// ask runs onceonly to its end.
func (s *scene) ask(h *host, l *line, slot string, last bool) *ask {
	a, cmd, err := h.start(s, l, slot, last)
	if err != nil {
		s.stage.logf("%v", err)
		return nil
	}
	s.traps.spawned(a)
	a.await(s, cmd)
	return a
}

func (s *scene) running() (n int) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for _, a := range s.history.asks {
		if a.ended == never {
			n++
		}
	}
	return n
}

// settle waits for all that was begun, and asks again for every slot: now that all is well, each must come to its end.
func (s *scene) settle() error {
	if err := await("topology whole again", 40*time.Second, s.topology.whole); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		s.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(longestRun): // found by the judge
	}
	time.Sleep(s.longestLease()) // what was killed has a lease yet
	if s.stepped {
		s.elapse()
	}
	var jobs sync.WaitGroup
	for _, l := range s.lines {
		jobs.Go(func() { s.askAgain(l) })
	}
	jobs.Wait()
	return nil
}

// elapse lets as much time pass on Redis's clock as it was ever set back by: a lease from before lasts so much longer.
func (s *scene) elapse() {
	s.clock.set(longestStep)
	defer s.clock.set(0)
	for _, l := range s.lines {
		s.topology.nodes[0].admin.Exists(context.Background(), s.key(l.job, "lock")) // Redis forgets what is over when it is asked for
	}
}

func (s *scene) longestLease() (d time.Duration) {
	for _, l := range s.lines {
		d = max(d, l.lease)
	}
	return d
}

// askAgain asks for every slot of a job that is not done, on any host, after every host has delivered what it keeps.
func (s *scene) askAgain(l *line) {
	slots := s.slots(l.job)
	if len(slots) == 0 {
		return
	}
	again := *l
	again.overlap, again.waits, again.patience, again.standby = "wait", 10*time.Second, 10*time.Second, false
	again.timeout = 0
	for _, h := range s.hosts {
		s.ask(h, &again, slots[0], true)
	}
	entries := s.entries(l.job)
	for i, slot := range slots {
		if e := entries[slot]; e == nil || e.State != "done" {
			s.askOut(s.hosts[i%len(s.hosts)], &again, slot)
		}
	}
	for _, h := range s.hosts {
		if len(h.spooled()) > 0 {
			s.ask(h, &again, slots[0], true)
		}
	}
}

// askOut asks for a slot until it has had all its attempts. Mostly once is enough; but an onceonly that could not keep its
// lease, or tell its end, because this machine is too busy, tries no further attempt.
func (s *scene) askOut(h *host, l *line, slot string) {
	for range l.attempts {
		s.ask(h, l, slot, true)
		if e := s.entries(l.job)[slot]; e == nil || e.State == "done" || e.Attempt >= l.attempts {
			return
		}
	}
}

// slots are those of a job that anybody asked for, in order.
func (s *scene) slots(job string) (all []string) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	asked := map[string]bool{}
	for _, a := range s.history.asks {
		if a.job == job {
			asked[a.slot] = true
		}
	}
	for n := 0; len(all) < len(asked); n++ {
		if asked[date(n)] {
			all = append(all, date(n))
		}
	}
	return all
}

// An entry is what the ledger says about one slot.
type entry struct {
	State   string   `json:"state"`
	RunID   string   `json:"run_id"`
	Try     int      `json:"try"`
	Attempt int      `json:"attempt"`
	Token   int64    `json:"token,string"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Reason  string   `json:"reason"`
	Exit    *int     `json:"exit"`
	Signal  string   `json:"signal"`
	Stale   int      `json:"stale"`
	Earlier []string `json:"earlier"`
}

func (s *scene) key(job, name string) string { return fmt.Sprintf("onceonly:{%s}:%s", job, name) }

// entries reads a job's ledger.
func (s *scene) entries(job string) map[string]*entry {
	all := map[string]*entry{}
	m := s.topology.master()
	if m == nil {
		return all
	}
	flat, err := m.admin.HGetAll(context.Background(), s.key(job, "ledger")).Result()
	if err != nil {
		s.stage.logf("ledger of %s: %v", job, err)
	}
	for slot, text := range flat {
		e := &entry{}
		if err := json.Unmarshal([]byte(text), e); err != nil {
			s.stage.logf("entry %s %s: %v", job, slot, err)
		}
		all[slot] = e
	}
	return all
}

// An event is a line of a job's log.
type event struct {
	what, slot, state, exit string
	token                   int64
}

// events reads a job's log.
func (s *scene) events(job string) (all []event) {
	m := s.topology.master()
	if m == nil {
		return nil
	}
	messages, _ := m.admin.XRange(context.Background(), s.key(job, "log"), "-", "+").Result()
	for _, m := range messages {
		e := event{}
		e.what, _ = m.Values["event"].(string)
		e.slot, _ = m.Values["slot"].(string)
		e.state, _ = m.Values["state"].(string)
		e.exit, _ = m.Values["exit"].(string)
		text, _ := m.Values["token"].(string)
		fmt.Sscan(text, &e.token)
		all = append(all, e)
	}
	return all
}
