package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The third view: the attempts of one slot, and what the log says of it; and the roll call.

// oneSlot is the third view: a slot, its attempts, and what the log says of it.
func (s screen) oneSlot(j *jobState) string {
	c := j.chosen
	var b strings.Builder
	b.WriteString(wrap(j.slotHead(c), 3, 2))
	attempts := j.attempts(c)
	if len(attempts) > 0 {
		b.WriteString("\n" + s.attemptTable(j, c, attempts))
	}
	if c.state == "running" {
		b.WriteString("         " + j.renewal(c) + "\n")
	}
	if told := j.story(c); len(told) > 0 {
		b.WriteString("\n" + strings.Join(layout("llll", told), "\n") + "\n")
	}
	switch {
	case c.state == "failed" || c.state == "uncertain":
		b.WriteString(j.settle(c) + "\n")
	case c.state == "missed":
		b.WriteString(j.byHand(c) + "\n")
	}
	return b.String()
}

func (j *jobState) slotHead(c *slotState) []string {
	label, state := j.label(c.name), c.state
	switch low := number(j.meta["low"]); {
	case state == "done" && c.entry != nil && c.entry.Resolved != nil:
		state += ", resolved by " + c.entry.Resolved.By
	case state == "failed":
		state += ", " + j.leftText(c)
	case state == "" && j.meta["low"] != "" && c.begins <= low:
		state = "not known: the ledger reaches back to " + j.label(j.oldest)
	case state == "":
		state = "nobody has asked for it"
	}
	head := []string{j.job + " " + label, state}
	if due := j.due(c); due > 0 {
		head = append(head, "due "+j.clock(due, dateOf(c.name))+" "+j.zone.String())
	}
	if keyed := append(head, "key "+quoteWord(j.job+"/"+c.name)); display.String(strings.Join(keyed, "   ")) <= 80 {
		head = keyed
	}
	return head
}

// renewal says how the lease of a run stands.
func (j *jobState) renewal(c *slotState) string {
	said := "lease until " + j.clock(j.now+j.ttl, dateOf(c.name))
	if heard := j.heard(c); heard > 0 {
		said = "renewed " + ago(j.now-heard) + " ago, " + said
	}
	if n, d := j.longest(); n > 0 {
		said += fmt.Sprintf("; the last %d took %s at most", n, took(d))
	}
	return said
}

func (s screen) attemptTable(j *jobState, c *slotState, attempts []*attemptState) string {
	rows := [][]string{{"ATT", "STATE", "HOST", "STARTED", "ENDED", "TOOK", "EXIT", "TOKEN"}}
	for _, a := range attempts {
		ended, length := "-", took(-1)
		if a.Ended > 0 {
			ended, length = j.clock(a.Ended, j.time(a.Began).Format(time.DateOnly)), took(sinceMillis(a.Began, a.Ended))
		} else if a.State == "running" {
			length = took(sinceMillis(a.Began, j.now))
		}
		rows = append(rows, []string{strconv.Itoa(a.Attempt), s.state(a.State), holderOf(&a.entry),
			j.time(a.Began).Format("01-02 15:04:05"), ended, length, exitOf(&a.entry), strconv.FormatInt(a.Token, 10)})
	}
	return strings.Join(layout("rllllrrl", rows), "\n") + "\n"
}

// An attemptState is one attempt of a slot, as the log and, of the newest, the entry tell it.
type attemptState struct {
	entry
	version string
}

// attempts lists a slot's attempts, oldest first. The log is bounded, so what it no longer has is missing here, too.
func (j *jobState) attempts(c *slotState) []*attemptState {
	var all []*attemptState
	find := func(e event) *attemptState {
		a := attemptOf(e)
		for _, known := range all {
			if known.Token == a.Token {
				return known
			}
		}
		all = append(all, a)
		return a
	}
	for _, e := range j.events {
		switch e.what {
		case "begin":
			find(e)
		case "end", "stale", "late":
			find(e).end(e)
		}
	}
	for _, a := range all {
		if a.State == "running" {
			a.State = "uncertain"
		}
	}
	return c.newest(all)
}

