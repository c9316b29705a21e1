package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The second view: the slots of one job, and what to do about those that need attention.

// oneJob is the second view: a job's slots, newest first.
func (s screen) oneJob(j *jobState, n int) string {
	if n == 0 || n > len(j.slots) {
		n = len(j.slots)
	}
	bad, shown := j.attention(), min(len(j.slots), widestStrip)
	if len(bad) > 0 { // none of them is out of sight
		shown = max(shown, 1+slices.Index(j.slots, bad[len(bad)-1]))
	}
	var b strings.Builder
	b.WriteString(wrap(j.head(), 3, 2) + s.strip(j, shown) + "    " + count(shown, "slot") + ", " +
		needing(len(bad)) + "\n")
	if j.pause != nil {
		b.WriteString(wrap(strings.Fields(j.pauseText()), 1, 2))
	}
	b.WriteString("\n" + s.slotTable(j, n))
	if len(bad) > 0 {
		b.WriteString("\n")
	}
	for _, past := range bad {
		b.WriteString(j.advice(past))
	}
	return b.String()
}

// head is the job's line as the ledger keeps it.
func (j *jobState) head() []string {
	h := []string{j.job}
	if schedule := j.meta["schedule"]; schedule != "" {
		h = append(h, schedule)
	} else if every := j.meta["every"]; every != "" {
		h = append(h, "every "+every)
	}
	if zone := j.meta["zone"]; zone != "" {
		h = append(h, zone)
	}
	if attempts := j.meta["attempts"]; attempts != "" {
		h = append(h, "attempts "+attempts)
	}
	if due := j.nextDue(); due > 0 {
		h = append(h, "next due "+j.time(due).Format("2006-01-02 15:04"))
	}
	return h
}

// nextDue is when the next slot begins, 0 if that is not known.
func (j *jobState) nextDue() int64 {
	if !j.scheduled() {
		return 0
	}
	t, err := j.line.latest(j.now / 1000)
	if err == nil {
		t, err = j.line.following(t)
	}
	if err != nil {
		return 0
	}
	return t.at * 1000
}

func (j *jobState) time(ms int64) time.Time { return time.UnixMilli(ms).In(j.zone) }

// clock is a time of day; with its date if that is not the slot's.
func (j *jobState) clock(ms int64, date string) string {
	if t := j.time(ms); t.Format(time.DateOnly) != date {
		return t.Format("01-02 15:04:05")
	}
	return j.time(ms).Format(time.TimeOnly)
}

func (j *jobState) pauseText() string {
	p := "paused since " + j.time(j.pause.Since).Format("2006-01-02 15:04")
	if j.pause.Until > 0 {
		p += " until " + j.time(j.pause.Until).Format("2006-01-02 15:04")
	}
	if j.pause.By != "" {
		p += " by " + j.pause.By
	}
	if j.pause.Reason != "" {
		p += ": " + oneLine(j.pause.Reason)
	}
	return p
}

