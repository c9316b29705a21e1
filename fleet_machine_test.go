package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// One machine of the fleet while it is up: its cron, the processes that cron starts, and the command, which leaves a
// trace.

// A fleetMachine is a host of the fleet while it is up.
type fleetMachine struct {
	*host
	fleet  *fleet
	offset time.Duration // its clock's error
	step   atomic.Int64  // its line comes every so many minutes
	line   atomic.Value
	up     context.Context
	down   context.CancelFunc
	crond  context.Context // ends before the machine does when it only fires no more
	stop   context.CancelFunc
}

// A fleetAsk is one process that a machine's cron started.
type fleetAsk struct {
	machine string
	minute  time.Time // that it was due
	line    string
	status  int
	killed  bool
	stderr  string
}

func (f *fleet) boot(name string, offset time.Duration, step int64, line string) *fleetMachine {
	m := &fleetMachine{host: newHost(f.t, name, "ONCEONLY_TEST_LONGEST="+(90*time.Second/time.Duration(f.factor)).String()),
		fleet: f, offset: offset}
	m.step.Store(step)
	m.line.Store(line)
	m.up, m.down = context.WithCancel(context.Background())
	m.crond, m.stop = context.WithCancel(m.up)
	f.processes.Add(1)
	go m.cron()
	return m
}

// cron starts the line whenever this machine's clock says so, until the machine is switched off.
func (m *fleetMachine) cron() {
	defer m.fleet.processes.Done()
	due := m.fleet.now().Add(m.offset).Truncate(time.Minute)
	for {
		for due = due.Add(time.Minute); due.Unix()/60%m.step.Load() != 0; {
			due = due.Add(time.Minute)
		}
		late := rand.N(time.Second) + 20*time.Millisecond
		if !wait(m.crond, due.Add(late).Sub(m.fleet.now().Add(m.offset))/time.Duration(m.fleet.factor)) {
			return
		}
		if due.Unix()/60%m.step.Load() != 0 {
			continue // the line was changed meanwhile
		}
		m.fleet.processes.Add(1)
		go m.ask(due)
	}
}

// ask runs the line once. When the machine is switched off, it is gone in the middle of whatever it does.
func (m *fleetMachine) ask(due time.Time) {
	f := m.fleet
	defer f.processes.Done()
	line := m.line.Load().(string)
	a := &fleetAsk{machine: m.name, minute: due.UTC(), line: line}
	clock := fmt.Sprint(f.real.UnixNano(), f.shown.Add(m.offset).UnixNano(), f.factor)
	args := []string{"run", "--job", f.job, "--schedule", line}
	if f.factor > 1 {
		args = append(args, "--lease", "3s")
	}
	cmd := m.commandClock(clock, append(args, "--", f.command, "test-effect", f.log, f.lock)...)
	var text strings.Builder
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		f.t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		a.status = exitStatus(f.t, err)
	case <-m.up.Done():
		a.killed = true
		cmd.Process.Kill()
		<-ended
	}
	a.stderr = text.String()
	f.mu.Lock()
	f.asks = append(f.asks, a)
	f.mu.Unlock()
}

// fleetEffect is a command: it writes START and END to the log, with what it was told, and OVERLAP if another one is at it: the
// kernel frees the lock of a dead one. It lasts from 0 to $ONCEONLY_TEST_LONGEST, and one in ten ends with 1.
func fleetEffect(log, lock string) int {
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fatal(err)
	}
	say := func(word string, status int) {
		fmt.Fprintf(f, "%s %s %s %s %d %d\n", word, os.Getenv("ONCEONLY_SLOT"), os.Getenv("ONCEONLY_FENCING_TOKEN"),
			os.Getenv("ONCEONLY_RUN_ID"), status, time.Now().UnixNano())
	}
	l, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fatal(err)
	}
	if syscall.Flock(int(l.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		say("OVERLAP", 0)
	}
	say("START", 0)
	longest, _ := time.ParseDuration(os.Getenv("ONCEONLY_TEST_LONGEST"))
	time.Sleep(rand.N(longest)) // how long the command lasts
	status := 0
	if rand.N(10) == 0 {
		status = 1
	}
	say("END", status)
	return status
}
