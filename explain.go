package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
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
	fmt.Fprintf(w, "line       %s, attempts %d, lease %s\n", c.line, c.attempts, brief(c.settings.lease))
	fmt.Fprintf(w, "zone       %s, from %s\n", c.line.zone, c.zoneFrom)
	fmt.Fprintf(w, "slot       %s, business date %s, since %s\n", c.slot.name, c.slot.date,
		c.slot.begins.In(c.line.zone).Format("2006-01-02 15:04:05 -07:00"))
	fmt.Fprintf(w, "ledger     %s, Redis at %s, from %s\n\n", c.namespace, c.server.address, c.redisFrom())
	if r.Verdict == "run" {
		fmt.Fprintf(w, "%s: would run, attempt %d of %d%s\n", c.name(), r.Attempt, r.Attempt+r.Left, c.because(r.Entry))
		c.explainGap(w, r)
		return nil
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

// explainGap says what would be seen to before.
func (c *call) explainGap(w io.Writer, r *reply) {
	if newest, err := c.line.at(time.UnixMilli(r.Newest)); err == nil && r.Newest != 0 {
		fmt.Fprintf(w, "slots after %s were missed: that would be told\n", c.shown(newest.name))
	}
	if len(r.Owed) > 0 || (r.Newest != 0 && c.catchUp != "none") {
		fmt.Fprintf(w, "missed and skipped slots would be caught up with: --catch-up %s\n", c.catchUp)
	}
}

// foresee asks as long as --redis-wait allows.
func (c *call) foresee() (*reply, *exit) {
	var r *reply
	e := c.server.persist(c.redisWait, func(ctx context.Context) (err error) {
		q := c.question()
		q.RunID, q.Now = newRunID(), millis(c.wall())
		r, err = c.ledger.foresee(ctx, c.command.job, q)
		return err
	})
	if e != nil {
		e.msg = c.name() + ": not run: " + e.msg
	}
	return r, e
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
