package main

import (
	"fmt"
	"slices"
	"time"
)

// Which slot: computed on the wall clock, as Debian's cron fires, and then mapped to instants. There are two kinds of
// line, which differ only where a zone's clock is changed:
//
//   - A line by date has days, weeks, months, or a schedule of fixed times. Each wall time is one slot. It begins when
//     the clock first shows it, and when the clock skips it, at the jump: cron makes up for it then. When the clock is
//     set back nothing begins a second time: until it has caught up, the last slot goes on.
//   - A line by clock has a period shorter than a day, or "*" first in its minute or hour. Each showing of a wall time
//     is a slot of its own, told apart by its UTC offset. What the clock skips is no slot.

// madeUp is how far the clock may jump forward for cron to make up for what it skipped: less than this. A longer jump
// (Pacific/Apia left out 30 December 2011) is for cron a clock that was set, and what it skipped never was.
const madeUp = 3 * 60 * 60

// A line says when a job's slots begin: every period, or by a crontab's five fields, in a zone.
type line struct {
	every    period    // unless there is a schedule
	schedule *schedule // nil: every
	zone     *time.Location
	dayStart time.Duration // since midnight; moves days, weeks and months only
}

// A slot is the unit that runs once: a job at one business date or tick. Its name alone identifies it within a line.
type slot struct {
	name     string    // as the ledger writes it: 2026-11-29, 2026-W48, 2026-11, 2026-11-29T14:05+09:00, 2026-11-29T13:30
	date     string    // business date, 2026-11-29
	begins   time.Time // the instant from which it is due
	from, to time.Time // the time that it covers: its whole calendar days if it is named by date, else until the next begins
	tick     tick
}

// A tick is where a slot begins: what it says on the wall, and when. Offset is the one in the slot's name.
type tick struct {
	wall   wall
	at     int64 // Unix seconds
	offset int64
}

// at is the slot whose time it is: the latest that has begun.
func (l line) at(now time.Time) (slot, error) {
	t, err := l.latest(now.Unix())
	if err != nil {
		return slot{}, err
	}
	return l.slot(t)
}

// next is the slot that begins after s; two of a line by date may begin at the same instant, the end of a skipped hour.
func (l line) next(s slot) (slot, error) {
	t, err := l.following(s.tick)
	if err != nil {
		return slot{}, err
	}
	return l.slot(t)
}

// shape is what the slots of one line have in common.
func (l line) shape(now time.Time) string { return l.String() + " · " + l.offsets(now.UTC().Year()) }

// between lists the slots strictly between two, oldest first, and of many only the newest. It walks back from the later
// one, so that its cost depends on newest and not on the years between.
func (l line) between(after, before slot, newest int) ([]slot, error) {
	var slots []slot
	for t := before.tick; len(slots) < newest; {
		var err error
		if t, err = l.preceding(t); err != nil {
			return nil, err
		}
		if !after.tick.precedes(t) {
			break
		}
		s, err := l.slot(t)
		if err != nil {
			return nil, err
		}
		slots = append(slots, s)
	}
	slices.Reverse(slots)
	return slots, nil
}

// precedes orders the ticks of a line. Those made up for at one instant keep the order on the wall.
func (t tick) precedes(u tick) bool {
	return t.at < u.at || t.at == u.at && t.wall < u.wall
}

// long reports whether slots last a day or longer.
func (l line) long() bool { return l.length() >= 24*time.Hour }

// length is the shortest time from one slot to the next, changes of the clock left aside.
func (l line) length() time.Duration {
	if l.schedule != nil {
		return l.schedule.length()
	}
	return time.Duration(l.every)
}

// String is "every day", or the schedule as it was given.
func (l line) String() string {
	if l.schedule != nil {
		return l.schedule.text
	}
	return "every " + l.every.String()
}

// offsets are the zone's UTC offsets on 1 January and 1 July of a year. By them zones are compared: hosts may spell one
// zone differently. What they are in one year says nothing of the next, in which a country may keep other time.
func (l line) offsets(year int) string {
	january := time.Date(year, time.January, 1, 12, 0, 0, 0, time.UTC).Unix()
	july := time.Date(year, time.July, 1, 12, 0, 0, 0, time.UTC).Unix()
	return fmt.Sprintf("%d,%d", offsetAt(l.zone, january), offsetAt(l.zone, july))
}

// byClock reports the kind of line; see the head of this file.
func (l line) byClock() bool {
	if l.schedule != nil {
		return l.schedule.wild
	}
	return l.every < daily
}

// namedByDate reports whether a slot is named by its date alone, as it is when there is at most one a day.
func (l line) namedByDate() bool {
	if l.schedule != nil {
		return l.schedule.fixed()
	}
	return l.every >= daily
}

func (l line) last(w wall) (wall, error) {
	if l.schedule != nil {
		return l.schedule.last(w)
	}
	return l.every.last(w, l.dayStart), nil
}

func (l line) first(w wall) (wall, error) {
	if l.schedule != nil {
		return l.schedule.first(w)
	}
	return l.every.first(w, l.dayStart), nil
}

func (l line) latest(at int64) (tick, error) {
	if l.byClock() {
		return l.lastShown(at)
	}
	return l.lastDue(reached(l.zone, at))
}

func (l line) following(t tick) (tick, error) {
	if l.byClock() {
		return l.nextShown(t.at)
	}
	return l.nextDue(t.wall + 1)
}

func (l line) preceding(t tick) (tick, error) {
	if l.byClock() {
		return l.lastShown(t.at - 1)
	}
	return l.lastDue(t.wall - 1)
}

