package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Where an option comes from: the command line, else the environment, else the file. Every value is checked by the same
// function, and a mistake names its place.

var (
	errEmpty     = errors.New("empty")
	errMisplaced = errors.New("a URL, where none belongs")
)

// isURL says whether a value may hold a password, and is not to be repeated.
func isURL(value string) bool { return strings.Contains(value, "://") }

// settings are what the options say. How it is written that an option was not given:
//
//	flag              false, which is also what "no" in the environment says
//	text              "": an empty value is refused, so nobody can give one
//	number, duration  0, where set refuses 0 (lease, keep, waitMax, timeout, late)
//	                  from has no name of it, where 0 can be given and means something else (redis-wait)
//	with a default    the default, from initial; one that depends on the slot's length is set in call.complete
//
// Where it matters that somebody gave it, though the value is the default's, ask from, too (every, n).
type settings struct {
	job        string
	every      string
	schedule   string
	tz         string
	dayStart   string
	date       string
	attempts   int
	lease      time.Duration
	overlap    string // skip | wait
	standby    bool
	waitMax    time.Duration // 0: until the line's next slot
	retryDelay time.Duration
	catchUp    string // none | each | merge
	catchUpMax int
	rerun      bool
	reason     string
	keep       int
	redis      string
	redisFile  string
	redisWait  time.Duration
	namespace  string
	host       string
	exitBusy   int
	exitDone   int
	exitFailed int
	expand     bool
	pg         bool
	log        string // stderr | syslog | both
	verbose    bool
	timeout    time.Duration
	killAfter  time.Duration
	stateDir   string
	json       bool
	n          int
	hosts      bool
	problems   bool
	offline    bool
	config     string
	until      string
	done       bool
	reopen     bool
	left       time.Duration
	late       time.Duration
	exitCode   bool
	brief      bool
	metrics    bool
	output     string
	from       map[string]string // option -> where its value stands, for messages
}

// initial are the settings before any option is read.
func initial() *settings {
	return &settings{every: "day", dayStart: "00:00", attempts: 1, namespace: "onceonly", exitFailed: exitNotDone, n: 7,
		killAfter: 10 * time.Second, retryDelay: 30 * time.Second, catchUp: "none", catchUpMax: 10, from: map[string]string{}}
}

// An option is named once, here: its flag is --name, its variable ONCEONLY_NAME.
type option struct {
	name  string
	alias string
	line  bool     // the line's own: never from the environment or the file
	flag  bool     // takes no value
	bare  bool     // no option at all: a variable only
	file  bool     // its value names a file
	words []string // its values, or the usual ones, where they are words
	set   func(*settings, string) error
}

