//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Faults of the servers.

// away kills a node and starts it again after a while, with what meanwhile was done to it. It says whether it is up again.
func (s *scene) away(r *rand.Rand, nemesis, what string, n *node, longest time.Duration, meanwhile func()) bool {
	ended := s.history.begin(nemesis, "", what)
	defer ended()
	n.kill()
	meanwhile()
	s.pause(between(r, 0, longest))
	var err error
	if await(n.name+" up", longestRun, func() bool { err = n.start(); return err == nil }) != nil { // another fault may be in its way
		s.stage.logf("s%d: %v", s.number, err)
		return false
	}
	return true
}

// restart loses nothing: every write is on disk before it is acknowledged.
func (s *scene) restart(r *rand.Rand) {
	if s.away(r, "N5", "Redis killed, same data", s.topology.nodes[0], 2*s.longestLease(), func() {}) {
		s.history.acted("N5")
	}
}

// restartLossy loses all, or the newest part.
func (s *scene) restartLossy(r *rand.Rand) {
	s.lossy = true
	n := s.topology.nodes[0]
	if s.topology.kind == alone {
		if s.away(r, "N5-lossy", "Redis restarted empty", n, s.longestLease(), func() {}) {
			s.history.acted("N5-lossy")
		}
		return
	}
	s.away(r, "N5-lossy", "Redis's file cut", n, s.longestLease(), func() {
		files, _ := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
		for _, name := range files {
			if info, err := os.Stat(name); err == nil {
				if cut := r.Int64N(1 + info.Size()/4); os.Truncate(name, info.Size()-cut) == nil && cut > 0 {
					s.history.acted("N5-lossy")
				}
			}
		}
	})
}

// failover makes the replica master: the old one is killed, or cut off with its clients on its side, or told to.
func (s *scene) failover(r *rand.Rand) {
	s.lossy = true
	m, before := s.topology.master(), s.topology.epoch()
	if m == nil {
		return
	}
	notice := func() {
		if s.brief { // for once: a master that is back before the Sentinels have noticed is no failover
			await("another master", 10*time.Second, func() bool { return s.topology.epoch() != before })
		}
	}
	switch r.IntN(4) {
	case 0:
		s.away(r, "N6", "master killed", m, 3*time.Second, notice)
	case 1:
		s.isolate(r, m, "master cut off", 3*time.Second)
	case 2:
		ended := s.history.begin("N6", "", "failover by hand")
		if err := s.topology.sentinels[0].do("sentinel failover " + masterName); err != nil {
			s.stage.logf("s%d: failover: %v", s.number, err)
		}
		s.pause(2 * time.Second)
		ended()
	default: // what is written now is lost
		s.isolate(r, m, "replication cut, then master killed", time.Second)
		s.away(r, "N6", "master killed", m, 3*time.Second, notice)
	}
	await("topology whole again", 20*time.Second, s.topology.whole)
	if now := s.topology.epoch(); now != "" && before != "" && now != before {
		s.history.acted("N6")
	}
}

// isolate cuts a master off from replica and Sentinels, and from nobody else.
func (s *scene) isolate(r *rand.Rand, m *node, what string, d time.Duration) {
	ended := s.history.begin("N6", "", what)
	defer ended()
	m.do("acl setuser inner off")
	m.do("client kill user inner")
	s.pause(between(r, d/2, d))
	m.do("acl setuser inner on")
}

// A refusal is begun by one command and ended by another.
type refusal struct{ what, begin, end string }