// newest puts what the entry says of the newest attempt into the list: it is the ledger's word.
func (c *slotState) newest(all []*attemptState) []*attemptState {
	if !c.ran() {
		return all
	}
	a := &attemptState{entry: c.entry.entry}
	a.State = c.attempted()
	for i, known := range all {
		if known.Token == a.Token {
			a.version, a.Attempt = known.version, known.Attempt
			all[i] = a
			return all
		}
	}
	return append(all, a)
}

// attempted is the state of the newest attempt. Where a person has settled the slot, it is not the slot's.
func (s *slotState) attempted() string {
	switch r := s.entry.Resolved; {
	case r == nil:
		return s.state
	case r.Was == "running":
		return "uncertain"
	default:
		return r.Was
	}
}

func attemptOf(e event) *attemptState {
	a := &attemptState{version: e.fields["version"]}
	a.State, a.RunID, a.User, a.Began = "running", e.fields["run_id"], e.fields["user"], e.at
	a.Attempt, a.Token, a.Rerun = int(number(e.fields["attempt"])), number(e.fields["token"]), e.fields["rerun"]
	if i := strings.LastIndexByte(e.fields["host"], ':'); i >= 0 {
		a.Host, a.PID = e.fields["host"][:i], int(number(e.fields["host"][i+1:]))
	}
	return a
}

// end adds how the attempt ended.
func (a *attemptState) end(e event) {
	if a.Began == e.at { // its begin is no longer in the log
		a.Began -= number(e.fields["took"])
	}
	a.Ended = a.Began + number(e.fields["took"])
	a.Signal, a.Reason, a.Kept = e.fields["signal"], e.fields["reason"], e.fields["kept"] == "1"
	if n, err := strconv.Atoi(e.fields["exit"]); err == nil {
		a.Exit = &n
	}
	switch a.State = e.fields["state"]; {
	case e.what == "stale":
		a.State = "stale"
	case a.State == "unstarted":
		a.State = "failed"
	}
}

// hosts lists who asked for the job, when, and with which line.
func (s screen) hosts(j *jobState) string {
	if len(j.hosts) == 0 {
		return "no host has asked for " + j.job + "\n"
	}
	rows := [][]string{{"HOST", "ASKED", "SLOT", "ANSWER", "LINE", "VERSION"}}
	for _, h := range j.hosts {
		answer := h.Answer
		if h.Why != "" {
			answer += ":" + h.Why
		}
		rows = append(rows, []string{h.Host, j.time(h.Asked).Format(time.DateTime), j.label(h.Slot), answer, h.line(), h.Version})
	}
	return strings.Join(append(layout("llllll", rows), j.strangers()...), "\n") + "\n"
}

// line names the command of the host's crontab line: equal ones have equal digits.
func (h roll) line() string { return h.Line[:min(len(h.Line), 4)] }

// strangers says which hosts are unlike the others: silent for longer than a day and two slots, with another command, or
// with a line whose slots are not the job's.
func (j *jobState) strangers() []string {
	lines, newest, usual := map[string]int{}, int64(0), ""
	for _, h := range j.hosts {
		lines[h.line()]++
		newest = max(newest, h.Asked)
	}
	for l, n := range lines {
		if n > lines[usual] || (n == lines[usual] && l < usual) {
			usual = l
		}
	}
	silent := 24 * time.Hour
	if j.line != nil {
		silent = max(silent, 2*j.line.length())
	}
	var told []string
	for _, h := range j.hosts {
		var odd []string
		if newest-h.Asked > silent.Milliseconds() {
			odd = append(odd, fmt.Sprintf("last asked %s ago", count(int((j.now-h.Asked)/(24*time.Hour).Milliseconds()), "day")))
		}
		if h.line() != usual && lines[usual] > 1 {
			odd = append(odd, "its line differs from the others'")
		}
		if j.line != nil {
			if _, err := j.line.named(h.Slot); err != nil {
				odd = append(odd, fmt.Sprintf("%s is no slot of '%s'", j.label(h.Slot), j.line))
			}
		}
		if len(odd) > 0 {
			told = append(told, h.Host+": "+strings.Join(odd, "; "))
		}
	}
	return told
}
