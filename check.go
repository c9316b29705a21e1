package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// A command asks whether its run still holds the job: with its own eyes, not those of the onceonly above it, which may be
// frozen.

var checkOptions = append([]*option{
	{name: "left", line: true, set: func(s *settings, v string) error { return setDuration(&s.left, v, 0) }},
}, commonOptions...)

// A held is what a command knows of its run, from its environment.
type held struct {
	job, slot, runID string
	token            int64
}

// check is nil if the run that this is called in holds the job, for a while at least.
func check(args []string, s *settings, v *voice) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("check: %q left over", args[0]), "")
	}
	mine, err := heldHere(os.LookupEnv)
	if err != nil {
		return err
	}
	h, err := s.hand("check", mine.job, v)
	if err != nil {
		return err
	}
	var j *jobState
	asked := bootNow()
	if e := h.server.persist(h.wait, func(ctx context.Context) error {
		asked = bootNow()
		answer, err := h.glance(ctx)
		if err == nil {
			j = newJobState(h.namespace, h.job, answer)
		}
		return err
	}); e != nil {
		e.msg = mine.name() + ": cannot tell: " + e.msg
		return e
	}
	left := time.Duration(j.ttl)*time.Millisecond - time.Duration(bootNow()-asked)
	return orNil(mine.verdict(j, left, h.left))
}

// glance reads the job without its slots.
func (h *hand) glance(ctx context.Context) (any, error) {
	cmd := eval(ctx, bare(lookLua), h.ledger.keys(h.job), 0, 0, "", "")
	h.ledger.Process(ctx, onceCmd{cmd})
	return cmd.Val(), noNil(cmd.Err())
}

// heldHere reads the names that run hands to the command.
func heldHere(environ func(string) (string, bool)) (*held, error) {
	var words [4]string
	for i, name := range []string{"ONCEONLY_JOB", "ONCEONLY_SLOT", "ONCEONLY_RUN_ID", "ONCEONLY_FENCING_TOKEN"} {
		if words[i], _ = environ(name); words[i] == "" {
			return nil, usage("check: not inside a run: no "+name, "it is for the command of onceonly run")
		}
	}
	token, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil || len(words[2]) != 32 {
		return nil, usage("check: not inside a run: no run ID or token of onceonly", "it is for the command of onceonly run")
	}
	return &held{words[0], words[1], words[2], token}, wrong("", place{"ONCEONLY_JOB", words[0]}, checkName(words[0]))
}

func (m *held) name() string { return m.job + " " + m.slot }

// verdict compares what the command knows with what Redis has.
func (m *held) verdict(j *jobState, left, wanted time.Duration) *exit {
	no := func(format string, args ...any) *exit {
		return &exit{status: exitNotDone, msg: m.name() + ": not the holder: " + fmt.Sprintf(format, args...)}
	}
	switch order := stopOrderOf(j.lock); {
	case j.lock == "" && len(j.meta) == 0:
		return &exit{status: exitAway, msg: fmt.Sprintf("%s: cannot tell: no such job in namespace %s", m.name(), j.namespace),
			hint: "ONCEONLY_NAMESPACE and ONCEONLY_REDIS in the environment or " + configFile + ", as for the run"}
	case order != nil && j.heldBy() == m.runID:
		return no("stopped by %s: %q", order.By, order.Reason)
	case j.lock == "":
		return no("nobody holds the lease")
	case j.heldBy() != m.runID:
		return no("%s holds the lease", j.lock[min(len(j.lock), 32):])
	case number(j.fence) != m.token:
		return no("its token %d is outdated by %s", m.token, j.fence)
	case left <= wanted:
		return no("%s of the lease are left", brief(max(left, 0)))
	}
	return nil
}
