package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// What became of a job's slots: what the line says is due, against what the ledger has. The rest of status is words.

// readLine makes the line of what is kept with the job. Where this host does not know the zone, or nothing but --date
// has run, nothing is known of what is due.
func (j *jobState) readLine() {
	j.zone = time.Local
	if raw := j.meta["paused"]; raw != "" {
		if p, err := decode[pause](raw); err == nil {
			j.paused = p
		}
		if p := j.paused; p != nil && (p.Until == 0 || p.Until > j.now) {
			j.pause = p
		}
	}
	zone, err := parseZone(j.meta["zone"])
	if j.meta["zone"] == "" || err != nil {
		return
	}
	j.zone = zone
	l := &line{zone: zone}
	if l.dayStart, err = parseDayStart(cmp.Or(j.meta["day_start"], "00:00")); err != nil {
		return
	}
	if j.meta["schedule"] != "" {
		l.schedule, err = parseSchedule(j.meta["schedule"])
	} else {
		l.every, err = parsePeriod(j.meta["every"])
	}
	if err == nil {
		j.line = l
	}
}

// scheduled says whether late and missed slots can be known.
func (j *jobState) scheduled() bool { return j.line != nil && j.line.schedule != nil }

// fill adds the slots that are due by the line and have no entry, looking back over at most so many; the JSON looks
// further. A gap counts only above an entry of the same line, and not before the job's first slot: a line that was
// changed yesterday says nothing of the day before.
func (j *jobState) fill(most int) {
	if !j.scheduled() || len(j.slots) == 0 {
		return
	}
	if most < 0 {
		most = longestMissed
	}
	t, err := j.line.latest(j.now / 1000)
	i := 0
	for i < len(j.slots) && j.slots[i].begins > t.at*1000 { // a host whose clock is ahead of Redis's
		i++
	}
	all, gap, newest := j.slots[:i:i], []*slotState(nil), i == 0
	for walked := 0; err == nil && i < len(j.slots) && walked < most && t.at*1000 >= j.first; walked++ {
		if s := j.slots[i]; s.name == j.nameOf(t) {
			all, gap = append(append(all, gap...), s), nil
			i++
		} else {
			gap = append(gap, j.unasked(t, newest && walked == 0))
		}
		t, err = j.line.preceding(t)
	}
	if i < len(j.slots) && j.native(j.slots[i]) {
		all = append(all, gap...)
	}
	j.slots = append(all, j.slots[i:]...)
}

// nameOf is the name of the line's slot that begins there.
func (j *jobState) nameOf(t tick) string {
	first, _ := j.line.days(t.wall)
	return j.line.name(t, first)
}

// native says whether an entry is a slot of the line as it is now.
func (j *jobState) native(s *slotState) bool {
	t, err := j.line.latest(s.begins / 1000)
	for err == nil && t.at*1000 == s.begins && j.nameOf(t) != s.name { // several may begin when a skipped hour is over
		t, err = j.line.preceding(t)
	}
	return err == nil && j.nameOf(t) == s.name
}

// unasked is a slot that is due and has no entry.
func (j *jobState) unasked(t tick, newest bool) *slotState {
	s := &slotState{name: j.nameOf(t), begins: t.at * 1000, state: "missed"}
	switch {
	case j.paused.covers(s.begins):
		s.state = "paused"
	case newest && j.now-s.begins >= j.late.Milliseconds():
		s.state = "late"
	case newest:
		s.state = "pending"
	}
	return s
}

// attention lists the slots that wait for a person, newest first. It is the one rule: for slots of a day or longer each
// that is bad within 30 days, and the newest; for shorter ones only the newest. One that is pending is not due yet for
// this purpose: else a job of every five minutes whose crond is dead would never be late.
func (j *jobState) attention() []*slotState {
	var bad []*slotState
	earliest, newest := j.now-attentionDays*24*time.Hour.Milliseconds(), true
	for _, s := range j.slots {
		if s.bad() && (newest || (j.long(s) && s.begins >= earliest)) {
			bad = append(bad, s)
		}
		newest = newest && s.state == "pending"
	}
	return bad
}

// bad says whether somebody has to do something about the slot.
func (s *slotState) bad() bool {
	switch s.state {
	case "failed", "uncertain", "missed", "late":
		return !s.resolved // nor one that was reopened: a person has it in hand
	}
	return false
}

// long says whether the slot lasts a day or longer. The line may have been another one when it ran.
func (j *jobState) long(s *slotState) bool {
	return !strings.Contains(s.name, "T") || (j.line != nil && !j.line.namedByDate() && j.line.long())
}

// took is how long the newest attempt ran; negative if it did not end.
func (s *slotState) took() time.Duration {
	if s.ended == 0 || (s.resolved && s.attempt == 0) {
		return -1
	}
	return sinceMillis(s.began, s.ended)
}

// left is how many attempts the slot has left; negative if that is not known.
func (j *jobState) left(s *slotState) int {
	allowed, err := strconv.Atoi(j.meta["attempts"])
	if err != nil {
		return -1
	}
	if s.entry != nil {
		allowed += s.entry.Extra
	}
	if s.entry != nil && s.entry.Reopened {
		allowed = max(allowed, s.attempt+1)
	}
	return max(0, allowed-s.attempt)
}

// due is when the slot was due, 0 if that is not known.
func (j *jobState) due(s *slotState) int64 {
	if s == nil || !j.scheduled() || !j.native(s) {
		return 0
	}
	return s.begins
}

// parse finds the slot of a date.
func (j *jobState) parse(date string) (slot, error) {
	if j.line == nil {
		return slot{}, wrong("date", place{"--date", date},
			&usageError{msg: "not in the ledger, which has no line of this job"})
	}
	s, err := j.line.parse(date, time.UnixMilli(j.now))
	return s, wrong("date", place{"--date", date}, err)
}

// choose takes the slot of that name, if the ledger has it.
func (j *jobState) choose(name string) bool {
	for _, s := range j.slots {
		if s.name == name && s.entry != nil {
			j.chosen = s
		}
	}
	return j.chosen != nil
}

// chooseNew takes a slot that was not known by its name alone; it may have no entry.
func (j *jobState) chooseNew(s slot) {
	for _, known := range j.slots {
		if known.name == s.name {
			j.chosen = known
			return
		}
	}
	j.chosen = &slotState{name: s.name, begins: millis(s.begins)}
}

// heldBy is the run ID that holds the lease, or that was told to stop and may still be running.
func (j *jobState) heldBy() string {
	lock := strings.TrimPrefix(j.lock, "stop:")
	return lock[:min(len(lock), 32)]
}

// longest is how long the job takes at most: of the newest slots those that ended, and the longest of them.
func (j *jobState) longest() (n int, d time.Duration) {
	for _, s := range j.slots[:min(len(j.slots), 30)] {
		if s.ended > 0 && s.attempt > 0 {
			n, d = n+1, max(d, s.took())
		}
	}
	return n, d
}
