package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// What the ledger keeps of a job, unless --keep says otherwise.
const (
	keepLong  = 400  // slots of a day or longer
	keepShort = 1000 // shorter ones
)

// A call is one use of run or explain: what was asked, by whom, about which slot.
type call struct {
	*settings
	command  *command
	line     line
	slot     slot
	zoneFrom string // where the zone comes from, for messages
	asker    asker
	wall     func() time.Time // the host's clock
	now      time.Time        // when the call began
	minute   string           // see question.Minute
	arrears
	server *server
	ledger *ledger
	spool  *spool
}

// newCall reads what run and explain are called with: command, slot, who asks, and where. Everything that can be wrong
// with the words is found here, before anything is sent. Wall is the host's clock.
func newCall(words []string, dashed bool, s *settings, wall func() time.Time) (*call, error) {
	c, err := readCall(words, dashed, s, wall, os.LookupEnv)
	if err == nil {
		err = c.reach(os.LookupEnv)
	}
	if err != nil {
		return nil, err
	}
	c.minute = c.guarded()
	return c, nil
}

// readCall reads what does not depend on where Redis is.
func readCall(words []string, dashed bool, s *settings, wall func() time.Time,
	environ func(string) (string, bool)) (*call, error) {
	command, err := parseCommand(words, dashed, s.job, isFile)
	if err != nil {
		return nil, err
	}
	c := &call{settings: s, command: command, asker: whoAsks(s.host), wall: wall}
	if err := s.together(); err != nil {
		return nil, err
	}
	if err := c.findSlot(environ); err != nil {
		return nil, err
	}
	return c, c.complete()
}

// reach finds the ledger, and where what cannot be told to it is kept. Nothing is sent yet.
func (c *call) reach(environ func(string) (string, bool)) (err error) {
	if c.server, err = c.redisURL(); err != nil {
		return err
	}
	c.ledger = &ledger{c.server.connect(), c.namespace}
	c.spool = &spool{stateDir(c.stateDir, environ), home{c.server.address, c.server.options.DB, c.namespace}}
	return nil
}

// dashed says whether the n words of the command stood behind "--".
func dashed(args []string, n int) bool {
	return len(args) > n && args[len(args)-n-1] == "--"
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// findSlot finds the line's zone, and its slot: now, or at --date.
func (c *call) findSlot(environ func(string) (string, bool)) error {
	c.now = c.wall()
	zone, from, err := hostZone(c.tz, c.from["tz"], environ)
	if err != nil {
		return err
	}
	c.line, c.zoneFrom = line{zone: zone}, from
	if c.schedule != "" {
		c.line.schedule, err = parseSchedule(c.schedule)
	} else {
		c.line.every, err = parsePeriod(c.every)
	}
	if err != nil {
		return err
	}
	if c.line.dayStart, err = parseDayStart(c.dayStart); err != nil {
		return err
	}
	if c.from["date"] != "" {
		c.slot, err = c.line.parse(c.date, c.now)
		return wrong("date", place{"--date", c.date}, err)
	}
	c.slot, err = c.line.at(c.now)
	return err
}

// complete fills in what was not said and depends on how long a slot is. With --keep there must be room for what is caught
// up with.
func (c *call) complete() error {
	length := c.line.length()
	if c.settings.lease == 0 {
		c.settings.lease = max(min(5*time.Minute, length/2), 15*time.Second)
	}
	if c.from["redis-wait"] == "" {
		c.redisWait = max(min(length/10, 5*time.Minute), 10*time.Second)
	}
	overlap, keep := "skip", keepShort
	if c.line.long() {
		overlap, keep = "wait", keepLong
	}
	c.overlap, c.keep = cmp.Or(c.overlap, overlap), cmp.Or(c.keep, keep)
	if c.catchUp != "none" && c.catchUpMax >= c.keep {
		return usage(fmt.Sprintf("--catch-up-max %d: --keep %d keeps no more than that", c.catchUpMax, c.keep),
			fmt.Sprintf("--keep %d", c.catchUpMax+1))
	}
	return nil
}

// guarded is the wall clock of a line that does not say how often it runs, else "": when the same host asks again at
// another minute for the same day, the line is not daily.
func (c *call) guarded() string {
	if c.from["every"] != "" || c.from["schedule"] != "" || c.date != "" || c.attempts > 1 || isTerminal(0) ||
		isTerminal(2) {
		return ""
	}
	return c.now.In(c.line.zone).Format("15:04")
}

// hostZone is the zone that decides dates: --tz, else what cron and the host say. A name that is unknown is an error,
// never UTC: a business date that is off by one would be worse.
func hostZone(tz, from string, environ func(string) (string, bool)) (*time.Location, string, error) {
	if from != "" {
		zone, err := parseZone(tz)
		return zone, from, err
	}
	for _, name := range []string{"CRON_TZ", "TZ"} {
		value, ok := environ(name)
		value = strings.TrimPrefix(strings.TrimPrefix(value, ":"), zoneinfo)
		if !ok || value == localtime {
			continue
		}
		zone, err := parseZone(value)
		return zone, name, wrong("tz", place{name, value}, err)
	}
	zone, err := systemZone()
	return zone, systemZoneFrom(), err
}

// systemZoneFrom is where systemZone has its zone from, for messages.
func systemZoneFrom() string {
	if _, err := os.Lstat(localtime); os.IsNotExist(err) {
		return "the default, as there is no " + localtime
	}
	return localtime
}

const (
	localtime = "/etc/localtime"
	zoneinfo  = "/usr/share/zoneinfo/"
)

// systemZone is the zone of /etc/localtime, by name where it is a link or /etc/timezone names it; without the file the
// host is in UTC, as for every other program.
func systemZone() (*time.Location, error) {
	if target, err := os.Readlink(localtime); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
			if zone, err := parseZone(name); err == nil {
				return zone, nil
			}
		}
	}
	data, err := os.ReadFile(localtime)
	if os.IsNotExist(err) {
		return time.UTC, nil
	}
	if err != nil {
		return nil, unreadable(localtime, err)
	}
	zone, err := time.LoadLocationFromTZData("Local", data)
	if err != nil {
		return nil, unreadable(localtime, err)
	}
	text, _ := os.ReadFile("/etc/timezone")
	return byItsName(zone, string(text)), nil
}

