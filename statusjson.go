package main

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The JSON of status, for programs: one shape in every view, and fields are only ever added. What is unknown is null.

type jobJSON struct {
	Job             string          `json:"job"`
	Namespace       string          `json:"namespace"`
	AsOf            *string         `json:"as_of"`
	State           *string         `json:"state"`
	Slot            *string         `json:"slot"`
	Attention       []attentionJSON `json:"attention"`
	Every           *string         `json:"every"`
	Schedule        *string         `json:"schedule"`
	Zone            *string         `json:"zone"`
	DayStart        *string         `json:"day_start"`
	AttemptsAllowed *int64          `json:"attempts_allowed"`
	LeaseSeconds    *float64        `json:"lease_seconds"`
	DueAt           *string         `json:"due_at"`
	NextDueAt       *string         `json:"next_due_at"`
	FirstSlot       *string         `json:"first_slot"`
	OldestSlot      *string         `json:"oldest_slot"`
	Missed          []string        `json:"missed"`
	Paused          *pauseJSON      `json:"paused"`
	Holder          *holderJSON     `json:"holder"`
	Token           *int64          `json:"token"`
	LastDone        *doneJSON       `json:"last_done"`
	Failures        int             `json:"consecutive_failures"`
	Counts          countsJSON      `json:"counts"`
	Slots           []slotJSON      `json:"slots"`
	Hosts           *[]rollJSON     `json:"hosts,omitempty"`
}

type attentionJSON struct {
	Slot  string `json:"slot"`
	State string `json:"state"`
}

type pauseJSON struct {
	Since  *string `json:"since"`
	Until  *string `json:"until"`
	By     *string `json:"by"`
	Reason *string `json:"reason"`
}

type holderJSON struct {
	Host        *string `json:"host"`
	PID         *int64  `json:"pid"`
	User        *string `json:"user"`
	RunID       *string `json:"run_id"`
	Slot        *string `json:"slot"`
	Attempt     *int64  `json:"attempt"`
	Token       *int64  `json:"token"`
	StartedAt   *string `json:"started_at"`
	RenewedAt   *string `json:"renewed_at"`
	LeaseEndsAt *string `json:"lease_ends_at"`
}

type doneJSON struct {
	Slot    string  `json:"slot"`
	EndedAt *string `json:"ended_at"`
}

type countsJSON struct {
	Done      int `json:"done"`
	Failed    int `json:"failed"`
	Uncertain int `json:"uncertain"`
	Skipped   int `json:"skipped"`
	Merged    int `json:"merged"`
	Paused    int `json:"paused"`
	Missed    int `json:"missed"`
}

type slotJSON struct {
	Slot         string   `json:"slot"`
	BusinessDate string   `json:"business_date"`
	State        *string  `json:"state"`
	DueAt        *string  `json:"due_at"`
	StartedAt    *string  `json:"started_at"`
	EndedAt      *string  `json:"ended_at"`
	Late         *float64 `json:"late_seconds"`
	Duration     *float64 `json:"duration_seconds"`
	Attempt      int      `json:"attempt"`
	AttemptsLeft *int     `json:"attempts_left"`
	ExitStatus   *int     `json:"exit_status"`
	Signal       *string  `json:"signal"`
	Reason       *string  `json:"reason"`
	starterJSON
	ByHand       bool           `json:"by_hand"`
	Key          string         `json:"key"`
	MergedInto   *string        `json:"merged_into"`
	Resolved     *resolvedJSON  `json:"resolved"`
	StaleReports int            `json:"stale_reports"`
	Attempts     *[]attemptJSON `json:"attempts,omitempty"`
}

// A starterJSON is who started an attempt, and as what.
type starterJSON struct {
	Host  *string `json:"host"`
	PID   *int64  `json:"pid"`
	User  *string `json:"user"`
	RunID *string `json:"run_id"`
	Token *int64  `json:"token"`
}

func starterOf(e *entry) starterJSON {
	return starterJSON{known(e.Host), known(int64(e.PID)), known(e.User), known(e.RunID), known(e.Token)}
}

