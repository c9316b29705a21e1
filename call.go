package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// withCall reads what run and explain are called with: command, slot, who asks, and where. Everything that can be wrong
// with the words is found here, before anything is sent.
func withCall(c *cli.Context, args []string, s *settings, v *voice, do func(*call) error) error {
	words := c.Args().Slice()
	command, err := parseCommand(words, dashed(args, len(words)), s.job, isFile)
	if err != nil {
		return err
	}
	call := &call{settings: s, command: command, asker: whoAsks(s.host)}
	v.verbose = v.verbose || s.verbose
	now := time.Now()
	if err := call.findSlot(now); err != nil {
		return err
	}
	if call.server, err = s.redisURL(); err != nil {
		return err
	}
	call.ledger = &ledger{call.server.connect(), s.namespace}
	call.minute = call.guarded(now)
	return do(call)
}

// dashed says whether the n words of the command stood behind "--".
func dashed(args []string, n int) bool {
	return len(args) > n && args[len(args)-n-1] == "--"
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// findSlot finds the line's zone, its slot now or at --date, and the defaults that depend on how long a slot is.
func (c *call) findSlot(now time.Time) error {
	zone, from, err := hostZone(c.tz, c.from["tz"], os.LookupEnv)
	if err != nil {
		return err
	}
	every, err := parsePeriod(c.every)
	if err != nil {
		return err
	}
	c.line, c.zoneFrom = line{every: every, zone: zone}, from
	if c.from["date"] != "" {
		c.slot, err = c.line.parse(c.date, now)
		err = wrong(&option{}, place{"--date", c.date}, err)
	} else {
		c.slot, err = c.line.at(now)
	}
	length := c.line.length()
	if c.settings.lease == 0 {
		c.settings.lease = max(min(5*time.Minute, length/2), 15*time.Second)
	}
	if c.from["redis-wait"] == "" {
		c.redisWait = max(min(length/10, 5*time.Minute), 10*time.Second)
	}
	return err
}

// guarded is the wall clock of a line that does not say how often it runs, else "": when the same host asks again at
// another minute for the same day, the line is not daily.
func (c *call) guarded(now time.Time) string {
	if c.from["every"] != "" || c.from["schedule"] != "" || c.date != "" || c.attempts > 1 || isTerminal(0) ||
		isTerminal(2) {
		return ""
	}
	return now.In(c.line.zone).Format("15:04")
}

const zoneHint = "names such as Asia/Seoul; on a small image install tzdata"

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
		return zone, name, wrong(&option{}, place{name, value}, err)
	}
	zone, err := systemZone()
	return zone, localtime, err
}

const (
	localtime = "/etc/localtime"
	zoneinfo  = "/usr/share/zoneinfo/"
)

// systemZone is the zone of /etc/localtime, by name where it is a link or /etc/timezone names it; without the file the
// host is in UTC, as for every other program.
func systemZone() (*time.Location, error) {
	data, err := os.ReadFile(localtime)
	if os.IsNotExist(err) {
		return time.UTC, nil
	}
	if err != nil {
		return nil, unreadable(localtime, err)
	}
	if target, err := os.Readlink(localtime); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
			if zone, err := parseZone(name); err == nil {
				return zone, nil
			}
		}
	}
	name := "Local"
	if text, err := os.ReadFile("/etc/timezone"); err == nil && len(text) < 100 {
		name = strings.TrimSpace(string(text))
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, unreadable(localtime, err)
	}
	return zone, nil
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
