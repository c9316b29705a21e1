//go:build linux

package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Traps wait for a step of a run, wherever it comes next, and kill there. No failpoint in the product is needed: its
// steps are seen by the proxy in front of Redis, and by what the command says of itself.

// The steps of a run at which something is killed.
const (
	stepSpawned   = "before begin is sent"
	stepBegin     = "begin sent, not executed"
	stepBegun     = "begin executed, not answered"
	stepAnswered  = "begin answered, not started"
	stepStarted   = "command just started"
	stepSecond    = "command's first second"
	stepGuarded   = "guard is there"
	stepExit      = "command ends"
	stepFinish    = "finish sent, not executed"
	stepFinished  = "finish executed, not answered"
	stepDelivered = "finish answered"
	stepRenew     = "renewal"
)

var steps = []string{stepSpawned, stepBegin, stepBegun, stepAnswered, stepStarted, stepSecond, stepGuarded, stepExit,
	stepFinish, stepFinished, stepDelivered, stepRenew}

// traps are the scene's. It watches the networks of all hosts.
type traps struct {
	scene  *scene
	mu     sync.Mutex
	armed  map[string]*rand.Rand    // step -> what decides what happens there
	drops  map[string]int           // kind -> how many replies to lose
	holds  map[string]time.Duration // kind -> how long to hold the next request up
	lates  int                      // requests to deliver late
	doomed string                   // a run to be killed as soon as it has started
}

func (t *traps) arm(step string, r *rand.Rand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed == nil {
		t.armed = map[string]*rand.Rand{}
	}
	t.armed[step] = r
}

// stale is the kind of a finish that comes after another attempt has begun.
const stale = "stale finish"

// drop loses the next reply to a request of that kind.
func (t *traps) drop(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drops == nil {
		t.drops = map[string]int{}
	}
	t.drops[kind] = 1
}

// hold holds the next request of that kind up.
func (t *traps) hold(kind string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds == nil {
		t.holds = map[string]time.Duration{}
	}
	t.holds[kind] = d
}

// delayCopy resets the connection of the next begin, and delivers it when a later copy has long been answered.
func (t *traps) delayCopy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lates = 1
}

func (t *traps) disarm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.armed)
	clear(t.drops)
	clear(t.holds)
	t.lates = 0
}

// sprung takes a trap; nil if none is armed at that step.
func (t *traps) sprung(step string) *rand.Rand {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.armed[step]
	delete(t.armed, step)
	return r
}

// spawned is a wrapper that was just started.
func (t *traps) spawned(a *ask) {
	r := t.sprung(stepSpawned)
	if r == nil {
		return
	}
	go func() {
		time.Sleep(between(r, 0, 4*time.Millisecond))
		t.kill(stepSpawned, "wrapper", "", a.pid, a.pid)
	}()
}

