//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Processes: how onceonly left, and what it left behind.

func (a *ask) who() string { return fmt.Sprintf("%s:%d", a.host, a.pid) }

// judgeProcesses is I8 and I10, and that every onceonly came to an end.
func (s *scene) judgeProcesses(v *verdict) {
	for _, a := range s.history.asks {
		switch {
		case a.ended == never:
			v.violated("I9", "%s %s: onceonly %s does not end", a.job, a.slot, a.who())
		case !a.dead():
			s.judgeStatus(v, a)
		}
	}
	for _, h := range s.hosts {
		for _, name := range h.spooled() {
			text, _ := os.ReadFile(name)
			v.violated("I5", "%s still keeps an end: %s %.300s", h.name, filepath.Base(name), text)
		}
	}
	reported := map[string]bool{}
	for _, o := range s.history.orphans {
		if reported[o.run] || s.excusedOrphan(o) {
			continue
		}
		reported[o.run] = true
		v.violated("I10", "run %.6s: process %d lives on", o.run, o.pid)
	}
}

// excusedOrphan: a grandchild whose onceonly was killed before it had a guard, and what was itself frozen.
func (s *scene) excusedOrphan(o orphan) bool {
	for _, l := range s.history.order {
		if l.run != o.run {
			continue
		}
		d := &dossier{scene: s, line: &line{lease: s.lease(l.job)}}
		w := &work{job: l.job, slot: l.slot, run: l.run, attempt: l.attempt, life: l, last: o.at}
		if d.excuse(w) != "" {
			return true
		}
	}
	return false
}

// judgeStatus is I8.
func (s *scene) judgeStatus(v *verdict, a *ask) {
	lives := s.history.of(a)
	var last *life
	if len(lives) > 0 {
		last = lives[len(lives)-1]
	}
	wrong := ""
	switch a.status {
	case 0, 74:
		if last != nil && (last.exits == never || last.status != 0) {
			wrong = "the command did not succeed"
		}
		if last == nil && a.status == 74 {
			wrong = "there was no command"
		}
	case statusBusy, statusDone, statusFailed, 69:
		if last != nil {
			wrong = "there was a command"
		}
	case statusFailing:
		if last == nil || last.exits == never || last.status != statusFailing {
			wrong = "the command did not fail so"
		}
	case statusJudge:
		wrong = "the judge was not reached"
	case 75:
		if last != nil && a.text == "" {
			wrong = "it did not say why"
		}
	case 77:
		if !slices.Contains(s.nemeses, "N7") || last != nil {
			wrong = "nobody took rights away"
		}
	case 124:
		if last == nil {
			wrong = "there was no command"
		}
	case 137, 143:
		if last == nil {
			wrong = "there was no command"
		}
	default:
		wrong = "never to be left with"
	}
	if wrong != "" {
		v.violated("I8", "%s %s: onceonly %s left with %d, and %s: %q", a.job, a.slot, a.who(), a.status, wrong, a.text)
	}
	if a.ended != never && a.ended.sub(a.began) > 2*time.Minute {
		v.violated("I9", "%s %s: onceonly %s took %v", a.job, a.slot, a.who(), a.ended.sub(a.began))
	}
}
