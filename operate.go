package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// What a person does to a job by hand. Each is on the record: who, when, why.

// A hand is one command typed by a person.
type hand struct {
	reader
	*settings
	job   string
	voice *voice
}

// newHand reads what all of them are called with.
func newHand(name string, args []string, s *settings, v *voice) (*hand, error) {
	switch {
	case len(args) == 0:
		return nil, usage(name+": no job", "onceonly "+name+" JOB --reason TEXT")
	case len(args) > 1:
		return nil, usage(fmt.Sprintf("%s: %q left over", name, args[1]), "")
	}
	if err := wrong("", place{name, args[0]}, checkName(args[0])); err != nil {
		return nil, err
	}
	server, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	if s.from["redis-wait"] == "" {
		s.redisWait = statusWait
	}
	v.verbose = v.verbose || s.verbose
	r := reader{ledger: &ledger{server.connect(), s.namespace}, server: server, wait: s.redisWait}
	return &hand{reader: r, settings: s, job: args[0], voice: v}, nil
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
		return usage("stop needs --reason", "onceonly stop JOB --reason TEXT")
	}
	r, err := h.order()
	if err != nil {
		return err
	}
	switch r.Verdict {
	case "stopped", "again":
		hears := min(time.Duration(r.TTL)*time.Millisecond, renewAtMost)
		h.voice.normally("%s %s: asked %s to stop; it will hear within %s", h.job, r.Slot, holderOf(r.Entry), brief(hears))
		return nil
	case "other":
		return &exit{status: exitNoJob, msg: fmt.Sprintf("%s %s: not running; %s is, on %s", h.job, s.date, r.Slot,
			holderOf(r.Entry))}
	}
	known, err := h.known()
	if err == nil && !known {
		err = h.unknown(&statusAsk{namespace: s.namespace, job: h.job})
	}
	if err != nil {
		return err
	}
	return &exit{status: exitNoJob, msg: h.job + ": nobody holds it"}
}

// order leaves the stop in the ledger.
func (h *hand) order() (r *stopReply, err error) {
	q := map[string]any{"by": h.by(), "reason": h.reason, "slot": h.date, "keep": h.keep, "zone_from": "date"}
	e := h.server.persist(h.wait, func(ctx context.Context) error {
		text, err := h.ledger.alone(ctx, stopLua, h.job, q)
		if err == nil {
			r, err = decode[stopReply](text)
		}
		return err
	})
	return r, orNil(e)
}

// by is who types this, for the record.
func (h *hand) by() string {
	host := h.host
	if host == "" {
		host, _ = os.Hostname()
	}
	return userName() + "@" + host
}

// known says whether the ledger has the job.
func (h *hand) known() (known bool, err error) {
	e := h.server.persist(h.wait, func(ctx context.Context) error {
		n, err := h.ledger.Exists(ctx, h.ledger.keys(h.job)[5]).Result()
		known = n > 0
		return err
	})
	return known, orNil(e)
}
