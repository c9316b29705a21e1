//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"
)

const (
	slotsEach = 100 // of every other job
	keep      = 50  // of the job whose ledger is full
)

// history is what a run costs where much has run before.
func history(p *place, o options) error {
	var all []*contender
	var old *store
	for _, jobs := range []int{0, 10, 1000} {
		s, err := p.newStore()
		if err != nil {
			return err
		}
		if err := p.fill(s, jobs); err != nil {
			return err
		}
		all = append(all, &contender{name: fmt.Sprint(jobs*slotsEach, " slots of other jobs"), make: func() *exec.Cmd { return p.next(s.url(), "bench") }})
		old = s
	}
	full := func() *exec.Cmd {
		cmd := p.next(old.url(), "full")
		cmd.Env = append(cmd.Env, fmt.Sprint("ONCEONLY_KEEP=", keep))
		return cmd
	}
	for range keep {
		if _, err := timed(full()); err != nil {
			return err
		}
	}
	all = append(all, &contender{name: fmt.Sprint("and --keep ", keep, " reached"), make: full},
		&contender{name: "status", make: func() *exec.Cmd { return p.onceonly(old.url(), "web-1", "status") }})
	if err := race(o.rounds, all); err != nil {
		return err
	}
	title("a run with a history")
	first := ms(median(all[0].took))
	for _, c := range all[:4] {
		row(c.name, ms(median(c.took)), "ms", 0)
		row("  against none", ms(median(c.took))/first, "", 0)
	}
	row("status over 1000 jobs", ms(median(all[4].took)), "ms", 0)
	key := "onceonly:{seed}:ledger"
	size, slots := old.MemoryUsage(p.ctx, key, 0).Val(), old.HLen(p.ctx, key).Val()
	row("bytes an entry", float64(size)/float64(slots), "", 400)
	return p.ctx.Err()
}

// fill runs one job so often, and copies what it leaves to as many others.
func (p *place) fill(s *store, jobs int) error {
	for range min(slotsEach, jobs*slotsEach) {
		if _, err := timed(p.next(s.url(), "seed")); err != nil {
			return err
		}
	}
	pipe := s.Pipeline()
	for _, key := range s.Keys(p.ctx, "onceonly:{seed}:*").Val() {
		dump := s.Dump(p.ctx, key).Val()
		for i := 1; i < jobs; i++ {
			pipe.Restore(p.ctx, strings.Replace(key, "{seed}", fmt.Sprintf("{seed-%d}", i), 1), 0, dump)
		}
	}
	for i := 1; i < jobs; i++ {
		pipe.SAdd(p.ctx, "onceonly:jobs", fmt.Sprint("seed-", i))
	}
	if jobs > 1 {
		if _, err := pipe.Exec(p.ctx); err != nil {
			return err
		}
	}
	_, err := timed(p.next(s.url(), "bench")) // a job's first run costs more
	return err
}