// asked is a request before the server has it.
func (t *traps) asked(q *request) fate {
	step := map[string]string{"begin": stepBegin, "finish": stepFinish, "renew": stepRenew}[q.kind]
	if step == "" {
		return pass
	}
	if r, pid := t.sprungFor(step, q); r != nil {
		t.kill(step, "wrapper", q.run, pid, pid)
		return t.afterwards(q, r)
	}
	t.mu.Lock()
	held := t.holds[q.kind]
	delete(t.holds, q.kind)
	t.mu.Unlock()
	if held > 0 {
		t.acted("N4")
		ended := t.scene.history.begin("N4", q.host, q.kind+" held up")
		time.Sleep(held)
		ended()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.kind == "begin" && t.lates > 0 {
		t.lates = 0
		if slices.Contains(t.scene.nemeses, "N1") && rand.IntN(2) == 0 {
			t.doomed = q.run
		}
		t.acted("N4")
		t.deliver(q, time.Duration(rand.Int64N(int64(t.scene.longestLease()*5/2))))
		return late
	}
	return pass
}

// afterwards is what becomes of a request whose sender is dead: it is lost, or executed all the same.
func (t *traps) afterwards(q *request, r *rand.Rand) fate {
	if r.IntN(3) == 0 {
		return lose
	}
	wait := time.Duration(0)
	if r.IntN(2) == 0 {
		wait = between(r, 0, 3*time.Second)
	}
	t.deliver(q, wait)
	return late
}

func (t *traps) deliver(q *request, wait time.Duration) {
	t.scene.work.Add(1)
	go func() {
		defer t.scene.work.Done()
		ended := t.scene.history.begin("N4", q.host, q.kind+" delivered late")
		time.Sleep(wait)
		q.link.deliverLate(q)
		ended()
	}()
}

// answered is a request before the host has the answer.
func (t *traps) answered(q *request) fate {
	step := map[string]string{"begin": stepBegun, "finish": stepFinished}[q.kind]
	if step != "" && (q.kind != "begin" || q.verdict == "run") {
		if r, pid := t.sprungFor(step, q); r != nil {
			t.kill(step, "wrapper", q.run, pid, pid)
			return lose
		}
	}
	if step := afterAnswer[q.kind]; step != "" && (q.kind != "begin" || q.verdict == "run") {
		_, q.prey = t.sprungFor(step, q)
	}
	kind := q.kind
	if kind == "finish" && q.verdict == "stale" {
		kind = stale
	}
	t.mu.Lock()
	dropped := t.drops[kind] > 0
	delete(t.drops, kind)
	t.mu.Unlock()
	if dropped {
		t.acted("N3")
		t.scene.history.begin("N3", q.host, "reply to "+kind+" lost")()
		return lose
	}
	return pass
}

// settled is a request that nothing more happens to. What is to be killed once it has its answer is killed first.
func (t *traps) settled(q *request) {
	if q.kind == "other" {
		return
	}
	if q.failed != "" { // by whom else?
		t.acted("N7")
	}
	if q.prey != 0 && q.delivered != never {
		if q.kind == "begin" {
			time.Sleep(rand.N(200 * time.Microsecond))
		}
		t.kill(afterAnswer[q.kind], "wrapper", q.run, q.prey, q.prey)
	}
	t.scene.history.addRequest(q)
}

// acted is for the history.
func (t *traps) acted(nemesis string) { t.scene.history.acted(nemesis) }

// afterAnswer are the steps that come right after an answer.
var afterAnswer = map[string]string{"begin": stepAnswered, "finish": stepDelivered}

// sprungFor takes a trap at a step of a request, and finds the process that asks. If that is not there the trap stays.
func (t *traps) sprungFor(step string, q *request) (*rand.Rand, int) {
	t.mu.Lock()
	armed := t.armed[step] != nil
	t.mu.Unlock()
	if !armed {
		return nil, 0
	}
	pid := t.wrapper(q)
	if pid == 0 {
		return nil, 0
	}
	return t.sprung(step), pid
}

// wrapper is the process that asks; a renewal does not name it.
func (t *traps) wrapper(q *request) int {
	h := t.scene.history
	h.mu.Lock()
	defer h.mu.Unlock()
	pid := cmp.Or(q.pid, h.pids[q.run])
	if a := h.byPID[pid]; a != nil && a.ended == never {
		return pid
	}
	return 0
}

// command is a command that starts or ends; it goes on when this returns.
func (t *traps) command(word string, l *life, a *ask) {
	if a == nil || a.last {
		return
	}
	if word == "exit" {
		if r := t.sprung(stepExit); r != nil {
			go func() {
				time.Sleep(between(r, 0, 3*time.Millisecond))
				t.kill(stepExit, "wrapper", l.run, a.pid, a.pid)
			}()
		}
		return
	}
	t.mu.Lock()
	doomed := t.doomed == l.run
	t.mu.Unlock()
	if doomed {
		t.kill(stepStarted, "all", l.run, a.pid, a.pid, -l.pid)
		return
	}
	if r := t.sprung(stepStarted); r != nil {
		t.killOf(stepStarted, r, l)
		return
	}
	if r := t.sprung(stepSecond); r != nil {
		wait := between(r, 10*time.Millisecond, pick(r, 100*time.Millisecond, 900*time.Millisecond))
		time.AfterFunc(wait, func() { t.killOf(stepSecond, r, l) })
		return
	}
}
