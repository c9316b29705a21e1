package main

import (
	"fmt"
	"time"
)

// What status is asked for: which view, of what. What a view would not heed is refused, not ignored.

// A statusAsk is what the user wants to see.
type statusAsk struct {
	namespace, job, date, output    string
	n                               int
	late                            time.Duration // 0: lateAfter
	json, hosts, problems           bool
	exitCode, brief, metrics, older bool
}

func (s *settings) statusWords(args []string) (*statusAsk, error) {
	a := &statusAsk{namespace: s.namespace, date: s.date, output: s.output, n: s.n, late: s.late, json: s.json,
		hosts: s.hosts, problems: s.problems, exitCode: s.exitCode, brief: s.brief, metrics: s.metrics,
		older: s.from["n"] != ""}
	if len(args) > 1 {
		return nil, usage(fmt.Sprintf("status: %q left over", args[1]), "")
	}
	if len(args) == 1 {
		a.job = args[0]
		if err := wrong("", place{"status", a.job}, checkName(a.job)); err != nil {
			return nil, err
		}
	}
	if err := a.needs(); err != nil {
		return nil, err
	}
	return a, orNil(a.apart())
}

// needs refuses an option that means nothing without another word.
func (a *statusAsk) needs() error {
	switch {
	case a.date != "" && a.job == "":
		return usage("status: --date needs a job", "onceonly status JOB --date "+a.date)
	case a.hosts && a.job == "" && !a.json:
		return usage("status: --hosts needs a job", "onceonly status JOB --hosts")
	case a.older && a.job == "":
		return usage("status: -n needs a job", fmt.Sprintf("onceonly status JOB -n %d", a.n))
	case a.output != "" && !a.metrics:
		return usage("status: --output needs --metrics", "")
	}
	return nil
}

// apart refuses two words of which one would be ignored.
func (a *statusAsk) apart() *exit {
	given := map[string]bool{"JOB": a.job != "", "-n": a.older, "--date": a.date != "", "--hosts": a.hosts && !a.json,
		"--problems": a.problems, "--late": a.late > 0, "--json": a.json, "--exit-code": a.exitCode, "--brief": a.brief,
		"--metrics": a.metrics}
	for _, p := range [][2]string{{"JOB", "--problems"}, {"JOB", "--metrics"}, {"--hosts", "--date"}, {"--hosts", "-n"},
		{"--hosts", "--late"}, {"--hosts", "--exit-code"}, {"--date", "-n"}, {"--date", "--exit-code"},
		{"--brief", "--json"}, {"--brief", "--hosts"}, {"--brief", "--date"}, {"--brief", "-n"}, {"--brief", "--problems"},
		{"--metrics", "--json"}, {"--metrics", "--problems"}, {"--metrics", "--exit-code"}, {"--metrics", "--brief"}} {
		if given[p[0]] && given[p[1]] {
			return usage(fmt.Sprintf("status: %s and %s exclude each other", p[0], p[1]), "")
		}
	}
	return nil
}

// reach is how much of each job the view needs: slots in brief, slots with their entries (-1: all), '1' for the hosts.
func (a *statusAsk) reach() (briefs, entries int, hosts string) {
	briefs, entries = longestStrip, 1
	if a.job != "" {
		entries = max(a.n, longestStrip)
	}
	if a.job != "" && a.n == 0 {
		entries = -1
	}
	briefs = max(briefs, entries)
	if a.json || a.metrics || a.date != "" || entries < 0 {
		briefs = -1
	}
	if a.hosts || a.metrics || a.job != "" { // of one job it is said whether anybody has asked since
		hosts = "1"
	}
	return briefs, entries, hosts
}

// last is '1' where the attempt that ended last is wanted, whichever slot's it was.
func (a *statusAsk) last() string {
	if a.metrics {
		return "1"
	}
	return ""
}
