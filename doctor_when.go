package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// When cron starts a line, and whether its slots agree with that.

// cronZone is what cron fires by.
func (p *patient) cronZone() *time.Location {
	if zone, err := systemZone(); err == nil && !p.elsewhere() {
		return zone
	}
	if p.call != nil {
		return p.call.line.zone
	}
	return time.UTC
}

// fires are the next instants at which cron starts the line, those of a day at most, and at least one.
func (p *patient) fires() (all []time.Time) {
	l := line{schedule: p.fire, zone: p.cronZone()}
	s, err := l.at(p.now)
	for err == nil && len(all) < 24*60 {
		if s, err = l.next(s); err != nil || (len(all) > 0 && s.begins.Sub(p.now) > 25*time.Hour) {
			break
		}
		all = append(all, s.begins)
	}
	return all
}

func (p *patient) next() string {
	if p.fire == nil {
		return "at each start of the machine"
	}
	all := p.fires()
	if len(all) == 0 {
		return "never due"
	}
	t := all[0]
	if p.call != nil {
		t = t.In(p.call.line.zone)
	}
	return "next " + t.Format("2006-01-02 15:04")
}

// checkOften finds a line that comes more often than daily and does not say so: run would find it at its second time.
func (p *patient) checkOften() {
	c := p.call
	if p.fire == nil || c.from["every"] != "" || c.from["schedule"] != "" || c.date != "" || c.attempts > 1 {
		return
	}
	if len(p.fire.times) > 1 {
		p.say(failure, "only the first of a day would run", "add --schedule '"+p.at.fields+"'")
	}
}

// checkSchedule compares --schedule with the fields.
func (p *patient) checkSchedule() {
	s := p.call.line.schedule
	if s == nil || p.fire == nil || p.call.date != "" || s.same(p.fire) {
		return
	}
	level, text := warning, "--schedule says '"+s.text+"'"
	for _, t := range p.fires() {
		slot, err := p.call.line.at(t)
		if err == nil && slot.date != t.In(p.call.line.zone).Format(time.DateOnly) {
			level, text = failure, fmt.Sprintf("%s: at %s that is still %s", text, t.Format("15:04"), p.call.shown(slot.name))
			break
		}
	}
	p.say(level, text, "--schedule '"+p.at.fields+"'")
}

// same says whether two schedules are due at the same times, however they are written.
func (s *schedule) same(t *schedule) bool {
	return slices.Equal(s.times, t.times) && s.days == t.days && s.months == t.months && s.weekdays == t.weekdays &&
		s.eitherDay == t.eitherDay && s.wild == t.wild
}

const edge = 2 * time.Minute

// checkEdge finds a line that cron starts just before its next slot begins: a little later, and it is that one's.
func (p *patient) checkEdge() {
	c := p.call
	if c.line.schedule != nil || c.date != "" || p.fire == nil || c.line.length() <= edge {
		return
	}
	for _, t := range p.fires() {
		slot, err := c.line.at(t)
		if err != nil {
			return
		}
		next, err := c.line.next(slot)
		if left := next.begins.Sub(t); err == nil && left <= edge && !slot.begins.Equal(t) {
			p.say(warning, fmt.Sprintf("%s before the next slot begins: started late it would be %s", brief(left), c.shown(next.name)),
				"add --schedule '"+p.at.fields+"'")
			return
		}
	}
}

// checkZones finds a zone in the crontab by which Debian's cron does not fire.
func (p *patient) checkZones() {
	for _, name := range []string{"TZ", "CRON_TZ"} {
		value, ok := p.at.env[name]
		if !ok {
			continue
		}
		if p.elsewhere() {
			p.say(warning, fmt.Sprintf("%s=%s: Debian's cron hands it to the command and fires by the host's zone", name, value), "")
			continue
		}
		zone, err := parseZone(strings.TrimPrefix(value, ":"))
		if cron, broken := systemZone(); err == nil && broken == nil && !sameZone(zone, cron, p.now) {
			p.say(warning, fmt.Sprintf("%s=%s: Debian's cron hands it to the command and fires by %s", name, value, cron),
				"the hours in "+cron.String()+", and --tz "+value)
		}
	}
}