// byItsName is the zone by its name, if this is its name: /etc/timezone may have been left as it was when the zone was changed.
func byItsName(zone *time.Location, name string) *time.Location {
	if known, err := parseZone(strings.TrimSpace(name)); err == nil && sameZone(known, zone, time.Now()) {
		return known
	}
	return zone
}

// whoAsks is this process, for people and for the roll call. Without --host two machines of one name are told apart by
// their machine ID.
func whoAsks(host string) asker {
	a := asker{Host: host, PID: os.Getpid(), User: userName(), ByHand: isTerminal(0) || isTerminal(2), Version: version}
	if host == "" {
		a.Host, _ = os.Hostname()
		if id, err := os.ReadFile("/etc/machine-id"); err == nil {
			sum := sha256.Sum256(id)
			a.Machine = hex.EncodeToString(sum[:4])
		}
	}
	return a
}

// userName is the user's name, or the number of one that has none.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// question is what begin is asked.
func (c *call) question() question {
	return question{attempt: attempt{Try: 1}, asker: c.asker, terms: c.terms(), Slot: c.slot.name,
		Begins: millis(c.slot.begins), Overlap: c.overlap, Rerun: c.reason, Minute: c.minute, Dated: c.date != "",
		Previous: c.previous(), CatchUp: c.catchUp, arrears: c.arrears}
}

// previous is the beginning of the slot before this one, where a line says when its slots are due, in ms; else 0.
func (c *call) previous() int64 {
	if c.line.schedule == nil || c.date != "" {
		return 0
	}
	before, err := c.line.preceding(c.slot.tick)
	if err != nil {
		return 0
	}
	return before.at * 1000
}

// terms are the line, as the ledger keeps it.
func (c *call) terms() terms {
	year := c.now.UTC().Year() // of UTC, so that all hosts mean the same instants
	offsets := map[string]string{}
	for y := year - 1; y <= year+1; y++ {
		offsets[strconv.Itoa(y)] = c.line.offsets(y)
	}
	t := terms{Every: c.every, Schedule: c.schedule, DayStart: c.dayStart, Attempts: c.attempts,
		Lease: c.settings.lease.Milliseconds(), Keep: c.keep, Zone: c.line.zone.String(), ZoneYear: strconv.Itoa(year), Offsets: offsets,
		From: millis(c.slot.from), To: millis(c.slot.to), Shape: c.line.shape(c.now),
		ZoneFrom: "default", Args: c.command.argsHash(), Line: c.command.lineHash()}
	switch {
	case c.date != "":
		t.ZoneFrom = "date"
	case c.from["tz"] != "":
		t.ZoneFrom = "explicit"
	}
	return t
}
