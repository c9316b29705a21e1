//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A scene is one topology with its own servers, hosts and jobs, under one nemesis or two; afterwards it is judged.

// A stage is what all scenes play on.
type stage struct {
	dir   string
	fast  string // a directory in memory, where there is one: what is written there must not wait for others' disks
	self  string // this program, for the jobs
	seed  string
	judge *judge
	hook  *hook
	shim  *shim
	logf  func(string, ...any)

	mu     sync.Mutex
	scenes map[int]*scene // that play now
}

// A plan is what a scene is to be.
type plan struct {
	number   int
	kind     string // of topology
	nemeses  []string
	lasts    time.Duration
	program  string // the onceonly under torture
	old      string // another one that runs beside it, "": none
	loose    bool   // the fence is checked apart from the write
	hosts    int
	jobs     int
	mood     string
	brief    bool     // short leases and waits
	expected []string // invariants that are to be broken, and are not told
}

func (p *plan) title() string { return strings.Join(p.nemeses, "+") }

// A mood is what the commands of a scene are like. Where there is one, they have three attempts, and all hosts stand by.
const (
	quarrelsome = "quarrelsome" // they mostly fail
	tedious     = "tedious"     // they last for several leases
	brisk       = "brisk"       // they are soon over, and only one host asks for a slot
)

type scene struct {
	*plan
	stage    *stage
	dir      string
	random   *rand.Rand
	topology *topology
	hosts    []*host
	lines    []*line
	history  *history
	traps    *traps
	clock    *shim         // Redis's, where it is to be moved
	over     chan struct{} // closed when nothing new is to begin
	work     sync.WaitGroup
	lossy    bool  // Redis was made to forget what it had acknowledged
	stepped  bool  // its clock was moved
	full     bool  // a host's disk was full
	refusals []int // the ways in which Redis is still to say no, before all come again
}

// newScene starts servers and hosts.
func (t *stage) newScene(p *plan) (*scene, error) {
	s := &scene{plan: p, stage: t, dir: filepath.Join(t.fast, fmt.Sprintf("s%d", p.number)), history: newHistory(),
		random: newRandom(t.seed, strconv.Itoa(p.number)), over: make(chan struct{})}
	s.traps = &traps{scene: s}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return nil, err
	}
	var err error
	if slices.Contains(p.nemeses, "N8") {
		if s.clock, err = t.shim.another(s.dir); err != nil {
			return nil, err
		}
	}
	if s.topology, err = build(p.kind, s.dir, s.clock); err != nil {
		return nil, err
	}
	for i := range p.hosts {
		if err := s.addHost(fmt.Sprintf("h%d", i)); err != nil {
			s.clear()
			return nil, err
		}
	}
	for i := range p.jobs {
		s.lines = append(s.lines, s.newLine(fmt.Sprintf("s%d-%c", p.number, 'a'+i)))
	}
	t.mu.Lock()
	t.scenes[p.number] = s
	t.mu.Unlock()
	return s, nil
}

func (s *scene) addHost(name string) error {
	h := &host{name: name, net: newNetwork(name, newNamespace(name), s.traps), program: s.program,
		state: filepath.Join(s.dir, name)}
	s.hosts = append(s.hosts, h)
	if slices.Contains(s.nemeses, "N10") {
		h.memory = newMemory(fmt.Sprintf("torture-%d-%d-%s", os.Getpid(), s.number, name))
	}
	if s.old != "" && s.random.IntN(2) == 0 {
		h.program = s.old
	}
	if err := os.MkdirAll(h.state, 0o700); err != nil {
		return err
	}
	var err error
	h.url, err = s.topology.url(h.net)
	h.env = []string{envSink + "=" + s.stage.judge.url(), envHook + "=" + s.stage.hook.path, envSeed + "=" + s.stage.seed,
		envMood + "=" + s.mood}
	if s.loose {
		h.env = append(h.env, envLoose+"=1")
	}
	return err
}

// newLine makes a crontab line by lot.
func (s *scene) newLine(job string) *line {
	r := s.random
	l := &line{job: job, lease: pick(r, 2*time.Second, 3*time.Second), attempts: 1 + r.IntN(3), overlap: pick(r, "skip", "wait"),
		grace: pick(r, 100*time.Millisecond, 400*time.Millisecond, 2*time.Second), patience: pick(r, time.Second, 3*time.Second),
		waits: pick(r, 3*time.Second, 6*time.Second)}
	if s.mood != "" {
		l.attempts, l.overlap = 3, "wait"
	}
	if s.brief {
		l.lease, l.waits = 2*time.Second, 3*time.Second
	}
	l.standby = s.mood != "" || l.attempts > 1 && r.IntN(3) > 0
	if r.IntN(4) == 0 {
		l.timeout = 2 * time.Second
	}
	return l
}

// play runs the scene and returns what is wrong.
func (s *scene) play(ctx context.Context) (*verdict, error) {
	defer s.clear()
	done := make(chan struct{})
	var watchers sync.WaitGroup
	for _, watch := range []func(<-chan struct{}){s.watchStalls, s.watchRedis, s.watchOrphans} {
		watchers.Go(func() { watch(done) })
	}
	for _, l := range s.lines {
		s.work.Add(1)
		go s.askAlong(l)
	}
	var faults sync.WaitGroup
	for _, name := range s.nemeses {
		faults.Go(func() { s.inflict(name) })
	}
	select {
	case <-time.After(s.lasts):
	case <-ctx.Done():
	}
	close(s.over)
	faults.Wait()
	s.traps.disarm()
	err := ctx.Err()
	if err == nil {
		err = s.settle()
	}
	close(done)
	watchers.Wait()
	if err != nil {
		return nil, err
	}
	return s.verdict()
}

// pause waits; it returns false if the scene is over before.
func (s *scene) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.over:
		return false
	}
}

// clear ends all that the scene has started.
func (s *scene) clear() {
	s.history.mu.Lock()
	for _, a := range s.history.asks {
		if a.ended == never {
			s.stage.logf("s%d: onceonly %d is left, killed", s.number, a.pid)
			send(9, a.pid)
		}
	}
	s.history.mu.Unlock()
	for _, h := range s.hosts {
		h.net.close()
	}
	s.work.Wait()
	s.topology.stop()
	for _, h := range s.hosts {
		h.net.namespace.close()
		h.memory.remove()
	}
	s.stage.mu.Lock()
	delete(s.stage.scenes, s.number)
	s.stage.mu.Unlock()
	os.RemoveAll(s.dir)
}

// heard is the hook's message for the scene that plays.
func (t *stage) heard(word string, l life) {
	number := 0
	fmt.Sscanf(l.job, "s%d-", &number)
	t.mu.Lock()
	s := t.scenes[number]
	t.mu.Unlock()
	if s != nil {
		s.history.known(l.wrapper)
		life, a := s.history.addLife(word, l)
		s.traps.command(word, life, a)
	}
}
