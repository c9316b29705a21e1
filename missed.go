package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Slots that were due and that nobody asked for, and slots that were skipped.

const mostMissed = 100 // so many are written, the newest

// catchUpFirst sees to what lies before this slot: missed slots are written and told, and with --catch-up each, those and
// the skipped ones run; with merge, the run that follows covers them. It returns the first status that is not 0, and an
// exit if that is the end of this call.
func (r *run) catchUpFirst(status int) (int, *exit) {
	missed, e := r.writeMissed()
	if e != nil || !r.Caught {
		return status, e
	}
	var slots []slot
	slots, r.Passed = r.toCatchUp(r.reply.Owed, missed)
	if r.catchUp == "merge" {
		r.Covers = namesOf(slots)
		return status, nil
	}
	for _, s := range slots {
		each := r.withSlot(s)
		ended := each.decide()
		switch {
		case each.interrupted:
			return 0, r.after(status, ended)
		case each.reply == nil: // Redis is not reached any more
			return status, ended
		case each.reply.Verdict == "done":
		case each.reply.Verdict == "busy" || each.reply.Verdict == "behind":
			r.Caught = false // somebody else is at it: from here on this is a loser like any other
			return status, nil
		default:
			r.voice.leave(ended)
			status = cmp.Or(status, ended.status)
		}
	}
	return status, nil
}

// withSlot is a run of another slot of the job, which neither catches up nor waits.
func (r *run) withSlot(s slot) *run {
	own, one := *r.settings, *r.call
	own.catchUp, own.overlap, own.standby = "none", "skip", false
	one.settings, one.slot, one.minute, one.arrears = &own, s, "", arrears{Caught: true}
	return &run{call: &one, voice: r.voice, signals: r.signals}
}

// writeMissed writes the slots that were due and have no entry as missed, and tells those that nobody has written
// before. It returns those that are to be caught up with, whoever wrote them.
func (r *run) writeMissed() ([]slot, *exit) {
	r.Caught = true
	due, err := r.dueSince(r.reply.Accounted)
	if err != nil {
		return nil, usage(err.Error(), "")
	}
	if len(due) == 0 {
		return nil, nil
	}
	told, e := r.askMissed(missedRows(due))
	if e != nil || told == nil {
		return nil, e
	}
	if len(told.Written) > 0 {
		r.voice.say("%s: %s", r.command.job, r.missedText(told.Written))
		if r.catchUp == "none" {
			r.voice.hint("--catch-up each, or --date " + r.shown(newest(told.Written)[0]))
		}
	}
	return told.opened(due), nil
}

// dueSince lists the line's slots after the one that the ledger accounts for, and before this one: the newest hundred.
func (c *call) dueSince(accounted int64) ([]slot, error) {
	if accounted == 0 {
		return nil, nil
	}
	last, err := c.line.at(time.UnixMilli(accounted))
	if err != nil {
		return nil, err
	}
	return c.line.between(last, c.slot, mostMissed)
}

func missedRows(slots []slot) []missedSlot {
	var rows []missedSlot
	for _, s := range slots {
		rows = append(rows, missedSlot{s.name, millis(s.begins), millis(s.from), millis(s.to)})
	}
	return rows
}

func namesOf(slots []slot) []string {
	var names []string
	for _, s := range slots {
		names = append(names, s.name)
	}
	return names
}

// opened are those of the slots that are to be caught up with.
func (m *missedReply) opened(slots []slot) []slot {
	return slices.DeleteFunc(slots, func(s slot) bool { return !slices.Contains(m.Open, s.name) })
}

// askMissed sends the slots. Where Redis does not answer, everything is decided anew: begin knows how to wait for it.
func (r *run) askMissed(rows []missedSlot) (*missedReply, *exit) {
	var told *missedReply
	var err error
	stopped := r.attend(requestTimeout, func(ctx context.Context) {
		told, err = r.ledger.writeMissed(ctx, r.command.job, rows, r.question())
	})
	switch {
	case stopped != nil:
		return nil, stopped
	case err == nil:
		return told, nil
	}
	if remedy := r.server.judge(err, true); remedy == denied || remedy == broken {
		e := r.server.refusal(err, 0, remedy)
		e.msg = r.name() + ": not run: " + e.msg
		return nil, e
	}
	r.Caught = false
	return nil, r.rest(jitter(firstPause))
}

// missedText names the newest few.
func (c *call) missedText(names []string) string {
	few := newest(names)
	text := ""
	if more := len(names) - len(few); more > 0 {
		text = fmt.Sprintf(" and %d before", more)
	}
	return "missed " + c.listed(few) + text
}

// newest are the last few of many.
func newest(names []string) []string { return names[max(0, len(names)-5):] }

// listed is how messages name slots.
func (c *call) listed(names []string) string {
	var shown []string
	for _, name := range names {
		shown = append(shown, c.shown(name))
	}
	return strings.Join(shown, ", ")
}

// toCatchUp are the slots to catch up with, oldest first: the newest --catch-up-max of those that are missed or skipped.
// The others are passed over, and named, and so is what another line has left.
func (c *call) toCatchUp(owed []string, missed []slot) (slots []slot, passed []string) {
	if c.catchUp == "none" {
		return nil, nil
	}
	for _, name := range owed {
		s, err := c.line.named(name)
		switch {
		case err != nil:
			passed = append(passed, name)
		case !slices.ContainsFunc(missed, func(m slot) bool { return m.name == s.name }):
			missed = append(missed, s)
		}
	}
	slices.SortFunc(missed, func(a, b slot) int { return cmp.Or(a.begins.Compare(b.begins), cmp.Compare(a.tick.wall, b.tick.wall)) })
	most := max(0, len(missed)-c.catchUpMax)
	return missed[most:], append(passed, namesOf(missed[:most])...)
}