// refuse has Redis say no, in one way after the other.
func (s *scene) refuse(r *rand.Rand) {
	n := s.topology.nodes[0]
	longest := 2 * s.longestLease()
	if s.brief { // it is to meet most of them
		longest /= 4
	}
	lasts := between(r, 100*time.Millisecond, longest)
	if len(s.refusals) == 0 {
		s.refusals = r.Perm(7)
	}
	x := []refusal{{"memory full", "config set maxmemory 1", "config set maxmemory 0"},
		{"too few replicas", "config set min-replicas-to-write 2", "config set min-replicas-to-write 0"},
		{"rights taken", "acl setuser default -eval", "acl setuser default +eval"},
		{"MISCONF", "", ""},
		{"paused", fmt.Sprintf("client pause %d all", lasts.Milliseconds()), "ping"}, // nobody could end it before
		{"busy", "", "script kill"},
		{"scripts flushed", "script flush", "ping"}}[s.refusals[0]]
	s.refusals = s.refusals[1:]
	ended := s.history.begin("N7", "", x.what)
	defer ended()
	switch x.what {
	case "MISCONF":
		s.misconf(n, lasts)
		return
	case "busy":
		go n.do("eval while(true)do;end 0")
		await("busy script", longestRun, func() bool { return n.do("ping") != nil })
	default:
		if err := n.do(x.begin); err != nil {
			s.stage.logf("s%d: %s: %v", s.number, x.what, err)
		}
	}
	s.pause(lasts)
	err := await(x.what+" is over", longestRun, func() bool {
		return n.do(x.end) == nil || (x.what == "busy" && n.do("ping") == nil)
	})
	if err != nil {
		s.stage.logf("s%d: %v", s.number, err)
	}
}

// misconf: Redis writes no more when its dump cannot be written. A directory has the dump's name.
func (s *scene) misconf(n *node, lasts time.Duration) {
	dump := filepath.Join(n.dir, "dump.rdb")
	os.Mkdir(dump, 0o700)
	defer os.Remove(dump)
	n.admin.ConfigSet(ctxNow(), "save", "3600 1")
	n.do("bgsave")
	await("failed dump", 3*time.Second, func() bool { return n.info("rdb_last_bgsave_status") == "err" })
	s.pause(lasts)
	n.admin.ConfigSet(ctxNow(), "save", "")
}

// empty deletes locks, or all.
func (s *scene) empty(r *rand.Rand) {
	s.lossy = true
	n := s.topology.nodes[0]
	job := pick(r, s.lines...).job
	what, command := "lock deleted", "del "+s.key(job, "lock")
	if r.IntN(3) == 0 {
		what, command = "database emptied", "flushall"
	}
	ended := s.history.begin("N7-lossy", "", what)
	if deleted, err := n.ask(command); err == nil && deleted != int64(0) {
		s.history.acted("N7-lossy")
	}
	ended()
}

const longestStep = 2 * time.Minute

// stepClock moves Redis's clock, or lets it run too fast or too slow.
func (s *scene) stepClock(r *rand.Rand) {
	s.stepped = true
	by := between(r, 500*time.Millisecond, longestStep)
	if r.IntN(2) == 0 {
		by = between(r, 500*time.Millisecond, 5*time.Second)
	}
	if r.IntN(2) == 0 {
		by = -by
	}
	ended := s.history.begin("N8", "", fmt.Sprintf("clock %v", by))
	defer ended()
	clock, began := s.clock, bootNow()
	defer clock.set(0)
	if r.IntN(3) > 0 {
		clock.set(by)
		s.seeClock(by)
		s.pause(between(r, time.Second, 2*s.longestLease()))
		return
	}
	drift := time.Duration(0)
	for since(began) < 2*s.longestLease() && s.pause(20*time.Millisecond) { // a hundredth too fast or too slow
		if drift = since(began) / 100; by < 0 {
			drift = -drift
		}
		clock.set(drift)
	}
	s.seeClock(drift)
}

// seeClock looks whether Redis's clock is off by so much.
func (s *scene) seeClock(by time.Duration) {
	now, err := s.topology.nodes[0].admin.Time(ctxNow()).Result()
	if err == nil && (time.Until(now)-by).Abs() < by.Abs()/2 {
		s.history.acted("N8")
	}
}
