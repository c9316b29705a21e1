package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// The status for a monitoring system that starts a program and reads its exit status and one line, as Nagios does.

const (
	nagiosOK = iota
	nagiosWarning
	nagiosCritical
	nagiosUnknown // nothing can be told
)

var nagiosWords = []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

const longestNaming = 5 // jobs named in the line

// A checkup is what all jobs come to.
type checkup struct {
	status                   int
	jobs, attention, running int
	paused                   int
	named                    []string // those that the status is about, and why
	done                     int64    // ms since the newest end of a slot that is done, -1: none
}

// checkUp sums jobs up. Where there are none nothing can be told: a ledger that was lost, or another namespace, is not OK.
func checkUp(jobs []*jobState) *checkup {
	c := &checkup{jobs: len(jobs), done: -1}
	if c.jobs == 0 {
		c.status = nagiosUnknown
	}
	for _, j := range jobs {
		status, why := j.checkUp()
		switch {
		case status > c.status:
			c.status, c.named = status, []string{why}
		case status == c.status && status != nagiosOK:
			c.named = append(c.named, why)
		}
		c.count(j, status)
	}
	return c
}

func (c *checkup) count(j *jobState, status int) {
	if status == nagiosCritical {
		c.attention++
	}
	if j.running() {
		c.running++
	}
	if j.pause != nil {
		c.paused++
	}
	for _, s := range j.slots {
		if since := j.now - s.ended; s.state == "done" && s.ended > 0 && (c.done < 0 || since < c.done) {
			c.done = max(since, 0)
		}
	}
}

// checkUp is what a job comes to, and why.
func (j *jobState) checkUp() (status int, why string) {
	if bad := j.attention(); len(bad) > 0 {
		return nagiosCritical, j.job + " " + bad[0].state + " " + j.label(bad[0].name)
	}
	if j.pause != nil {
		return nagiosWarning, j.job + " paused since " + j.time(j.pause.Since).Format("2006-01-02")
	}
	for _, s := range j.slots {
		if s.state == "retrying" {
			return nagiosWarning, j.job + " retrying " + j.label(s.name)
		}
	}
	return nagiosOK, ""
}

// running says whether the lease is held.
func (j *jobState) running() bool { return j.lock != "" }

// briefly is the one line.
func (a *statusAsk) briefly(jobs []*jobState) string {
	c := checkUp(jobs)
	said := count(c.jobs, "job")
	switch {
	case c.status == nagiosUnknown:
		return nagiosLine(c.status, noJobs(a.namespace)) + "\n"
	case c.status != nagiosOK:
		said = fmt.Sprintf("%d of %s: %s", len(c.named), said, strings.Join(c.named[:min(len(c.named), longestNaming)], ", "))
	case c.done >= 0:
		said += ", newest done " + ago(c.done) + " ago"
	}
	if more := len(c.named) - longestNaming; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s | jobs=%d attention=%d;0 running=%d paused=%d\n", nagiosLine(c.status, said), c.jobs, c.attention,
		c.running, c.paused)
}

// nagiosLine is the line without its numbers, which a | would begin.
func nagiosLine(status int, said string) string {
	return "ONCEONLY " + nagiosWords[status] + " - " + strings.ReplaceAll(oneLine(said), "|", "_")
}

func noJobs(namespace string) string { return "no jobs yet in namespace " + namespace }

// verdict is the exit of --exit-code, where the jobs could be read.
func (a *statusAsk) verdict(jobs []*jobState) error {
	if c := checkUp(jobs); a.exitCode && c.status != nagiosOK {
		return &exit{status: c.status}
	}
	return nil
}

// forNagios makes of the command's exits what --exit-code promises: 3 for all that keeps it from telling, but for what is
// wrong with the command line or with standard output. With --brief it is told on standard output, in the one line.
func forNagios(c *cli.Command, stdout io.Writer) *cli.Command {
	action := c.Action
	c.Action = func(ctx *cli.Context) error {
		err := action(ctx)
		var e *exit
		if !errors.As(err, &e) || e.msg == "" || !given(c, "exit-code") || e.status == exitUsage || e.status == exitUnrecorded {
			return err
		}
		unknown := &exit{status: nagiosUnknown, msg: e.msg, hint: e.hint}
		if given(c, "brief") {
			if no := show(stdout, "status", nagiosLine(nagiosUnknown, e.msg)+"\n"); no != nil {
				return no
			}
			unknown.msg = ""
		}
		return unknown
	}
	return c
}

// given says whether an option that takes no value stands on the command line.
func given(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		if w, ok := f.(*word); ok && w.name == name && w.set {
			var on bool
			return setBool(&on, w.value) == nil && on
		}
	}
	return false
}
