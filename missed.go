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
// the skipped ones run. It returns the first status that is not 0, and an exit if that is the end of this call.
func (r *run) catchUpFirst(status int) (int, *exit) {
	missed, e := r.writeMissed()
	if e != nil || !r.caught || r.catchUp != "each" {
		return status, e
	}
	for _, s := range r.toRun(missed) {
		each := r.withSlot(s)
		ended := each.decide()
		switch {
		case each.interrupted:
			return 0, r.after(status, ended)
		case each.reply == nil: // Redis is not reached any more
			return status, ended
		case each.reply.Verdict == "done":
		case each.reply.Verdict == "busy" || each.reply.Verdict == "behind":
			r.caught = false // somebody else is at it: from here on this is a loser like any other
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
	one.settings, one.slot, one.minute = &own, s, ""
	return &run{call: &one, voice: r.voice, signals: r.signals}
}

// writeMissed writes the slots between the newest entry and this one as missed, and tells those that nobody has
// written before. It returns those that are to be caught up with, whoever wrote them.
func (r *run) writeMissed() ([]slot, *exit) {
	r.caught = true
	if r.reply.Newest == 0 {
		return nil, nil
	}
	newest, err := r.line.at(time.UnixMilli(r.reply.Newest))
	if err != nil {
		return nil, usage(err.Error(), "")
	}
	missed, err := r.line.between(newest, r.slot, mostMissed)
	if err != nil || len(missed) == 0 {
		return nil, nil
	}
	var rows []missedSlot
	for _, s := range missed {
		rows = append(rows, missedSlot{s.name, millis(s.begins), millis(s.from), millis(s.to)})
	}
	told, e := r.askMissed(rows)
	if e != nil || told == nil {
		return nil, e
	}
	if len(told.Written) > 0 {
		r.tellMissed(told.Written)
	}
	return slices.DeleteFunc(missed, func(s slot) bool { return !slices.Contains(told.Open, s.name) }), nil
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
	r.caught = false
	return nil, r.rest(jitter(firstPause))
}

// tellMissed names the newest few.
func (r *run) tellMissed(names []string) {
	const most = 5
	text := ""
	for i, name := range names {
		names[i] = r.shown(name)
	}
	if more := len(names) - most; more > 0 {
		names = names[more:]
		text = fmt.Sprintf(" and %d before", more)
	}
	r.voice.say("%s: missed %s%s", r.command.job, strings.Join(names, ", "), text)
	if r.catchUp == "none" {
		r.voice.hint("--catch-up each, or --date " + names[0])
	}
}

// toRun are the slots to catch up, oldest first: the newest --catch-up-max of those that are missed or skipped.
func (r *run) toRun(missed []slot) []slot {
	slots := missed
	for _, name := range r.reply.Owed {
		s, err := r.line.named(name) // what another line has left is passed over
		if err == nil && !slices.ContainsFunc(slots, func(m slot) bool { return m.name == s.name }) {
			slots = append(slots, s)
		}
	}
	slices.SortFunc(slots, func(a, b slot) int { return a.begins.Compare(b.begins) })
	return slots[max(0, len(slots)-r.catchUpMax):]
}
