package main

import (
	"fmt"
	"strings"
	"time"
)

// Pausing a job in the whole fleet, and allowing it again. What runs goes on; nothing is made up for.

var pauseOptions = append([]*option{
	{name: "until", line: true, set: func(s *settings, v string) error {
		s.until = v
		_, err := parseUntil(v, time.UTC)
		return err
	}},
}, byOptions...)

var resumeOptions = byOptions

// A pauseReply is pause.lua's: how the job stands now, and the run that goes on.
type pauseReply struct {
	Verdict string `json:"verdict"`
	Pause   pause  `json:"pause"`
	Slot    string `json:"slot"`
	Entry   *entry `json:"entry"`
	Count   int    `json:"count"` // slots that were asked for while it was paused
}

// pauseJob lets no host start the job, for a time or until it is resumed.
func pauseJob(args []string, s *settings, v *voice) error {
	h, err := newHand("pause", args, s, v)
	if err != nil {
		return err
	}
	j, r, err := h.pauseOrResume()
	if err != nil {
		return err
	}
	said := fmt.Sprintf("%s: paused", h.job)
	if r.Pause.Until > 0 {
		said += " until " + j.time(r.Pause.Until).Format("2006-01-02 15:04")
	}
	said += " by " + r.Pause.By
	if r.Entry != nil {
		said += fmt.Sprintf("; %s goes on running on %s", j.label(r.Slot), r.Entry.Host)
	}
	h.voice.normally("%s", said)
	return nil
}

// resumeJob allows it again.
func resumeJob(args []string, s *settings, v *voice) error {
	h, err := newHand("resume", args, s, v)
	if err != nil {
		return err
	}
	_, r, err := h.pauseOrResume()
	switch {
	case err != nil:
		return err
	case r.Verdict == "idle":
		h.voice.normally("%s: not paused", h.job)
	case r.Count == 1:
		h.voice.normally("%s: may run again; nothing is made up for (1 slot was paused)", h.job)
	default:
		h.voice.normally("%s: may run again; nothing is made up for (%d slots were paused)", h.job, r.Count)
	}
	return nil
}

// pauseOrResume writes it into the ledger.
func (h *hand) pauseOrResume() (*jobState, *pauseReply, error) {
	for id := newRunID(); ; {
		j, err := h.state("")
		if err != nil {
			return nil, nil, err
		}
		until := int64(0)
		if h.until != "" {
			if until, err = h.untilTime(j); err != nil {
				return nil, nil, err
			}
		}
		r, err := order[pauseReply](h, pauseLua, map[string]any{"id": id, "seen": j.pauses(), "what": h.command,
			"until": until, "slot": ""})
		if err != nil || r.Verdict != "changed" {
			return j, r, err
		}
	}
}

// pauses is the number of the newest pause or resume.
func (j *jobState) pauses() int {
	if j.paused == nil {
		return 0
	}
	return j.paused.N
}

// untilTime is the end of the pause in ms: a day's beginning, or a time, in the job's zone.
func (h *hand) untilTime(j *jobState) (int64, error) {
	at, err := parseUntil(h.until, j.zone)
	if err == nil && millis(at) <= j.now {
		err = &usageError{msg: "is past: it is " + j.time(j.now).Format("2006-01-02 15:04") + " there"}
	}
	return millis(at), wrong("until", place{"--until", h.until}, err)
}

// parseUntil reads a day or a time. One that the zone's clocks skip is the same instant by the offset before.
func parseUntil(text string, zone *time.Location) (time.Time, error) {
	minute := strings.Replace(text, " ", "T", 1)
	switch {
	case shaped(text, "0000-00-00"):
		minute = text + "T00:00"
	case isRFC3339(text):
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
	}
	if shaped(minute, "0000-00-00T00:00") {
		if at, err := time.ParseInLocation(minuteLayout, minute, zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, &usageError{"not a time", "2026-12-01, 2026-12-01T06:00 or 2026-12-01T06:00:00+09:00"}
}
