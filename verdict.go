package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a verdict of the ledger means for whoever asked: an exit status, and words. run and explain use the same ones.

// A call is one use of run or explain: what was asked, by whom, about which slot.
type call struct {
	*settings
	command  *command
	line     line
	slot     slot
	zoneFrom string // where the zone comes from, for messages
	asker    asker
	minute   string // see question.Minute
	server   *server
	ledger   *ledger
}

// name is how messages call the slot.
func (c *call) name() string { return c.command.job + " " + c.slot.name }

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
		return strings.TrimSuffix(e.Signal+", "+e.Reason, ", ")
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
	settle := fmt.Sprintf("onceonly resolve %s --date %s --done or --reopen, --reason TEXT",
		quoteWord(c.command.job), c.slot.name)
	switch r.Verdict {
	case "done":
		return c.normal(c.exitDone, "not run: done on %s at %s (%s)", r.Entry.Host, c.clock(r.Entry.Ended),
			brief(sinceMillis(r.Entry.Began, r.Entry.Ended)))
	case "busy":
		return c.normal(c.exitBusy, "not run: running on %s since %s, renewed %s ago, lease until %s", holderOf(r.Entry),
			c.clock(r.Entry.Began), brief(sinceMillis(r.Heard, r.Time)), c.clock(r.Time+r.TTL))
	case "paused":
		return c.normal(0, "not run: paused")
	case "behind":
		return c.normal(exitNotDone, "not run: %s still running on %s", r.Current, r.holder())
	case "failed":
		return c.told(r, c.exitFailed, settle, "not run: failed on %s at %s (%s), no attempt left", r.Entry.Host,
			c.clock(r.Entry.Ended), endOf(r.Entry))
	case "uncertain":
		return c.told(r, exitNotDone, "find out, then "+settle,
			"not run: uncertain: %s began at %s and never reported; it may have done all, part or nothing",
			holderOf(r.Entry), c.clock(r.Entry.Began))
	case "old":
		return &exit{status: exitNotDone, msg: fmt.Sprintf(
			"%s: not run: the ledger reaches back to %s, nobody can say whether it ran", c.name(), c.day(r.Low))}
	}
	return c.disagree(r)
}

// holder is host:pid of whoever has the lease.
func (r *reply) holder() string { return r.Holder[min(len(r.Holder), 32):] }

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
	here, there := time.Now().In(c.line.zone), time.UnixMilli(r.Time).In(c.line.zone)
	d, word := here.Sub(there), "ahead of"
	if d < 0 {
		d, word = -d, "behind"
	}
	return fmt.Sprintf("clock is %s %s Redis (%s here, %s there)", brief(d), word, here.Format(time.DateTime),
		there.Format(time.DateTime))
}

// began says what is worth knowing about a run that begins: an attempt before it, a clock that is off.
func (c *call) began(v *voice, r *reply) {
	if before := r.Entry; before != nil && before.Attempt > 0 {
		switch before.State {
		case "running":
			v.say("%s: taking over, attempt %d of %d: %s not heard of for %s", c.name(), r.Attempt,
				max(c.attempts, r.Attempt), holderOf(before), brief(sinceMillis(cmp.Or(r.Heard, before.Began), r.Time)))
		case "failed":
			v.normally("%s: attempt %d of %d: attempt %d failed on %s (%s)", c.name(), r.Attempt,
				max(c.attempts, r.Attempt), before.Attempt, before.Host, endOf(before))
		}
	}
	if off := time.Since(time.UnixMilli(r.Time)).Abs(); off > time.Minute {
		text, _, _ := strings.Cut(c.skew(r), " (")
		v.say("%s", text)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
