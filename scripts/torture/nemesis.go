//go:build linux

package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A nemesis makes one kind of fault, again and again, until the scene is over, and leaves all well. A fault that has taken
// effect is noted (acted): a round in which a nemesis never had any proves nothing about it.
type nemesis struct {
	name   string
	what   string
	kinds  []string // of topology that it needs; nil: any
	act    func(*scene, *rand.Rand)
	relief time.Duration // between two faults, at most
}

var nemeses = []*nemesis{
	{"N1", "kill -9 of onceonly, guard, command", nil, (*scene).armTraps, 250 * time.Millisecond},
	{"N2", "onceonly, guard, command, host frozen", nil, (*scene).freeze, 600 * time.Millisecond},
	{"N3", "host cut off from Redis, one way or both", nil, (*scene).partition, time.Second},
	{"N4", "latency, resets, half answers, late copies", nil, (*scene).disturb, time.Second},
	{"N5", "Redis killed and restarted, same data", []string{appended}, (*scene).restart, 2 * time.Second},
	{"N5-lossy", "Redis restarted empty or with data lost", []string{alone, appended}, (*scene).restartLossy, 3 * time.Second},
	{"N6", "failover: killed, partitioned, by hand", []string{sentinel}, (*scene).failover, 2 * time.Second},
	{"N7", "Redis refuses, pauses, is busy", []string{alone, appended}, (*scene).refuse, 1500 * time.Millisecond},
	{"N7-lossy", "lock deleted, database emptied", []string{alone, appended}, (*scene).empty, 3 * time.Second},
	{"N8", "Redis's clock stepped, too fast, too slow", []string{alone}, (*scene).stepClock, 2 * time.Second},
	{"N10", "processors, memory, state directory taken", nil, (*scene).exhaust, 2 * time.Second},
	{"N11", "two versions of onceonly at once", nil, (*scene).mix, 0},
}

func nemesisNamed(name string) *nemesis {
	i := slices.IndexFunc(nemeses, func(n *nemesis) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return nemeses[i]
}

// inflict lets a nemesis loose until the scene is over. An act returns when its fault is mended.
func (s *scene) inflict(name string) {
	n := nemesisNamed(name)
	r := newRandom(s.stage.seed, s.title(), name, date(s.number))
	for n != nil && s.pause(between(r, n.relief/10, n.relief+time.Millisecond)) {
		n.act(s, r)
	}
}

// a host by lot, or all.
func (s *scene) anyHosts(r *rand.Rand) (name string, hosts []*host) {
	if r.IntN(4) == 0 {
		return "", s.hosts
	}
	h := pick(r, s.hosts...)
	return h.name, []*host{h}
}

// armTraps sets a trap at a step by lot.
func (s *scene) armTraps(r *rand.Rand) {
	step := pick(r, steps...)
	if step == stepGuarded {
		r := newRandom(s.stage.seed, step, date(r.IntN(10000)))
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			for until := bootNow().add(2 * hasGuardAfter); !s.traps.killGuarded(r) && bootNow() < until && s.pause(hasGuardAfter/10); {
			}
		}()
		return
	}
	s.traps.arm(step, newRandom(s.stage.seed, step, date(r.IntN(10000))))
}

// hasGuardAfter is how old a command is when it must have a guard.
const hasGuardAfter = 1300 * time.Millisecond

// freeze stops a part of what runs on a host, or all of it, for up to three leases, and lets others be frozen meanwhile.
func (s *scene) freeze(r *rand.Rand) {
	living := s.history.living()
	if len(living) == 0 {
		return
	}
	l := pick(r, living...)
	target := pick(r, "wrapper", "wrapper", "guard", "command", "all", "all", "host")
	if s.loose { // a writer that wakes late is what a loose fence lets pass
		target = "all"
	}
	lease := s.lease(l.job)
	lasts := between(r, lease/10, 3*lease)
	if target != "host" {
		s.freezeOne(l.host, target, l.wrapper, l, lasts)
		return
	}
	ours := map[int]*life{}
	for _, l := range living {
		ours[l.wrapper] = l
	}
	for _, wrapper := range s.history.running(l.host) { // also those that wait, or ask
		s.freezeOne(l.host, "all", wrapper, ours[wrapper], lasts)
	}
}

