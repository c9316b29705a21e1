package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const skewTold = time.Minute // a clock that is off by less is nobody's business

// What a verdict of the ledger means for whoever asked: an exit status, and words. run and explain use the same ones.

// name is how messages call the slot.
func (c *call) name() string { return c.command.job + " " + c.shown(c.slot.name) }

// shown is a slot's name as people read it: without the offset, where the clock shows that time once.
func (c *call) shown(name string) string { return withoutOffset(name, c.line.zone) }

// clock is a time of the ledger in the job's zone; another day than the slot's is named.
func (c *call) clock(ms int64) string {
	t := time.UnixMilli(ms).In(c.line.zone)
	if t.Format(time.DateOnly) == c.slot.date {
		return t.Format(time.TimeOnly)
	}
	return t.Format("01-02 15:04:05")
}

// holderOf is host:pid of an entry.
func holderOf(e *entry) string { return fmt.Sprintf("%s:%d", e.Host, e.PID) }

func sinceMillis(from, to int64) time.Duration { return time.Duration(to-from) * time.Millisecond }

// endOf says how an attempt ended: exit 1, TERM, not started.
func endOf(e *entry) string {
	switch {
	case e.Signal != "":
		return strings.TrimSuffix(e.Signal+", "+strings.ReplaceAll(e.Reason, "_", " "), ", ")
	case e.Reason != "" && e.Exit != nil:
		return fmt.Sprintf("%s, exit %d", strings.ReplaceAll(e.Reason, "_", " "), *e.Exit)
	case e.Reason != "":
		return strings.ReplaceAll(e.Reason, "_", " ")
	case e.Exit != nil:
		return fmt.Sprintf("exit %d", *e.Exit)
	}
	return "unknown"
}

// refuse is the exit of a verdict other than run.
func (c *call) refuse(r *reply) *exit {
	settle := c.settle(c.slot.name)
	switch r.Verdict {
	case "done":
		if by := r.Entry.Resolved; by != nil {
			return c.normal(c.exitDone, "not run: done, by %s at %s: %q", by.By, c.clock(by.At), by.Reason)
		}
		return c.normal(c.exitDone, "not run: done on %s at %s (%s)", r.Entry.Host, c.clock(r.Entry.Ended),
			brief(sinceMillis(r.Entry.Began, r.Entry.Ended)))
	case "busy":
		return c.normal(c.exitBusy, "not run: running on %s since %s, renewed %s ago, lease until %s", holderOf(r.Entry),
			c.clock(r.Entry.Began), brief(sinceMillis(r.Heard, r.Time)), c.clock(r.Time+r.TTL))
	case "paused":
		return c.paused(r)
	case "behind":
		e := c.normal(0, "skipped: %s still running on %s", c.before(r), r.holder())
		return e
	case "failed":
		return c.told(r, c.exitFailed, settle, "not run: failed on %s at %s (%s), no attempt left", r.Entry.Host,
			c.clock(r.Entry.Ended), endOf(r.Entry))
	case "uncertain":
		return c.told(r, exitNotDone, "find out, then "+settle,
			"not run: uncertain: %s began at %s and never reported; it may have done all, part or nothing",
			holderOf(r.Entry), c.clock(r.Entry.Began))
	case "old":
		return &exit{status: exitNotDone, msg: fmt.Sprintf(
			"%s: not run: the ledger reaches back to %s, nobody can say whether it ran", c.name(), c.shown(r.Oldest))}
	}
	return c.disagree(r)
}

// settle is what to type about a slot that waits for a person. A shell by hand does not have the line's options.
func (c *call) settle(slot string) string {
	return toSettle(c.typed(c.command.job), c.shown(slot), "--done or --reopen,")
}

// typed is a job as it is typed, with the option without which a shell by hand means another namespace.
func (s *settings) typed(job string) string {
	if s.from["namespace"] != "--namespace" {
		return quoteWord(job)
	}
	return quoteWord(job) + " --namespace " + quoteWord(s.namespace)
}