func (o *option) variable() string {
	return "ONCEONLY_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// secret is the option whose value is never repeated in a message, whatever it looks like.
const secret = "redis"

var commonOptions = []*option{
	{name: "redis", set: func(s *settings, v string) error { _, err := parseServer(v); s.redis = v; return err }},
	{name: "redis-file", file: true, set: func(s *settings, v string) error { s.redisFile = v; return nil }},
	{name: "redis-wait", set: func(s *settings, v string) error { return setDuration(&s.redisWait, v, 0) }},
	{name: "namespace", set: func(s *settings, v string) error { s.namespace = v; return checkName(v) }},
	{name: "state-dir", bare: true, set: func(s *settings, v string) error { s.stateDir = v; return nil }},
	{name: "verbose", alias: "v", flag: true, set: func(s *settings, v string) error { return setBool(&s.verbose, v) }},
}

// dateOption is the slot that is meant, where a command is about one.
var dateOption = &option{name: "date", line: true, words: []string{"today", "yesterday"},
	set: func(s *settings, v string) error { s.date = v; return nil }}

// oneOf is an option whose value is one of a few words.
func oneOf(name string, to func(*settings) *string, words ...string) *option {
	return &option{name: name, words: words, set: func(s *settings, v string) error { return setWord(to(s), v, words...) }}
}

var runOptions = append([]*option{
	{name: "job", alias: "j", line: true, set: func(s *settings, v string) error { s.job = v; return checkName(v) }},
	{name: "every", words: []string{"day", "week", "month", "hour"}, set: func(s *settings, v string) error { s.every = v; _, err := parsePeriod(v); return err }},
	{name: "schedule", set: func(s *settings, v string) error { s.schedule = v; _, err := parseSchedule(v); return err }},
	{name: "day-start", set: func(s *settings, v string) error { s.dayStart = v; _, err := parseDayStart(v); return err }},
	oneOf("overlap", func(s *settings) *string { return &s.overlap }, "skip", "wait"),
	{name: "wait-max", set: func(s *settings, v string) error { return setDuration(&s.waitMax, v, time.Millisecond) }},
	{name: "standby", flag: true, set: func(s *settings, v string) error { return setBool(&s.standby, v) }},
	{name: "retry-delay", set: func(s *settings, v string) error { return setDuration(&s.retryDelay, v, 0) }},
	oneOf("catch-up", func(s *settings) *string { return &s.catchUp }, "none", "each", "merge"),
	{name: "catch-up-max", set: func(s *settings, v string) error { return setNumber(&s.catchUpMax, v, 1, 100) }},
	{name: "rerun", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.rerun, v) }},
	{name: "reason", line: true, set: func(s *settings, v string) error { s.reason = v; return nil }},
	{name: "keep", set: func(s *settings, v string) error { return setNumber(&s.keep, v, 10, 1_000_000) }},
	{name: "tz", set: func(s *settings, v string) error { s.tz = v; _, err := parseZone(v); return err }},
	dateOption,
	{name: "attempts", set: func(s *settings, v string) error { return setNumber(&s.attempts, v, 1, 1000) }},
	{name: "lease", set: func(s *settings, v string) error { return setDuration(&s.lease, v, minimumLease) }},
	{name: "timeout", set: func(s *settings, v string) error { return setDuration(&s.timeout, v, time.Millisecond) }},
	{name: "kill-after", alias: "k", set: func(s *settings, v string) error { return setDuration(&s.killAfter, v, 0) }},
	{name: "host", set: func(s *settings, v string) error { s.host = v; return checkName(v) }},
	{name: "exit-busy", set: func(s *settings, v string) error { return setNumber(&s.exitBusy, v, 0, 255) }},
	{name: "exit-done", set: func(s *settings, v string) error { return setNumber(&s.exitDone, v, 0, 255) }},
	{name: "exit-failed", set: func(s *settings, v string) error { return setNumber(&s.exitFailed, v, 0, 255) }},
	{name: "expand", alias: "x", flag: true, set: func(s *settings, v string) error { return setBool(&s.expand, v) }},
	{name: "pg", flag: true, set: func(s *settings, v string) error { return setBool(&s.pg, v) }},
	oneOf("log", func(s *settings) *string { return &s.log }, "stderr", "syslog", "both"),
}, commonOptions...)

var statusOptions = append([]*option{
	{name: "json", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.json, v) }},
	dateOption,
	{name: "hosts", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.hosts, v) }},
	{name: "problems", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.problems, v) }},
	{name: "n", line: true, set: func(s *settings, v string) error { return setNumber(&s.n, v, 0, 1<<30) }},
	{name: "late", line: true, set: func(s *settings, v string) error { return setDuration(&s.late, v, time.Second) }},
	{name: "exit-code", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.exitCode, v) }},
	{name: "brief", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.brief, v) }},
	{name: "metrics", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.metrics, v) }},
	{name: "output", line: true, file: true, set: func(s *settings, v string) error { s.output = v; return nil }},
}, commonOptions...)

var doctorOptions = append([]*option{
	{name: "offline", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.offline, v) }},
	{name: "json", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.json, v) }},
	{name: "config", line: true, file: true, set: func(s *settings, v string) error { s.config = v; return nil }},
	{name: "tz", bare: true, set: func(s *settings, v string) error { s.tz = v; _, err := parseZone(v); return err }},
	{name: "host", set: func(s *settings, v string) error { s.host = v; return checkName(v) }},
}, commonOptions...)

// inFile are the options that the file may hold: run's, but for the line's own. No other command may have one that run lacks.
func inFile() []*option {
	var all []*option
	for _, o := range runOptions {
		if !o.line {
			all = append(all, o)
		}
	}
	return all
}

