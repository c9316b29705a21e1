//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const words = "eval evalsha script hello auth select client ping subscribe unsubscribe" // what clients send

// asked is how many requests the server got, and how many were scripts. It counts also what a script calls, so these
// are counted by name.
func (s *store) asked(p *place) (all, evals int) {
	text := s.Info(p.ctx, "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_([a-z]+)[^:]*:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2])
		if slices.Contains(strings.Fields(words), m[1]) {
			all += n
		}
		if m[1] == "eval" {
			evals += n
		}
	}
	return all, evals
}

// A gathering is processes that ask at once: when each has left, and how many failed.
type gathering struct {
	left   []time.Time
	failed int
	all    sync.WaitGroup
}

// gather starts as many as there shall be, each on a host of its own.
func (p *place) gather(n int, call func(host string) *exec.Cmd) *gathering {
	c := &gathering{}
	var mu sync.Mutex
	for i := range n {
		p.running.Add(1)
		c.all.Go(func() {
			defer p.running.Done()
			err := call(fmt.Sprint("web-", i+1)).Run()
			mu.Lock()
			defer mu.Unlock()
			c.left = append(c.left, time.Now())
			if err != nil {
				c.failed++
			}
		})
	}
	return c
}

// crowd is hosts that ask for one slot at one instant: processes, and the rest without one.
func crowd(p *place, o options) error {
	s, err := p.newStore()
	if err != nil {
		return err
	}
	question, err := p.question(s)
	if err != nil {
		return err
	}
	file := p.dir + "/crowd"
	before, _ := s.asked(p)
	began := time.Now()
	r := newRest(p, s, question, o.askers-o.processes)
	c := p.gather(o.processes, func(host string) *exec.Cmd {
		return p.onceonly(s.url(), host, "run", "--job", "crowd", "--date", "2000-01-01", "--", "sh", "-c", "echo ran >>"+file)
	})
	r.all.Wait()
	c.all.Wait()
	after, _ := s.asked(p)
	title("%d hosts ask for one slot at one instant, %d of them with a process", o.askers, o.processes)
	ran, _ := os.ReadFile(file)
	row("starts", float64(strings.Count(string(ran), "\n")+r.ran), "", 1)
	row("failures", float64(c.failed+r.failed), "", 0)
	row("the last is answered after", ms(slices.MaxFunc(append(c.left, r.left...), time.Time.Compare).Sub(began)), "ms", 0)
	row("requests each", float64(after-before)/float64(o.askers), "", 3)
	return p.ctx.Err()
}

// A count is how many scripts the server had got, and when.
type count struct {
	evals int
	at    time.Time
}

// follow counts until all are gone.
func (s *store) follow(p *place, all <-chan struct{}) (counts []count) {
	for gone := false; !gone; time.Sleep(2 * time.Millisecond) {
		select {
		case <-all:
			gone = true
		default:
		}
		_, evals := s.asked(p)
		counts = append(counts, count{evals, time.Now()})
	}
	return counts
}

// waiters is hosts that wait for the end of a run.
func waiters(p *place, o options) error {
	s, err := p.newStore()
	if err != nil {
		return err
	}
	line := []string{"run", "--job", "wait", "--date", "2000-01-01", "--attempts", "2", "--standby", "--", "sh", "-c",
		"until test -e " + p.dir + "/end; do sleep 0.1; done"}
	ask := func(host string) *exec.Cmd { return p.onceonly(s.url(), host, line...) }
	holder := p.gather(1, func(string) *exec.Cmd { return ask("web-0") })
	if err := p.await("holder", func() bool { return s.Exists(p.ctx, "onceonly:{wait}:lock").Val() == 1 }); err != nil {
		return err
	}
	_, first := s.asked(p)
	c := p.gather(o.processes, ask)
	if err := p.await("waiters", func() bool { _, evals := s.asked(p); return evals >= first+2*o.processes }); err != nil {
		return err
	}
	before, _ := s.asked(p)
	time.Sleep(o.hold)
	after, _ := s.asked(p)
	ended, counts, err := p.wake(s, holder, c)
	if err != nil {
		return err
	}
	last := counts[len(counts)-1].evals
	woken := func(but int) float64 { // when no more than so many had not asked again
		i := slices.IndexFunc(counts, func(c count) bool { return c.evals >= last-but })
		return ms(counts[i].at.Sub(ended))
	}
	title("%d processes wait, watched for %v", o.processes, o.hold)
	row("failures", float64(c.failed), "", 0)
	row("woken, half have asked again after", woken(o.processes/2), "ms", 100)
	row("woken, the last has asked again after", woken(0), "ms", 100)
	row("the last has left after", ms(slices.MaxFunc(c.left, time.Time.Compare).Sub(ended)), "ms", 0)
	row("requests each in 5 s of waiting", float64(after-before)/float64(o.processes)/o.hold.Seconds()*5, "", 1)
	return p.ctx.Err()
}

// wake ends the run that is waited for, and counts what is asked then.
func (p *place) wake(s *store, holder, waiters *gathering) (ended time.Time, counts []count, err error) {
	events := s.Subscribe(p.ctx, "onceonly:{wait}:events")
	defer events.Close()
	if _, err = events.Receive(p.ctx); err != nil {
		return ended, nil, err
	}
	if err = os.WriteFile(p.dir+"/end", nil, 0o644); err != nil {
		return ended, nil, err
	}
	if _, err = events.ReceiveMessage(p.ctx); err != nil {
		return ended, nil, err
	}
	ended = time.Now()
	all := make(chan struct{})
	go func() {
		holder.all.Wait()
		waiters.all.Wait()
		close(all)
	}()
	return ended, s.follow(p, all), nil
}