// byHand is what runs a slot by hand. It says of the line what decides which slot is meant.
func byHand(typed string, line terms, slot string) string {
	words := "onceonly run --job " + typed
	switch {
	case len(slot) == len(time.DateOnly): // a day's name
	case line.Schedule != "":
		words += " --schedule " + quoteWord(line.Schedule)
	case line.Every != "":
		words += " --every " + quoteWord(line.Every)
	}
	if line.Zone != "" && line.Zone != time.Local.String() { // a zone that has no name cannot be typed
		words += " --tz " + quoteWord(line.Zone)
	}
	return words + " --date " + slot + " -- COMMAND"
}

// before is the slot that runs instead. Where Redis has lost the ledger, but not the lock, nobody knows.
func (c *call) before(r *reply) string { return cmp.Or(c.shown(r.Current), "another slot") }

// holder is host:pid of whoever has the lease; a lock that is no run's says nothing.
func (r *reply) holder() string { return cmp.Or(r.Holder[min(len(r.Holder), 32):], "some host") }

// paused is nothing to do, unless somebody asked for this slot by hand.
func (c *call) paused(r *reply) *exit {
	p := &pause{}
	json.Unmarshal([]byte(r.Paused), p)
	e := c.normal(0, "not run: paused by %s since %s", p.By, c.day(p.Since))
	if p.Reason != "" {
		e.msg += ": " + p.Reason
	}
	if c.rerun {
		e.status, e.normal = exitNotDone, false
	}
	return e
}

func (c *call) day(ms int64) string {
	return time.UnixMilli(ms).In(c.line.zone).Format(time.DateOnly)
}

// normal is a verdict that needs nobody: silent unless asked.
func (c *call) normal(status int, format string, args ...any) *exit {
	return &exit{status: status, normal: true, msg: c.name() + ": " + fmt.Sprintf(format, args...)}
}

// told is a verdict that one host of the fleet tells.
func (c *call) told(r *reply, status int, hint, format string, args ...any) *exit {
	e := c.normal(status, format, args...)
	e.hint, e.normal = hint, !r.Told
	return e
}

// disagree is the exit where hosts or lines do not fit together: always told, for nobody else can see it.
func (c *call) disagree(r *reply) *exit {
	job, e := c.command.job, &exit{status: exitDisagree}
	switch r.Verdict {
	case "clock":
		e.msg, e.hint = fmt.Sprintf("%s: not run: %s", job, c.skew(r)), "timedatectl status"
	case "zone":
		e.msg = fmt.Sprintf("%s: not run: this host's zone is %s (%s), the job's is %s (%s, since %s)", job,
			c.line.zone, c.zoneFrom, r.Zone, r.ZoneHost, c.day(number(r.ZoneSince)))
		e.hint = fmt.Sprintf("on every host ONCEONLY_TZ=%s in %s, or --tz %s", r.Zone, configFile, r.Zone)
	case "shape":
		e.msg = fmt.Sprintf("%s: not run: this line is '%s', that of %s is '%s', and their slots overlap (%s and %s)", job,
			c.line, r.Other.Host, r.Other.line(), c.shown(c.slot.name), c.shown(r.Other.Slot))
		e.hint = "give all hosts the same line: onceonly status " + c.typed(job) + " --hosts"
		switch {
		case c.line.String() != r.Other.line():
		case r.Zone == "" || r.Zone == c.line.zone.String(): // what the job's is says nothing of the other slot
			e.msg = fmt.Sprintf("%s: not run: this line's zone is %s, %s had another one, and their slots overlap (%s and %s)",
				job, c.line.zone, r.Other.Host, c.shown(c.slot.name), c.shown(r.Other.Slot))
			e.hint = "onceonly status " + c.typed(job) + " --date " + c.shown(r.Other.Slot)
		default:
			e.msg = fmt.Sprintf("%s: not run: this line's zone is %s, the job's is %s (%s, since %s), and their slots overlap (%s and %s)",
				job, c.line.zone, r.Zone, r.ZoneHost, c.day(number(r.ZoneSince)), c.shown(c.slot.name), c.shown(r.Other.Slot))
			e.hint = fmt.Sprintf("on every host ONCEONLY_TZ=%s in %s, or --tz %[1]s", r.Zone, configFile)
		}
	case "args":
		e.msg = fmt.Sprintf("%s: not run: %s asked at %s with other arguments", c.name(), r.Entry.Host,
			c.clock(r.Entry.Began))
		e.hint = "two lines need two names: --job NAME on each"
	case "line":
		e.msg = c.name() + ": not run: another line of this host has the same name"
		e.hint = "two lines need two names: --job NAME on each"
	case "notdaily":
		e.msg = fmt.Sprintf("%s: not run: this line ran at %s and comes again at %s, but its slot is the whole day",
			c.name(), r.Asked, c.minute)
		e.hint = "--every 5m, or --schedule '*/5 * * * *'; --every day if once a day is meant"
	default:
		e.status, e.msg = exitBug, c.name()+": not run: unknown verdict "+strconv.Quote(r.Verdict)
	}
	return e
}

