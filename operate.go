package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"
)

// What a person does to a job by hand. Each is on the record: who, when, why. A command first looks at the job, and what it
// then sends says what it has seen: where that has changed meanwhile nothing is done, and it looks again. So a copy that
// comes late does nothing, either.

// byOptions are those of what a person does to a job by hand.
var byOptions = append([]*option{
	{name: "reason", line: true, set: func(s *settings, v string) error { s.reason = v; return nil }},
	{name: "host", set: func(s *settings, v string) error { s.host = v; return checkName(v) }},
}, commonOptions...)

var stopOptions = append([]*option{
	dateOption,
}, byOptions...)

// A hand is one command typed by a person.
type hand struct {
	reader
	*settings
	command string
	job     string
	voice   *voice
}

// synopses are the commands that take one job.
var synopses = map[string]string{
	"stop":    "onceonly stop JOB --reason TEXT",
	"pause":   "onceonly pause JOB [--until TIME] [--reason TEXT]",
	"resume":  "onceonly resume JOB",
	"resolve": "onceonly resolve JOB --date SLOT --done or --reopen, --reason TEXT",
	"wait":    "onceonly wait JOB [--date SLOT] [--timeout DURATION]",
}

// newHand reads what all of them are called with.
func newHand(command string, args []string, s *settings, v *voice) (*hand, error) {
	switch {
	case len(args) == 0:
		return nil, usage(command+": no job", synopses[command])
	case len(args) > 1:
		return nil, usage(fmt.Sprintf("%s: %q left over", command, args[1]), "")
	}
	if err := wrong("", place{command, args[0]}, checkName(args[0])); err != nil {
		return nil, err
	}
	return s.hand(command, args[0], v)
}

// hand is a command about a job that is known.
func (s *settings) hand(command, job string, v *voice) (*hand, error) {
	server, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	if s.from["redis-wait"] == "" {
		s.redisWait = statusWait
	}
	v.verbose = v.verbose || s.verbose
	r := reader{ledger: &ledger{server.connect(), s.namespace}, server: server, wait: s.redisWait}
	return &hand{reader: r, settings: s, command: command, job: job, voice: v}, nil
}

// state is the job now, with the slot of a date chosen, if one is given.
func (h *hand) state(date string) (*jobState, error) {
	jobs, err := h.read(&statusAsk{namespace: h.namespace, job: h.job, date: date, n: 1})
	if err != nil {
		return nil, err
	}
	jobs[0].seenFrom(h.settings)
	return jobs[0], nil
}

// order sends what a script is asked, until it is answered. All of them may be sent twice.
func order[T any](h *hand, script string, question map[string]any) (r *T, err error) {
	question["by"], question["reason"] = h.by(), h.reason
	question["zone_from"], question["keep"] = "date", keepLong // unless the line says otherwise: entry.lua
	e := h.server.persist(h.wait, func(ctx context.Context) error {
		text, err := h.ledger.alone(ctx, script, h.job, question)
		if err == nil {
			r, err = decode[T](text)
		}
		return err
	})
	return r, orNil(e)
}

// by is who types this, for the record. Behind sudo it is not root.
func (h *hand) by() string {
	name, host := userName(), h.host
	if os.Getuid() == 0 {
		name = cmp.Or(os.Getenv("SUDO_USER"), name)
	}
	if host == "" {
		host, _ = os.Hostname()
	}
	return name + "@" + host
}

// toSettle is what to type about a slot that waits for a person.
func toSettle(typed, slot, how string) string {
	return "onceonly resolve " + typed + " --date " + slot + " " + how + " --reason TEXT"
}

// A stopReply is stop.lua's: what became of the stop, and whom it met.
type stopReply struct {
	Verdict string `json:"verdict"`
	Slot    string `json:"slot"`
	Entry   *entry `json:"entry"`
	TTL     int64  `json:"ttl"` // ms
}

// stop makes the holder of a job stop, wherever it is.
func stop(args []string, s *settings, v *voice) error {
	h, err := newHand("stop", args, s, v)
	if err != nil {
		return err
	}
	if s.reason == "" {
		return usage("stop needs --reason", synopses["stop"])
	}
	for {
		j, err := h.state(s.date)
		if err != nil {
			return err
		}
		slot := ""
		if j.chosen != nil {
			slot = j.chosen.name
		}
		r, err := order[stopReply](h, stopLua, map[string]any{"slot": slot, "run_id": j.heldBy()})
		switch {
		case err != nil:
			return err
		case r.Verdict != "changed":
			return h.stopped(j, r)
		}
	}
}

// stopped says what became of a stop.
func (h *hand) stopped(j *jobState, r *stopReply) error {
	switch r.Verdict {
	case "stopped", "again":
		hears := min(time.Duration(r.TTL)*time.Millisecond, renewAtMost)
		h.voice.normally("%s %s: asked %s to stop; it will hear within %s", h.job, j.label(r.Slot), holderOf(r.Entry),
			brief(hears))
		return nil
	case "other":
		return &exit{status: exitNo, msg: fmt.Sprintf("%s %s: not running; %s is, on %s", h.job, j.label(j.chosen.name),
			j.label(r.Slot), holderOf(r.Entry))}
	}
	return &exit{status: exitNo, msg: h.job + ": nobody holds it"}
}