// freezeOne stops a part of one run. Without a life there is no command yet.
func (s *scene) freezeOne(host, target string, wrapper int, l *life, lasts time.Duration) {
	guard, group := guardOf(wrapper), 0
	f := &freeze{target: target, wrapper: wrapper, end: never}
	if l != nil {
		group, f.guarded = -l.pid, since(l.began) > hasGuardAfter
	}
	pids := map[string][]int{"wrapper": {wrapper}, "guard": {guard}, "command": {group}, "all": {wrapper, guard, group}}[target]
	if pids[0] == 0 || s.history.frozen(wrapper) {
		return
	}
	ended := s.history.begin("N2", host, target+" frozen")
	f.begin = bootNow()
	s.history.addFreeze(f)
	if send(unix.SIGSTOP, pids...) {
		s.history.acted("N2")
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.pause(lasts)
		slices.Reverse(pids)
		send(unix.SIGCONT, pids...)
		s.history.thaw(f)
		ended()
	}()
}

// partition cuts a host, or all, off from Redis.
func (s *scene) partition(r *rand.Rand) {
	s.traps.drop(stale)
	if r.IntN(3) == 0 {
		s.traps.drop(pick(r, "begin", "renew", "finish", "regain"))
		return
	}
	name, hosts := s.anyHosts(r)
	ways := []weather{{refuse: true}, {noRequests: true, noReplies: true}, {noRequests: true}, {noReplies: true}}
	if hosts[0].net.namespace != nil {
		ways = append(ways, weather{down: true})
	}
	w := pick(r, ways...)
	what := map[weather]string{{refuse: true}: "refused", {noRequests: true, noReplies: true}: "cut off",
		{noRequests: true}: "requests lost", {noReplies: true}: "replies lost", {down: true}: "interface down"}[w]
	s.bring(r, name, hosts, what, w, "N3")
}

// bring makes a weather for a while, on hosts that have none, and lets other hosts have theirs meanwhile.
func (s *scene) bring(r *rand.Rand, name string, hosts []*host, what string, w weather, nemesis string) {
	longest := time.Duration(pick(r, 1, 1, 1, 3)) * s.longestLease()
	lasts := between(r, 200*time.Millisecond, longest)
	for _, h := range hosts {
		if h.net.now() != (weather{}) {
			return
		}
	}
	ended := s.history.begin(nemesis, name, what)
	w.nemesis = nemesis
	for _, h := range hosts {
		h.net.turn(w)
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.pause(lasts)
		for _, h := range hosts {
			h.net.turn(weather{})
			if w.noReplies || w.noRequests { // what was lost is never sent again: the connection is dead
				h.net.cut()
			}
		}
		ended()
	}()
}

// disturb delays, resets, and cuts answers in the middle.
func (s *scene) disturb(r *rand.Rand) {
	name, hosts := s.anyHosts(r)
	s.traps.hold(pick(r, "begin", "begin", "finish", "renew"), between(r, 20*time.Millisecond, 2*s.longestLease()/5))
	switch r.IntN(4) {
	case 0:
		s.bring(r, name, hosts, "slow", weather{delay: between(r, 5*time.Millisecond, s.longestLease()/2)}, "N4")
	case 1:
		s.bring(r, name, hosts, "half answers", weather{half: true}, "N4")
	case 2:
		s.traps.delayCopy()
	default:
		ended := s.history.begin("N4", name, "connections reset")
		for _, h := range hosts {
			if h.net.cut() > 0 {
				s.history.acted("N4")
			}
		}
		ended()
	}
}

// mix needs no act: hosts with another version are there from the beginning.
func (s *scene) mix(*rand.Rand) { <-s.over }
