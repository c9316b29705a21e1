package main

import (
	"fmt"
)

// Settling a slot by hand, on the record: it is done, or it may be asked for once more.

var resolveOptions = append([]*option{
	dateOption,
	{name: "done", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.done, v) }},
	{name: "reopen", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.reopen, v) }},
}, byOptions...)

// A resolveReply is resolve.lua's.
type resolveReply struct {
	Verdict string `json:"verdict"`
	Slot    string `json:"slot"`
	Entry   *entry `json:"entry"`
	TTL     int64  `json:"ttl"` // ms
	Told    bool   `json:"told"`
	Oldest  string `json:"oldest"`
}

// resolve settles one slot of a job.
func resolve(args []string, s *settings, v *voice) error {
	h, err := newHand("resolve", args, s, v)
	switch {
	case err != nil:
		return err
	case s.done == s.reopen:
		return usage("resolve needs one of --done and --reopen", synopses["resolve"])
	case s.date == "":
		return usage("resolve needs --date", synopses["resolve"])
	case s.reason == "":
		return usage("resolve needs --reason", synopses["resolve"])
	}
	for id := newRunID(); ; {
		j, err := h.state(s.date)
		if err != nil {
			return err
		}
		r, err := order[resolveReply](h, resolveLua, h.resolution(j, id))
		switch {
		case err != nil:
			return err
		case r.Verdict != "changed":
			return h.resolved(j, r)
		}
	}
}

// resolution is what resolve.lua is asked.
func (h *hand) resolution(j *jobState, id string) map[string]any {
	c := j.chosen
	q := map[string]any{"run_id": id, "try": 1, "slot": c.name, "begins": c.begins, "from": c.begins, "to": c.begins,
		"shape": "", "as": "done", "fence": j.fence, "channel": h.ledger.channel(h.job)}
	if h.reopen {
		q["as"] = "reopened"
	}
	if j.line == nil {
		return q
	}
	if s, err := j.line.named(c.name); err == nil {
		q["from"], q["to"] = millis(s.from), millis(s.to)
		q["shape"] = j.line.shape(j.time(j.now))
	}
	return q
}

// resolved says what became of it.
func (h *hand) resolved(j *jobState, r *resolveReply) error {
	label := j.label(j.chosen.name)
	name := h.job + " " + label
	run := j.runByHand(label)
	switch r.Verdict {
	case "settled":
		h.settled(name, run)
		return nil
	case "already":
		h.voice.normally("%s: %s already", name, map[bool]string{false: "done", true: "reopened"}[h.reopen])
		return nil
	case "nothing":
		return &exit{status: exitNo, msg: name + ": nothing to reopen: it runs when it is asked for", hint: run}
	case "old":
		return &exit{status: exitNotDone, msg: fmt.Sprintf(
			"%s: not settled: the ledger reaches back to %s, nobody can say whether it ran", name, j.label(r.Oldest))}
	case "held":
		return h.held(j, name, r)
	}
	return &exit{status: exitBug, msg: fmt.Sprintf("%s: not settled: unknown verdict %q", name, r.Verdict)}
}

func (h *hand) settled(name, run string) {
	if h.reopen {
		h.voice.normally("%s: one more attempt allowed; nothing starts by itself", name)
		if h.voice.verbose {
			h.voice.hint(run + ", on a host that has the line")
		}
		return
	}
	h.voice.normally("%s: done, by %s: %q", name, h.by(), h.reason)
}

// held is the refusal while somebody may be running.
func (h *hand) held(j *jobState, name string, r *resolveReply) error {
	e := &exit{status: exitNotDone, hint: "wait for its end, or onceonly stop " + j.typed + " --reason TEXT"}
	switch {
	case r.Entry == nil:
		e.msg = name + ": not settled: somebody holds the job"
	case r.Told:
		e.msg = fmt.Sprintf("%s: not settled: %s on %s was told to stop, and has %s for it", name, j.label(r.Slot),
			holderOf(r.Entry), brief(sinceMillis(0, r.TTL)))
		e.hint = ""
	default:
		e.msg = fmt.Sprintf("%s: not settled: %s is running on %s", name, j.label(r.Slot), holderOf(r.Entry))
	}
	return e
}