type resolvedJSON struct {
	As     *string `json:"as"`
	By     *string `json:"by"`
	At     *string `json:"at"`
	Reason *string `json:"reason"`
}

type attemptJSON struct {
	Attempt int    `json:"attempt"`
	State   string `json:"state"`
	starterJSON
	StartedAt   *string  `json:"started_at"`
	EndedAt     *string  `json:"ended_at"`
	Duration    *float64 `json:"duration_seconds"`
	ExitStatus  *int     `json:"exit_status"`
	Signal      *string  `json:"signal"`
	Reason      *string  `json:"reason"`
	RerunReason *string  `json:"rerun_reason"`
	Version     *string  `json:"version"`
}

type rollJSON struct {
	Host    string  `json:"host"`
	AskedAt *string `json:"asked_at"`
	Slot    string  `json:"slot"`
	Answer  string  `json:"answer"`
	Why     *string `json:"why"`
	Line    *string `json:"line"`
	Version *string `json:"version"`
}

// known is a value, or null for the one that means unknown: "" or 0.
func known[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// at is a time in the job's zone, to the millisecond; null for 0.
func (j *jobState) at(ms int64) *string {
	if ms == 0 {
		return nil
	}
	layout := "2006-01-02T15:04:05-07:00"
	if ms%1000 != 0 {
		layout = "2006-01-02T15:04:05.000-07:00"
	}
	return known(j.time(ms).Format(layout))
}

func seconds(ms int64) *float64 {
	s := float64(ms) / 1000
	return &s
}

// jsonOf is the list of jobs.
func (a *statusAsk) jsonOf(jobs []*jobState) string {
	list := []jobJSON{}
	for _, j := range jobs {
		if !a.problems || len(j.attention()) > 0 {
			list = append(list, a.jobJSON(j))
		}
	}
	return document(list)
}

// document is what status and doctor print as JSON.
func document(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // they hold nothing that JSON does not have
	}
	return b.String()
}

func (a *statusAsk) jobJSON(j *jobState) jobJSON {
	o := jobJSON{Job: j.job, Namespace: j.namespace, AsOf: j.at(j.now), Attention: []attentionJSON{}, Missed: []string{},
		Schedule: known(j.meta["schedule"]), Zone: known(j.meta["zone"]), DayStart: known(j.meta["day_start"]),
		AttemptsAllowed: known(number(j.meta["attempts"])), NextDueAt: j.at(j.nextDue()), FirstSlot: known(j.meta["first"]),
		OldestSlot: known(j.oldest), Holder: j.holderJSON(), Token: known(number(j.fence)), Slots: []slotJSON{}}
	if o.Schedule == nil {
		o.Every = known(j.meta["every"])
	}
	if lease := number(j.meta["lease"]); lease > 0 {
		o.LeaseSeconds = seconds(lease)
	}
	if p := j.pause; p != nil {
		o.Paused = &pauseJSON{j.at(p.Since), j.at(p.Until), known(p.By), known(p.Reason)}
	}
	for _, s := range j.attention() {
		o.Attention = append(o.Attention, attentionJSON{s.name, s.state})
	}
	o.history(j)
	for _, s := range a.wanted(j) {
		o.Slots = append(o.Slots, j.slotJSON(s))
	}
	if a.date != "" {
		o.Slots[0].Attempts = j.attemptsJSON()
	}
	if a.hosts {
		o.Hosts = j.rollJSON()
	}
	return o
}

// wanted are the slots of the view: the newest, as many as -n says, or the one of --date.
func (a *statusAsk) wanted(j *jobState) []*slotState {
	n := a.n
	switch {
	case j.chosen != nil:
		return []*slotState{j.chosen}
	case a.job == "":
		n = 1
	case n == 0:
		n = len(j.slots)
	}
	return j.slots[:min(n, len(j.slots))]
}

// failures are counted from the newest slot back to one that is done; those of which nothing is known yet, or that nobody
// tried, are passed over.
func (j *jobState) failures() (n int) {
	for _, s := range j.slots {
		switch s.state {
		case "done":
			return n
		case "failed", "uncertain":
			n++
		}
	}
	return n
}

