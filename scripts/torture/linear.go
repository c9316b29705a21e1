//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizability: there must be one order of all questions about a job, each at an instant between its being sent and its
// being answered, in which every answer is what a single lease with a single growing token would have given.

// A leased is the model's state.
type leased struct {
	holder string // run ID, "" if nobody
	since  boot   // the lease lasts at least a lease longer than this
	known  boot   // and at most a lease longer than this
	token  int64
}

// judgeHistory is I11.
func (d *dossier) judgeHistory(v *verdict) {
	var ops []porcupine.Operation
	for i, r := range d.requests {
		ended := int64(never)
		if r.executed != never {
			ended = int64(r.executed)
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: r, Call: int64(r.received), Return: ended})
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{leased{}} },
		Step: func(state, input, _ any) []any {
			var next []any
			for _, s := range step(state.(leased), input.(*request), d.line.lease) {
				next = append(next, s)
			}
			return next
		},
		Equal:         func(a, b any) bool { return a == b },
		DescribeState: func(s any) string { return fmt.Sprint(s) },
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), ops, 20*time.Second) {
	case porcupine.Illegal:
		v.violated("I11", "%s: %d questions have no order that explains their answers", d.line.job, len(ops))
	case porcupine.Unknown:
		v.figures.undecided++
	default:
		v.figures.linear += len(ops)
	}
}

// step returns the states that may follow a question; none if its answer cannot be.
func step(s leased, r *request, lease time.Duration) []leased {
	earliest, latest := r.received, r.executed
	held := s.holder != "" && earliest <= s.known.add(lease+leaseGrain) // not surely over
	free := s.holder == "" || latest >= s.since.add(lease-leaseGrain)   // perhaps over, or nobody's
	granted := leased{r.run, earliest, latest, max(s.token, r.token)}
	back := s
	if s.holder == r.run {
		back.holder = ""
	}
	if r.executed == never || r.failed != "" || r.verdict == "" {
		return unknownOutcome(s, r, back, free)
	}
	switch {
	case r.kind == "begin" && r.verdict == "run":
		if (free || s.holder == r.run) && (r.token > s.token || r.token == s.token && s.holder == r.run) {
			return []leased{granted}
		}
	case r.kind == "begin" && r.verdict == "busy":
		if held {
			return []leased{s}
		}
	case r.kind == "begin":
		return []leased{s, back}
	case r.kind == "renew" && r.verdict == "renewed":
		if held && s.holder == r.run {
			granted.token = s.token
			return []leased{granted}
		}
	case r.kind == "renew":
		if s.holder != r.run || free {
			return []leased{s}
		}
	case r.kind == "regain" && r.extends():
		if (free || s.holder == r.run) && s.token <= r.token {
			return []leased{granted}
		}
	case r.kind == "regain":
		return []leased{s, back}
	case r.kind == "finish" && (r.kept || !r.release && r.state != "unstarted"): // the lease is left as it is
		return []leased{s}
	case r.kind == "finish":
		return []leased{back}
	}
	return nil
}

// unknownOutcome: it may have been executed, or not, or only in part.
func unknownOutcome(s leased, r *request, back leased, free bool) []leased {
	all := []leased{s}
	switch r.kind {
	case "begin", "regain":
		if free || s.holder == r.run {
			all = append(all, leased{r.run, r.received, never, s.token})
		}
		all = append(all, back)
	case "renew":
		if s.holder == r.run {
			all = append(all, leased{r.run, r.received, never, s.token})
		}
	default:
		all = append(all, back)
	}
	return all
}