// lastDue is the latest tick at or before w of a line by date.
func (l line) lastDue(w wall) (tick, error) {
	for earliest := w - horizon; w > earliest; w-- {
		var err error
		if w, err = l.last(w); err != nil {
			break
		}
		if l.exists(w) {
			return l.due(w), nil
		}
	}
	return tick{}, l.neverDue()
}

// nextDue is the earliest tick at or after w of a line by date.
func (l line) nextDue(w wall) (tick, error) {
	for latest := w + horizon; w < latest; w++ {
		var err error
		if w, err = l.first(w); err != nil {
			break
		}
		if l.exists(w) {
			return l.due(w), nil
		}
	}
	return tick{}, l.neverDue()
}

func (l line) due(w wall) tick {
	at := due(l.zone, w)
	return tick{wall: w, at: at, offset: offsetAt(l.zone, at)}
}

// exists reports whether w, a beginning of a line by date, is a slot although the clock may skip it. A scheduled time
// is one where cron makes up for it; a day, week or month is one unless the calendar left all of it out.
func (l line) exists(w wall) bool {
	if l.schedule == nil {
		first, end := l.days(w)
		return due(l.zone, first) < due(l.zone, end)
	}
	at := due(l.zone, w)
	offset := offsetAt(l.zone, at)
	return wall(at+offset) == w || offset-offsetAt(l.zone, at-1) < madeUp
}

// lastShown is the latest tick at or before an instant, of a line by clock. It looks through one span after the other,
// for within a span the clock only goes forward.
func (l line) lastShown(at int64) (tick, error) {
	s := spanAt(l.zone, at)
	for latest := s.shows(at); ; latest = s.shows(s.to - 1) {
		w, err := l.last(latest)
		if err != nil || at-s.to > int64(horizon) {
			return tick{}, l.neverDue()
		}
		if begins := s.instant(w); begins >= s.from {
			return tick{w, begins, s.offset}, nil
		}
		earlier := s.before(l.zone)
		if t, ok := l.held(earlier, s); ok {
			return t, nil
		}
		s = earlier
	}
}

// nextShown is the earliest tick after an instant, of a line by clock.
func (l line) nextShown(at int64) (tick, error) {
	s := spanAt(l.zone, at)
	for earliest := s.shows(at + 1); ; earliest = s.shows(s.from) {
		w, err := l.first(earliest)
		if err != nil || s.from-at > int64(horizon) {
			return tick{}, l.neverDue()
		}
		if begins := s.instant(w); begins < s.to {
			return tick{w, begins, s.offset}, nil
		}
		later := s.after(l.zone)
		if t, ok := l.held(s, later); ok {
			return t, nil
		}
		s = later
	}
}

// held is the slot of a period that is going on when the clock comes out of a jump, having begun in what was skipped:
// six hours from midnight, say, where midnight is skipped. It begins at the jump and keeps its label, with the offset
// from before the jump, which no other slot has. A schedule has none: cron does not make up for "*".
func (l line) held(before, after span) (tick, bool) {
	skipped, shown := before.shows(after.from), after.shows(after.from)
	if l.schedule != nil || skipped >= shown {
		return tick{}, false
	}
	w := l.every.last(shown, l.dayStart)
	return tick{w, after.from, before.offset}, skipped <= w && w < shown
}

// neverDue is possible though parseSchedule has found a due day: '* 2 8-14 3 */7' is the hour that New York skips.
func (l line) neverDue() error {
	return refuse("--schedule", l.String(), "never due in "+l.zone.String(), "")
}

// slot names a tick and says what time it covers.
func (l line) slot(t tick) (slot, error) {
	s := slot{tick: t, begins: l.instant(t.at)}
	first, end := l.days(t.wall)
	s.date = first.utc().Format(time.DateOnly)
	s.name = l.name(t, first)
	if l.namedByDate() {
		s.from, s.to = l.instant(due(l.zone, first)), l.instant(due(l.zone, end))
		return s, nil
	}
	following, err := l.following(t)
	s.from, s.to = s.begins, l.instant(following.at)
	return s, err
}

func (l line) instant(at int64) time.Time { return time.Unix(at, 0).In(l.zone) }

// days is the midnight of the slot's first calendar day, which is its business date, and of the day after its last. The
// day on which it begins is the first also with a day start, which is less than a day after midnight.
func (l line) days(w wall) (first, end wall) {
	first = w.midnight()
	switch {
	case l.schedule != nil || l.every < daily:
		return first, first + aDay
	case l.every == monthly:
		return first, monthly.first(first+1, 0)
	}
	return first, first + wall(time.Duration(l.every)/time.Second)
}

func (l line) name(t tick, date wall) string {
	switch {
	case l.byClock():
		return t.wall.utc().Format(minuteLayout) + offsetText(t.offset)
	case !l.namedByDate():
		return t.wall.utc().Format(minuteLayout)
	case l.schedule == nil && l.every == monthly:
		return date.utc().Format(monthLayout)
	case l.schedule == nil && l.every == weekly:
		return weekName(date)
	}
	return date.utc().Format(time.DateOnly)
}

// weekName has the ISO year, which is not always the year of the week's Monday: 2024-12-30 begins 2025-W01.
func weekName(monday wall) string {
	year, week := monday.utc().ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

// offsetText is +09:00; +00:00 for UTC, so that all names of a kind look alike. Before there were standard times
// offsets had seconds, and without them two slots could have one name.
func offsetText(offset int64) string {
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	text := fmt.Sprintf("%c%02d:%02d", sign, offset/3600, offset/60%60)
	if seconds := offset % 60; seconds != 0 {
		text += fmt.Sprintf(":%02d", seconds)
	}
	return text
}
