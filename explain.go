package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
)

// explain says what run with the same words would do now, and why. It asks the script that run asks, which then decides
// and writes nothing.
func (c *call) explain(w io.Writer) *exit {
	r, e := c.foresee()
	if e != nil {
		return e
	}
	var text strings.Builder
	e = c.foretell(&text, r)
	if unseen := show(w, "explain", text.String()); unseen != nil {
		return unseen
	}
	return e
}

// foretell writes what the answer means. It returns 1 if the command would not run now.
func (c *call) foretell(w io.Writer, r *reply) *exit {
	fmt.Fprintf(w, "job        %s%s\n", c.command.job, c.whereFrom())
	fmt.Fprintf(w, "command    %s\n", quoteWords(c.command.argv))
	fmt.Fprintf(w, "line       %s, attempts %d, lease %s\n", c.line, c.attempts, exactly(c.settings.lease))
	fmt.Fprintf(w, "zone       %s, from %s\n", c.line.zone, c.zoneFrom)
	fmt.Fprintf(w, "slot       %s, business date %s, since %s\n", c.slot.name, c.slot.date,
		c.slot.begins.In(c.line.zone).Format("2006-01-02 15:04:05 -07:00"))
	fmt.Fprintf(w, "ledger     %s, Redis at %s, from %s\n\n", c.namespace, c.server.address, c.redisFrom())
	if r.Verdict == "run" {
		fmt.Fprintf(w, "%s: would run, attempt %d of %d%s\n", c.name(), r.Attempt, r.Attempt+r.Left, c.because(r.Entry))
		return c.foretellArrears(w, r)
	}
	if c.waits(r.Verdict) {
		fmt.Fprintf(w, "%s: would wait: %s %s\n", c.name(), c.shown(cmp.Or(r.Current, c.slot.name)), c.running(r))
		return &exit{status: exitNo}
	}
	refusal := c.refuse(r)
	fmt.Fprintf(w, "%s\n", oneLine(refusal.msg))
	if refusal.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", refusal.hint)
	}
	fmt.Fprintf(w, "run would exit %d\n", refusal.status)
	return &exit{status: exitNo}
}

// foretellArrears says what would become of missed and skipped slots before this one, and which slots the run would cover.
func (c *call) foretellArrears(w io.Writer, r *reply) *exit {
	due, err := c.dueSince(r.Accounted)
	if err != nil {
		return usage(err.Error(), "")
	}
	told := &missedReply{}
	if len(due) > 0 {
		if e := c.persist(func(ctx context.Context, q question) (err error) {
			q.Dry = true
			told, err = c.ledger.writeMissed(ctx, c.command.job, missedRows(due), q)
			return err
		}); e != nil {
			return e
		}
	}
	if len(told.Written) > 0 {
		fmt.Fprintf(w, "would tell: %s\n", c.missedText(told.Written))
	}
	slots, _ := c.toCatchUp(r.Owed, told.opened(due))
	if c.catchUp == "each" && len(slots) > 0 {
		fmt.Fprintf(w, "would run before: %s\n", c.listed(namesOf(slots)))
		slots = nil
	}
	if covered, err := c.line.named(r.First); err == nil && (len(slots) == 0 || covered.begins.Before(slots[0].begins)) {
		slots = []slot{covered} // by the attempt before
	}
	if len(slots) > 0 {
		fmt.Fprintf(w, "would cover: %s to %s\n", c.shown(slots[0].name), c.shown(c.slot.name))
	}
	return nil
}

// foresee asks what begin would decide.
func (c *call) foresee() (*reply, *exit) {
	var r *reply
	e := c.persist(func(ctx context.Context, q question) (err error) {
		r, err = c.ledger.foresee(ctx, c.command.job, q)
		return err
	})
	return r, e
}

// persist asks as long as --redis-wait allows.
func (c *call) persist(ask func(context.Context, question) error) *exit {
	e := c.server.persist(c.redisWait, func(ctx context.Context) error {
		q := c.question()
		q.RunID, q.Now = newRunID(), millis(c.wall())
		return ask(ctx, q)
	})
	if e != nil {
		e.msg = c.name() + ": not run: " + e.msg
	}
	return e
}

// whereFrom says why the job has its name.
func (c *call) whereFrom() string {
	if c.command.derived {
		return ", the command's base name"
	}
	return ""
}

func (c *call) redisFrom() string {
	if nearer(c.from["redis-file"], c.from["redis"]) {
		return c.redisFile
	}
	return c.from["redis"]
}

// because says which attempt went before, if any.
func (c *call) because(before *entry) string {
	switch {
	case before == nil:
		return ""
	case before.State == "running":
		return fmt.Sprintf(": %s began at %s and is not heard of", holderOf(before), c.clock(before.Began))
	case before.State == "failed":
		return fmt.Sprintf(": the last one failed on %s (%s)", before.Host, endOf(before))
	}
	return ": " + before.State + " before"
}
