package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// The lower half of the third view: what the log says of a slot, and of what people did about it.

// story is what the log says of a slot: when, who, what, and more.
func (j *jobState) story(c *slotState) [][]string {
	var rows [][]string
	tell := func(at int64, who, what, more string) {
		rows = append(rows, []string{j.clock(at, dateOf(c.name)), fmt.Sprintf("%-11s", who), fmt.Sprintf("%-16s", what), more})
	}
	stopper := ""
	for _, e := range j.told(c) {
		attempt := "attempt " + e.fields["attempt"] + " "
		switch e.what {
		case "begin":
			if why := e.fields["rerun"]; why != "" {
				host := e.fields["host"] // HOST:PID
				tell(e.at, e.fields["user"]+"@"+host[:max(strings.LastIndexByte(host, ':'), 0)], "rerun", strconv.Quote(why))
			}
			tell(e.at, e.fields["host"], attempt+"began", e.fields["run_id"])
		case "end", "stale", "late":
			a := attemptOf(e)
			a.end(e)
			what, more := endStory(e, a)
			if a.Reason == "stopped" && stopper != "" {
				more = strings.Replace(more, "stopped", "stopped by "+stopper, 1)
			}
			tell(e.at, e.fields["host"], attempt+what, more)
		default:
			if e.what == "stop" {
				stopper = e.fields["by"]
			}
			more := reasonOf(e)
			if until := number(e.fields["until"]); until > 0 {
				more = strings.TrimSpace("until " + j.time(until).Format("2006-01-02 15:04") + " " + more)
			}
			tell(e.at, cmp.Or(e.fields["by"], e.fields["host"]), e.what, more)
		}
	}
	if heard := j.heard(c); c.state == "uncertain" && heard > 0 {
		over := heard + number(j.meta["lease"])
		tell(heard, holderOf(&c.entry.entry), "last renewed", "lease over at "+j.clock(over, dateOf(c.name)))
	}
	return rows
}

// told are the events of the slot, and of the job's pauses and resumes those that concern it: the pause that it began in,
// and what came until the slot was settled.
func (j *jobState) told(c *slotState) []event {
	from, to := c.begins, max(c.began, c.ended)
	for _, e := range j.events {
		if e.fields["slot"] != "" {
			from, to = min(from, e.at), max(to, e.at)
		}
	}
	switch c.state {
	case "paused":
		to = j.resumed(from)
	case "running", "retrying", "uncertain":
		to = j.now
	}
	var before *event
	var all []event
	for _, e := range j.events {
		switch {
		case e.fields["slot"] != "" || (from < e.at && e.at <= to):
			all = append(all, e)
		case e.at <= from:
			before = &e
		}
	}
	if before != nil && before.what == "pause" && c.state == "paused" {
		all = append([]event{*before}, all...)
	}
	return all
}

// resumed is when the job was first resumed after that, or now.
func (j *jobState) resumed(after int64) int64 {
	for _, e := range j.events {
		if e.what == "resume" && e.at > after {
			return e.at
		}
	}
	return j.now
}

// endStory is the word and the rest for an end: failed, "exit 1, lease kept".
func endStory(e event, a *attemptState) (what, more string) {
	if a.State == "done" && e.what == "end" {
		return "done", ""
	}
	more = endOf(&a.entry)
	if a.Kept {
		more += ", lease kept"
	}
	if e.what == "end" {
		return e.fields["state"], more
	}
	return e.what, e.fields["state"] + ", " + more
}

// reasonOf is what a person gave as reason, in quotes.
func reasonOf(e event) string {
	reason := e.fields["reason"]
	if reason != "" {
		reason = strconv.Quote(reason)
	}
	return strings.TrimSpace(e.fields["as"] + " " + reason)
}
