package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Reading a ledger, to look at it: many jobs in few requests, each as it is at one instant.

// A reader asks Redis.
type reader struct {
	ledger *ledger
	server *server
	wait   time.Duration
	ahead  *int64 // ms, this host's clock before Redis's; nil: not known
}

// read reads the jobs that are wanted, by name.
func (r *reader) read(a *statusAsk) ([]*jobState, error) {
	if a.job == "" {
		return r.all(a)
	}
	jobs, err := r.look(a, a.date, a.job)
	if err != nil {
		return nil, err
	}
	if j := jobs[0]; len(j.meta) == 0 && len(j.slots) == 0 {
		return nil, r.unknown(a)
	} else if a.date == "" || j.choose(a.date) {
		return jobs, nil
	}
	// Not a slot's name, so it is a date, and only the job's line says which slot that is.
	s, err := jobs[0].parse(a.date)
	if err != nil {
		return nil, err
	}
	if jobs, err = r.look(a, s.name, a.job); err == nil {
		jobs[0].chooseNew(s)
	}
	return jobs, err
}

// all reads every job of the namespace.
func (r *reader) all(a *statusAsk) ([]*jobState, error) {
	names, err := r.names()
	if err != nil {
		return nil, err
	}
	var jobs []*jobState
	most := batch
	if briefs, _, _ := a.reach(); briefs < 0 {
		most = batchWhole
	}
	for some := range slices.Chunk(names, most) {
		more, err := r.look(a, "", some...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	return jobs, nil
}

func (r *reader) names() ([]string, error) {
	var cmd *redis.StringSliceCmd
	e := r.server.persist(r.wait, func(ctx context.Context) error {
		cmd = redis.NewStringSliceCmd(ctx, "smembers", r.ledger.jobsKey())
		return r.ledger.Process(ctx, onceCmd{cmd})
	})
	names := cmd.Val()
	slices.Sort(names)
	return names, orNil(e)
}

// unknown says that there is no such job, and which one was probably meant.
func (r *reader) unknown(a *statusAsk) error {
	names, err := r.names()
	if err != nil {
		return err
	}
	return &exit{status: exitNo, msg: fmt.Sprintf("no job %q in namespace %s", a.job, a.namespace),
		hint: nearest(a.job, names)}
}

// look reads jobs in one request.
func (r *reader) look(a *statusAsk, slot string, names ...string) ([]*jobState, error) {
	briefs, entries, hosts := a.reach()
	script := bare(lookLua)
	jobs := make([]*jobState, len(names))
	var sent int64
	e := r.server.persist(r.wait, func(ctx context.Context) error {
		pipe := r.ledger.Pipeline()
		cmds := make([]*redis.Cmd, len(names))
		for i, name := range names {
			cmds[i] = eval(ctx, script, r.ledger.keys(name), briefs, entries, slot, hosts, a.last())
			pipe.Process(ctx, onceCmd{cmds[i]})
		}
		sent = millis(time.Now())
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, cmd := range cmds {
			jobs[i] = newJobState(a.namespace, names[i], cmd.Val())
			jobs[i].late = cmp.Or(a.late, jobs[i].late)
			jobs[i].fill(briefs)
		}
		return nil
	})
	if e == nil {
		r.compare(sent, jobs[0].now)
	}
	return jobs, orNil(e)
}

// compare sets this host's clock against Redis's. On its way a question only makes this host seem to be behind, so of
// several the one that was fastest counts.
func (r *reader) compare(here, there int64) {
	if ahead := here - there; r.ahead == nil || ahead > *r.ahead {
		r.ahead = &ahead
	}
}