// A place is where a value was found, and how a message names it.
type place struct{ name, value string }

// gather reads the options of one command: flag beats environment beats file.
func gather(options []*option, given func(name string) (string, bool), environ func(string) (string, bool)) (*settings, error) {
	file, err := readConfig(environ)
	if err != nil {
		return nil, err
	}
	s := initial()
	for _, o := range options {
		at, found := find(o, given, environ, file)
		if !found {
			continue
		}
		if err := apply(o, s, at); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func find(o *option, given, environ func(string) (string, bool), file map[string]place) (place, bool) {
	if v, ok := given(o.name); ok {
		return place{dashes(o.name), v}, true
	}
	if o.line {
		return place{}, false
	}
	if v, ok := environ(o.variable()); ok {
		return place{o.variable(), v}, true
	}
	p, ok := file[o.variable()]
	return p, ok
}

func apply(o *option, s *settings, at place) error {
	err := o.set(s, at.value)
	switch {
	case at.value == "":
		err = errEmpty
	case o.file && isURL(at.value):
		err = errMisplaced
	}
	s.from[o.name] = at.name
	return wrong(o.name, at, err)
}

// wrong says which value of an option is wrong, where it stands, and why; never a secret one.
func wrong(option string, at place, err error) error {
	var u *usageError
	switch {
	case err == nil:
		return nil
	case option == secret:
		return usage(at.name+": "+err.Error(), "")
	case isURL(at.value):
		return usage(at.name+": "+errMisplaced.Error(), "")
	case !errors.As(err, &u):
		return usage(fmt.Sprintf("%s %q: %v", at.name, at.value, err), "")
	}
	if rest, named := strings.CutPrefix(u.msg, "--"+option+" "); named { // it repeats the value in its own way
		return usage(at.name+" "+rest, u.hint)
	}
	return usage(fmt.Sprintf("%s %q: %v", at.name, at.value, err), u.hint)
}

// redisURL is the address to use, from --redis or the file that --redis-file names.
func (s *settings) redisURL() (*server, error) {
	url, from := s.redis, s.from["redis"]
	if nearer(s.from["redis-file"], from) {
		text, err := readFile(s.redisFile)
		if err != nil {
			return nil, unreadable(s.redisFile, err)
		}
		url, from = strings.TrimSpace(string(text)), s.redisFile
	}
	switch {
	case url == "" && from != "":
		return nil, usage(from+": "+errEmpty.Error(), "")
	case url == "":
		return nil, usage("no Redis given", "ONCEONLY_REDIS=redis://HOST:6379/0, --redis, or "+configFile)
	}
	v, err := parseServer(url)
	if err != nil {
		return nil, usage(from+": "+err.Error(), "")
	}
	if err := v.secure(); err != nil {
		return nil, err
	}
	return v, nil
}

// together refuses options that do not go together, and settles which of two that exclude each other is meant.
func (s *settings) together() error {
	schedule, every := s.from["schedule"], s.from["every"]
	switch {
	case schedule != "" && every != "" && !nearer(schedule, every) && !nearer(every, schedule):
		return usage("--every and --schedule exclude each other", "")
	case nearer(every, schedule):
		s.schedule = ""
	}
	if s.schedule != "" {
		s.every = ""
	}
	switch {
	case s.rerun && s.from["date"] == "":
		return usage("--rerun needs --date", "onceonly run --rerun --reason TEXT --date 2026-11-29 -- command")
	case s.rerun && s.reason == "":
		return usage("--rerun needs --reason", "onceonly run --rerun --reason TEXT --date 2026-11-29 -- command")
	case s.reason != "" && !s.rerun:
		return usage("--reason needs --rerun", "")
	case s.standby && s.attempts < 2:
		return usage("--standby needs --attempts 2 or more", "with one attempt nobody may take over")
	}
	return nil
}

// nearer says whether the first place beats the second: flag, environment, file; the URL itself beats its file.
func nearer(a, b string) bool {
	rank := func(from string) int {
		switch {
		case from == "":
			return 0
		case strings.HasPrefix(from, "--"):
			return 3
		case strings.HasPrefix(from, "ONCEONLY_"):
			return 2
		}
		return 1
	}
	return rank(a) > rank(b)
}