// skew says how far this host's clock is off Redis's.
func (c *call) skew(r *reply) string {
	here, there := c.wall().In(c.line.zone), time.UnixMilli(r.Time).In(c.line.zone)
	d, word := here.Sub(there), "ahead of"
	if d < 0 {
		d, word = -d, "behind"
	}
	return fmt.Sprintf("clock is %s %s Redis (%s here, %s there)", brief(d), word, here.Format(time.DateTime),
		there.Format(time.DateTime))
}

// tellBefore says what is worth knowing about the attempts before, of this slot or of another one.
func (r *run) tellBefore() {
	of := fmt.Sprintf("attempt %d of %d", r.reply.Attempt, r.reply.Attempt+r.reply.Left)
	switch before := r.reply.Entry; {
	case before == nil || before.Attempt == 0 || before.RunID == r.lease.runID && before.Try == r.try:
	case before.State == "running":
		heard := before.Began
		if r.reply.Current == r.slot.name { // else it was another slot's run that was heard of since
			heard = max(heard, r.reply.Heard)
		}
		r.voice.say("%s: taking over, %s: %s not heard of for %s", r.name(), of, holderOf(before),
			brief(sinceMillis(heard, r.reply.Time)))
	case before.State == "failed":
		r.voice.normally("%s: %s: attempt %d failed on %s (%s)", r.name(), of, before.Attempt, before.Host, endOf(before))
	}
	switch earlier := r.reply.EarlierEntry; {
	case earlier == nil:
	case earlier.State == "running":
		r.voice.say("%s %s: uncertain: %s began at %s and never reported", r.command.job, r.shown(r.reply.Earlier),
			holderOf(earlier), r.clock(earlier.Began))
		r.voice.hint("find out, then " + r.settle(r.reply.Earlier))
	default:
		r.voice.say("%s %s: failed on %s at %s (%s)", r.command.job, r.shown(r.reply.Earlier), earlier.Host,
			r.clock(earlier.Ended), endOf(earlier))
		r.voice.hint(r.settle(r.reply.Earlier))
	}
}

// tellSkew says that this host's clock is off, as far as that is allowed.
func (r *run) tellSkew() {
	if off := r.wall().Sub(time.UnixMilli(r.reply.Time)).Abs(); off > skewTold {
		text, _, _ := strings.Cut(r.skew(r.reply), " (")
		r.voice.say("%s", text)
	}
}

// line is the part of a shape that people know.
func (o *other) line() string {
	line, _, _ := strings.Cut(o.Shape, " ·")
	return line
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