func (s screen) slotTable(j *jobState, n int) string {
	rows := [][]string{{"SLOT", "STATE", "ATT", "HOST", "STARTED", "TOOK", "EXIT", "NOTE"}}
	for _, past := range j.slots[:n] {
		row := []string{j.label(past.name), s.state(past.state), "-", "-", "-", "-", "-", j.note(past)}
		if past.ran() {
			row[2], row[3], row[4] = past.att(), past.host(), j.clock(past.began, dateOf(past.name))
			row[5], row[6] = took(past.took()), exitOf(&past.entry.entry)
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for _, l := range layout("llrllrrl", rows) {
		if s.terminal {
			l = display.TruncateString(l, s.columns, "")
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

// att is the number of the attempt; one that was never started has none.
func (s *slotState) att() string {
	if s.attempt == 0 {
		return "-"
	}
	return strconv.Itoa(s.attempt)
}

// exitOf is how an attempt ended, in one word.
func exitOf(e *entry) string {
	switch {
	case e.State == "running":
		return "-"
	case e.Reason == "timeout":
		return "TIME"
	case e.Signal != "":
		return e.Signal
	case e.Exit != nil:
		return strconv.Itoa(*e.Exit)
	}
	return "-"
}

// note is what else is worth knowing about a slot.
func (j *jobState) note(s *slotState) string {
	var n []string
	add := func(when bool, what string) {
		if when {
			n = append(n, what)
		}
	}
	e := s.entry
	if e == nil {
		return ""
	}
	if e.Resolved != nil {
		who, _, _ := strings.Cut(e.Resolved.By, "@")
		add(e.Resolved.As == "reopened", "reopened by "+who)
		add(e.Resolved.As != "reopened", "resolved by "+who)
	}
	add(e.Into != "", "with "+j.label(e.Into))
	add(e.Behind != "", j.behind(e.Behind, s.name)+" was running")
	add(s.state == "failed" && e.Reason != "" && e.Reason != "timeout" && e.Reason != "reopened", strings.ReplaceAll(e.Reason, "_", " "))
	add(e.Rerun != "", "rerun")
	add(e.Rerun == "" && s.attempt > 1 && e.Resolved == nil, "retried")
	if due := j.due(s); due > 0 && s.attempt == 1 && s.began-due > time.Minute.Milliseconds() {
		n = append(n, ago(s.began-due)+" late")
	}
	add(e.ByHand, "by hand")
	add(e.Stale > 0, fmt.Sprintf("stale +%d", e.Stale))
	return strings.Join(n, ", ")
}

// behind names a slot by its time alone if it is of the same day.
func (j *jobState) behind(name, than string) string {
	name = j.label(name)
	if day, minute, ok := strings.Cut(name, "T"); ok && strings.HasPrefix(than, day) {
		return minute
	}
	return name
}

// advice is what to do about a slot that needs attention, with the command to type.
func (j *jobState) advice(s *slotState) string {
	label := j.label(s.name)
	said := s.state + " " + label + ": "
	if s.state == "missed" {
		return said + j.byHand(s) + "\n"
	}
	if s.state == "late" {
		said += "due at " + j.clock(s.begins, dateOf(s.name)) + ", nobody has begun. Which hosts have the line:"
		return wrap(strings.Fields(said), 1, 2) + "  onceonly status " + j.typed + " --hosts\n"
	}
	if s.entry == nil {
		return said + "onceonly status " + j.typed + " --date " + label + "\n"
	}
	if s.state == "uncertain" {
		said += j.silence(s)
	} else {
		said += fmt.Sprintf("%s on %s at %s, %s.", endOf(&s.entry.entry), holderOf(&s.entry.entry),
			j.clock(cmp.Or(s.ended, s.began), dateOf(s.name)), j.leftText(s))
	}
	return wrap(strings.Fields(said), 1, 2) + "  " + j.settle(s) + "\n"
}

// silence says what is known of an attempt that never reported.
func (j *jobState) silence(s *slotState) string {
	date := dateOf(s.name)
	said := holderOf(&s.entry.entry) + " began at " + j.clock(s.began, date)
	if heard := j.heard(s); heard > 0 {
		said += ", last heard of at " + j.clock(heard, date)
	}
	said += "; it may have done all, part or nothing; " + j.leftText(s)
	if j.left(s) > 0 && j.unheardOf(s) {
		said += ", nobody has asked since"
	}
	return said + "."
}

// unheardOf says whether it is known that no host has asked since the slot's holder was last heard of: the roll call has
// the last question of every host, the holder's among them.
func (j *jobState) unheardOf(s *slotState) bool {
	heard := j.heard(s)
	return heard > 0 && len(j.hosts) > 0 && !slices.ContainsFunc(j.hosts, func(h roll) bool { return h.Asked > heard })
}

// heard is when the slot's holder last renewed the lease, 0 if that is not known: it is kept of the newest run only.
func (j *jobState) heard(s *slotState) int64 {
	if j.meta["current"] != s.name {
		return 0
	}
	return number(j.meta["heard"])
}

func (j *jobState) leftText(s *slotState) string {
	switch n := j.left(s); {
	case n < 0:
		return "attempts left unknown"
	case n == 0:
		return "no attempt left"
	default:
		return count(n, "attempt") + " left"
	}
}

// settle is what to type about a slot that waits for a person.
func (j *jobState) settle(s *slotState) string {
	if s.entry != nil && s.entry.Reopened {
		return j.byHand(s)
	}
	return toSettle(j.typed, j.label(s.name), "--done (or --reopen)")
}

func (j *jobState) byHand(s *slotState) string { return j.runByHand(j.label(s.name)) }

// runByHand is what runs a slot by hand.
func (j *jobState) runByHand(label string) string {
	line := terms{Every: j.meta["every"], Schedule: j.meta["schedule"]}
	if j.abroad || len(label) > len(time.DateOnly) {
		line.Zone = j.meta["zone"]
	}
	return byHand(j.typed, line, label)
}

// dateOf is the business date of a slot, which its name tells: a week's is its Monday.
func dateOf(name string) string {
	switch {
	case shaped(name, "0000-W00"):
		year, _ := strconv.Atoi(name[:4])
		week, _ := strconv.Atoi(name[6:])
		monday := weekly.last(onDate(year, time.January, 4), 0) + wall(week-1)*aWeek
		return monday.utc().Format(time.DateOnly)
	case shaped(name, "0000-00"):
		return name + "-01"
	}
	return name[:min(len(name), len(time.DateOnly))]
}
