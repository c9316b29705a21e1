//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A history is what the torture itself saw and did in one scene.
type history struct {
	mu       sync.Mutex
	asks     []*ask
	byPID    map[int]*ask // the newest process of that number
	requests []*request
	pids     map[string]int   // by run
	lives    map[string]*life // by run and attempt
	order    []*life
	faults   []*fault
	kills    []*kill
	freezes  []*freeze
	stalls   []stall
	slow     []stall // of Redis's answers
	orphans  []orphan
	acts     map[string]int // nemesis -> faults that were seen to take effect
}

// An ask is one onceonly that was started.
type ask struct {
	job, slot, host string
	pid             int
	attempts        int
	began, ended    boot
	status          int // 128+n: by signal n
	killed          boot
	text            string // what it said
	last            bool   // asked when all faults were over
	old             bool   // another version
}

// A fault is one thing that went wrong.
type fault struct {
	nemesis    string
	what       string
	host       string // "": all
	begin, end boot
}

// A kill is one kill -9.
type kill struct {
	step, target string
	wrapper      int
	run          string
	at           boot
	hit          bool
	guarded      bool // a guard was there, where that was looked for
}

// A freeze is one SIGSTOP of some processes of a wrapper.
type freeze struct {
	target     string // wrapper, guard, command, all
	wrapper    int
	guarded    bool // the command was old enough to have a guard
	begin, end boot
}

// A stall is a time in which this machine ran nothing of ours in time.
type stall struct {
	at   boot
	late time.Duration
}

// An orphan is a process of a command that outlived its onceonly for too long.
type orphan struct {
	run string
	pid int
	at  boot
}

func newHistory() *history {
	return &history{byPID: map[int]*ask{}, lives: map[string]*life{}, pids: map[string]int{}, acts: map[string]int{}}
}

func (h *history) addAsk(a *ask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asks = append(h.asks, a)
	h.byPID[a.pid] = a
}

// known waits until an onceonly that was just started is in the history.
func (h *history) known(pid int) {
	await("", time.Second, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.byPID[pid] != nil
	})
}

func (h *history) addRequest(r *request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.pid != 0 {
		h.pids[r.run] = r.pid
	}
	h.requests = append(h.requests, r)
}

// addLife takes a message of a command; it returns the life, and the ask that it belongs to.
func (h *history) addLife(word string, said life) (*life, *ask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := said.name()
	l := h.lives[name]
	if l == nil {
		l = &said
		l.exits, l.status = never, 0
		h.lives[name] = l
		h.order = append(h.order, l)
	}
	if word == "exit" {
		l.exits, l.status = said.exits, said.status
	}
	a := h.byPID[l.wrapper]
	if a != nil {
		l.host = a.host
	}
	return l, a
}

func (h *history) addKill(k *kill) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kills = append(h.kills, k)
	if a := h.byPID[k.wrapper]; a != nil && k.hit && k.target != "guard" && k.target != "command" {
		a.killed = k.at
	}
}

func (h *history) addFreeze(f *freeze) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freezes = append(h.freezes, f)
}

func (h *history) addOrphan(o orphan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orphans = append(h.orphans, o)
}

func (h *history) addStall(to *[]stall, late time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*to = append(*to, stall{bootNow(), late})
}

// begin notes a fault; the function that it returns notes its end.
func (h *history) begin(nemesis, host, what string) func() {
	f := &fault{nemesis: nemesis, what: what, host: host, begin: bootNow(), end: never}
	h.mu.Lock()
	h.faults = append(h.faults, f)
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		f.end = bootNow()
		h.mu.Unlock()
	}
}

// acted notes that a fault of a nemesis has taken effect: what it should break was seen broken.
func (h *history) acted(nemesis string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acts[nemesis]++
}

// faulted says whether something went wrong for a host in that time.
func (h *history) faulted(host string, from, to boot) bool {
	return slices.ContainsFunc(h.faults, func(f *fault) bool {
		return (f.host == "" || f.host == host) && f.begin <= to && f.end >= from
	})
}

// outOfMemory says whether the kernel may just have killed an onceonly, since its host had no memory left.
func (h *history) outOfMemory(a *ask) bool {
	return slices.ContainsFunc(h.faults, func(f *fault) bool {
		return f.what == memoryFull && f.host == a.host && f.begin < a.ended && f.end > a.ended-boot(time.Second)
	})
}

// stood says whether this machine stood still in that time, for so long that a renewal may have failed.
func (h *history) stood(from, to boot) bool {
	return slices.ContainsFunc(slices.Concat(h.stalls, h.slow), func(x stall) bool {
		return x.late > renewalWait/2 && x.at > from && x.at-boot(x.late) < to
	})
}

// before lists the newest faults of a host, each with its begin and end before that instant.
func (h *history) before(host string, at boot) string {
	text := ""
	for i, n := len(h.faults)-1, 0; i >= 0 && n < 5; i-- {
		if f := h.faults[i]; f.begin < at && (f.host == "" || f.host == host) {
			text += fmt.Sprintf("\n\t%s from %v to %v before", f.what, at.sub(f.begin).Round(time.Millisecond),
				at.sub(min(f.end, at)).Round(time.Millisecond))
			n++
		}
	}
	return text
}

// frozen says whether something of a wrapper is.
func (h *history) frozen(wrapper int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.freezes, func(f *freeze) bool { return f.wrapper == wrapper && f.end == never })
}

func (h *history) thaw(f *freeze) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.end = bootNow()
}

// running are the onceonly processes of a host.
func (h *history) running(host string) (pids []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asks {
		if a.host == host && a.ended == never {
			pids = append(pids, a.pid)
		}
	}
	return pids
}

// living are the commands that have not said that they end: of each onceonly that is there, the newest.
func (h *history) living() []*life {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*life
	seen := map[int]bool{}
	for _, l := range slices.Backward(h.order) {
		a := h.byPID[l.wrapper]
		if l.exits == never && a != nil && a.ended == never && !seen[l.wrapper] {
			all = append(all, l)
		}
		seen[l.wrapper] = true
	}
	return all
}

// of are the lives of one ask, in order.
func (h *history) of(a *ask) []*life {
	var all []*life
	for _, l := range h.order {
		if l.wrapper == a.pid && l.began >= a.began && l.began <= a.ended {
			all = append(all, l)
		}
	}
	return all
}

func (l *life) name() string { return l.run + " " + strconv.Itoa(l.attempt) }
