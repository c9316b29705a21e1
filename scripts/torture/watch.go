//go:build linux

package main

import (
	"time"
)

// What is watched over a whole scene: whether this machine keeps up, and whether a command outlives its onceonly.

const (
	tick     = 5 * time.Millisecond
	tooLate  = 20 * time.Millisecond  // a tick that late is a stall
	lookEach = 500 * time.Millisecond // for orphans
)

// watchStalls notes when a process that only wants to wake is not woken in time. Leases are promised to hold on a machine
// whose own delays are shorter than what a lease has in hand.
func (s *scene) watchStalls(done <-chan struct{}) {
	for before := bootNow(); ; {
		select {
		case <-done:
			return
		case <-time.After(tick):
		}
		now := bootNow()
		if late := now.sub(before) - tick; late > tooLate {
			s.history.addStall(&s.history.stalls, late)
		}
		before = now
	}
}

// watchRedis notes when Redis takes longer to answer than a renewal can well wait.
func (s *scene) watchRedis(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * tick):
		}
		asked := bootNow()
		s.topology.nodes[0].admin.Ping(ctxNow())
		if took := since(asked); took > renewalWait/2 {
			s.history.addStall(&s.history.slow, took)
		}
	}
}

// renewalWait is how long the shortest lease's renewal waits.
const renewalWait = 200 * time.Millisecond

// watchOrphans looks for processes of an attempt whose onceonly has been gone for two leases. The run ID is in their
// environment, wherever they have gone.
func (s *scene) watchOrphans(done <-chan struct{}) {
	for {
		select {
		case <-done:
			s.lookForOrphans()
			return
		case <-time.After(lookEach):
			s.lookForOrphans()
		}
	}
}

func (s *scene) lookForOrphans() {
	gone := map[int]*life{} // by process group
	s.history.mu.Lock()
	for _, l := range s.history.order {
		if a := s.history.byPID[l.wrapper]; a != nil && a.ended != never && since(a.ended) > 2*s.lease(l.job) && !l.gone {
			gone[l.pid] = l
		}
	}
	s.history.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	for _, p := range processes() {
		if l := gone[p.group]; l != nil && !p.dead && variable(p.pid, "ONCEONLY_RUN_ID") == l.run {
			s.history.addOrphan(orphan{l.run, p.pid, bootNow()})
		}
	}
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for _, l := range gone {
		l.gone = true // what is not there two leases later does not come again
	}
}

func (s *scene) lease(job string) time.Duration {
	for _, l := range s.lines {
		if l.job == job {
			return l.lease
		}
	}
	return 0
}