// history is what follows from all slots.
func (o *jobJSON) history(j *jobState) {
	counts := map[string]int{}
	o.Failures = j.failures()
	for i, s := range j.slots {
		if i == 0 {
			o.State, o.Slot, o.DueAt = known(s.state), known(s.name), j.at(j.due(s))
		}
		counts[s.state]++
		switch s.state {
		case "done":
			if o.LastDone == nil {
				o.LastDone = &doneJSON{s.name, j.at(s.ended)}
			}
		case "missed":
			if len(o.Missed) < longestMissed {
				o.Missed = append(o.Missed, s.name)
			}
		}
	}
	o.Counts = countsJSON{Done: counts["done"], Failed: counts["failed"], Uncertain: counts["uncertain"],
		Skipped: counts["skipped"], Merged: counts["merged"], Paused: counts["paused"], Missed: counts["missed"]}
}

// holderJSON is who has the lease: the lock's value is a run ID, then host:pid. The rest stands in the entry, if it is
// that run's.
func (j *jobState) holderJSON() *holderJSON {
	if j.lock == "" {
		return nil
	}
	run := j.heldBy()
	h := &holderJSON{RunID: known(run)}
	if i := strings.LastIndexByte(j.lock, ':'); i >= len(run) && stopOrderOf(j.lock) == nil {
		pid, _ := strconv.ParseInt(j.lock[i+1:], 10, 64)
		h.Host, h.PID = known(j.lock[len(run):i]), known(pid)
	}
	if j.ttl > 0 {
		h.LeaseEndsAt = j.at(j.now + j.ttl)
	}
	slot := j.meta["current"]
	if e := j.entries[slot]; e != nil && e.RunID == run {
		h.Host, h.PID = known(e.Host), known(int64(e.PID))
		h.Slot, h.User, h.Attempt, h.Token = known(slot), known(e.User), known(int64(e.Attempt)), known(e.Token)
		h.StartedAt, h.RenewedAt = j.at(e.Began), j.at(number(j.meta["heard"]))
	}
	return h
}

func (j *jobState) slotJSON(s *slotState) slotJSON {
	o := slotJSON{Slot: s.name, BusinessDate: dateOf(s.name), State: known(s.state), DueAt: j.at(j.due(s)),
		Attempt: s.attempt, Key: j.job + "/" + s.name}
	if left := j.left(s); left >= 0 {
		o.AttemptsLeft = &left
	}
	e := s.entry
	if e == nil {
		return o
	}
	o.MergedInto, o.StaleReports = known(e.Into), e.Stale
	if r := e.Resolved; r != nil {
		o.Resolved = &resolvedJSON{known(r.As), known(r.By), j.at(r.At), known(r.Reason)}
	}
	if !s.ran() {
		return o
	}
	o.StartedAt, o.EndedAt, o.ByHand = j.at(e.Began), j.at(e.Ended), e.ByHand
	o.ExitStatus, o.Signal, o.Reason = e.Exit, known(e.Signal), known(e.Reason)
	o.starterJSON = starterOf(&e.entry)
	if e.Ended > 0 {
		o.Duration = seconds(e.Ended - e.Began)
	}
	if due := j.due(s); due > 0 {
		o.Late = seconds(e.Began - due)
	}
	return o
}

func (j *jobState) attemptsJSON() *[]attemptJSON {
	list := []attemptJSON{}
	for _, a := range j.attempts(j.chosen) {
		o := attemptJSON{Attempt: a.Attempt, State: a.State, starterJSON: starterOf(&a.entry), StartedAt: j.at(a.Began),
			EndedAt: j.at(a.Ended), ExitStatus: a.Exit, Signal: known(a.Signal), Reason: known(a.Reason), RerunReason: known(a.Rerun),
			Version: known(a.version)}
		if a.Ended > 0 {
			o.Duration = seconds(a.Ended - a.Began)
		}
		list = append(list, o)
	}
	return &list
}

func (j *jobState) rollJSON() *[]rollJSON {
	list := []rollJSON{}
	for _, h := range j.hosts {
		list = append(list, rollJSON{h.Host, j.at(h.Asked), h.Slot, h.Answer, known(h.Why), known(h.line()), known(h.Version)})
	}
	return &list
}
