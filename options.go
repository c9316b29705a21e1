package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Where an option comes from: the command line, else the environment, else the file. Every value is checked by the same
// function, and a mistake names its place.

const configFile = "/etc/onceonly.conf"

// settings are what the options say.
type settings struct {
	job        string
	every      string
	schedule   string
	tz         string
	dayStart   string
	date       string
	attempts   int
	lease      time.Duration
	redis      string
	redisFile  string
	redisWait  time.Duration
	namespace  string
	host       string
	exitBusy   int
	exitDone   int
	exitFailed int
	expand     bool
	verbose    bool
	killAfter  time.Duration
	json       bool
	n          int
	from       map[string]string // option -> where its value stands, for messages
}

func defaults() *settings {
	return &settings{every: "day", attempts: 1, namespace: "onceonly", exitFailed: exitNotDone, n: 7,
		killAfter: 10 * time.Second, from: map[string]string{}}
}

// An option is named once, here: its flag is --name, its variable ONCEONLY_NAME.
type option struct {
	name  string
	alias string
	line  bool // the line's own: never from the environment or the file
	flag  bool // takes no value
	set   func(*settings, string) error
}

func (o *option) variable() string {
	return "ONCEONLY_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// secret options are never repeated in a message.
func (o *option) secret() bool { return o.name == "redis" }

var commonOptions = []*option{
	{name: "redis", set: func(s *settings, v string) error { _, err := parseServer(v); s.redis = v; return err }},
	{name: "redis-file", set: func(s *settings, v string) error { s.redisFile = v; return nil }},
	{name: "redis-wait", set: func(s *settings, v string) error { return setDuration(&s.redisWait, v, 0) }},
	{name: "namespace", set: func(s *settings, v string) error { s.namespace = v; return checkName(v) }},
	{name: "verbose", alias: "v", flag: true, set: func(s *settings, v string) error { return setBool(&s.verbose, v) }},
}

var runOptions = append([]*option{
	{name: "job", alias: "j", line: true, set: func(s *settings, v string) error { s.job = v; return checkName(v) }},
	{name: "every", set: func(s *settings, v string) error { s.every = v; _, err := parsePeriod(v); return err }},
	{name: "tz", set: func(s *settings, v string) error { s.tz = v; _, err := parseZone(v); return err }},
	{name: "date", line: true, set: func(s *settings, v string) error { s.date = v; return nil }},
	{name: "attempts", set: func(s *settings, v string) error { return setNumber(&s.attempts, v, 1, 1000) }},
	{name: "lease", set: func(s *settings, v string) error { return setDuration(&s.lease, v, minimumLease) }},
	{name: "host", set: func(s *settings, v string) error { s.host = v; return checkName(v) }},
	{name: "exit-busy", set: func(s *settings, v string) error { return setNumber(&s.exitBusy, v, 0, 255) }},
	{name: "exit-done", set: func(s *settings, v string) error { return setNumber(&s.exitDone, v, 0, 255) }},
	{name: "exit-failed", set: func(s *settings, v string) error { return setNumber(&s.exitFailed, v, 0, 255) }},
	{name: "expand", alias: "x", flag: true, set: func(s *settings, v string) error { return setBool(&s.expand, v) }},
}, commonOptions...)

var statusOptions = append([]*option{
	{name: "json", line: true, flag: true, set: func(s *settings, v string) error { return setBool(&s.json, v) }},
	{name: "n", line: true, set: func(s *settings, v string) error { return setNumber(&s.n, v, 0, 1<<30) }},
}, commonOptions...)

// inFile are the names that the file may hold: every option of every command but the lines' own.
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
	s := defaults()
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
		return place{"--" + o.name, v}, true
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
	if at.value == "" {
		err = errEmpty
	}
	s.from[o.name] = at.name
	return wrong(o, at, err)
}

// wrong says which value is wrong, where it stands, and why; never a secret one.
func wrong(o *option, at place, err error) error {
	var u *usageError
	switch hint := ""; {
	case err == nil:
		return nil
	case o.secret():
		return usage(at.name+": "+err.Error(), hint)
	default:
		if errors.As(err, &u) {
			hint = u.hint
		}
		return usage(fmt.Sprintf("%s %q: %v", at.name, at.value, err), hint)
	}
}

// readConfig reads the file of options. That it is absent is fine, unless ONCEONLY_CONFIG names it.
func readConfig(environ func(string) (string, bool)) (map[string]place, error) {
	name, named := environ("ONCEONLY_CONFIG")
	if !named {
		name = configFile
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	return parseConfig(f, name)
}

// unreadable is 78: a host whose file cannot be read would take part with other settings than the rest.
func unreadable(name string, err error) error {
	e := &exit{status: exitDisagree, msg: name + ": " + cause(err)}
	if errors.Is(err, os.ErrPermission) {
		e.hint = "chgrp onceonly, chmod 640, and put the job's user into that group"
	}
	return e
}

// parseConfig reads NAME=value lines. One pair of quotes around a value is removed, nothing is expanded.
func parseConfig(f *os.File, name string) (map[string]place, error) {
	known, values := inFile(), map[string]place{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		at := place{fmt.Sprintf("%s:%d", name, n), unquote(strings.TrimSpace(value))}
		if !ok {
			return nil, usage(at.name+": not a line of the form NAME=value", "")
		}
		key = strings.TrimSpace(key)
		at.name += ": " + key
		i := slices.IndexFunc(known, func(o *option) bool { return o.variable() == key })
		if i < 0 {
			return nil, usage(fmt.Sprintf("%s:%d: no option %s", name, n, key), nearest(key, known))
		}
		if err := apply(known[i], defaults(), at); err != nil {
			return nil, err
		}
		values[key] = at
	}
	if err := lines.Err(); err != nil {
		return nil, unreadable(name, err)
	}
	return values, nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// nearest is the option that was probably meant, or "".
func nearest(key string, known []*option) string {
	best, distance := "", 4
	for _, o := range known {
		if d := edits(key, o.variable()); d < distance {
			best, distance = o.variable(), d
		}
	}
	return best
}

// edits counts the letters to change, add or leave out between two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// redisURL is the address to use, from --redis or the file that --redis-file names.
func (s *settings) redisURL() (*server, error) {
	url, from := s.redis, s.from["redis"]
	if nearer(s.from["redis-file"], from) {
		text, err := os.ReadFile(s.redisFile)
		if err != nil {
			return nil, unreadable(s.redisFile, err)
		}
		url, from = strings.TrimSpace(string(text)), s.redisFile
	}
	if url == "" {
		return nil, usage("no Redis given", "ONCEONLY_REDIS=redis://HOST:6379/0, --redis, or "+configFile)
	}
	v, err := parseServer(url)
	if err != nil {
		return nil, usage(from+": "+err.Error(), "")
	}
	return v, nil
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

func setBool(to *bool, v string) error {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		*to = true
	case "0", "false", "no", "off":
		*to = false
	default:
		return errors.New("neither yes nor no")
	}
	return nil
}

func setNumber(to *int, v string, low, high int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return fmt.Errorf("not a number from %d to %d", low, high)
	}
	*to = n
	return nil
}

func setDuration(to *time.Duration, v string, least time.Duration) error {
	d, err := parseDuration(v)
	if err != nil {
		return err
	}
	if d < least {
		return fmt.Errorf("shorter than %v", least)
	}
	*to = d
	return nil
}

var (
	durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)`)
	bareNumber   = regexp.MustCompile(`^[0-9]+$`)
)

var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour}

// parseDuration reads 90s, 1.5h, 1h30m, 2d. A bare number is refused: some tools take it for seconds, some for minutes.
func parseDuration(v string) (time.Duration, error) {
	if bareNumber.MatchString(v) {
		return 0, &usageError{msg: "a number needs a unit", hint: withUnits(v)}
	}
	var sum float64
	rest := v
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, &usageError{msg: "not a duration", hint: "90s, 10m, 1h30m, 2d"}
		}
		x, _ := strconv.ParseFloat(m[1], 64)
		sum += x * float64(units[m[2]])
		rest = rest[len(m[0]):]
	}
	if v == "" || sum > float64(100*365*24*time.Hour) {
		return 0, &usageError{msg: "not a duration", hint: "90s, 10m, 1h30m, 2d"}
	}
	return time.Duration(sum), nil
}

// withUnits writes a number of seconds in the units that it may have been meant in: 3600s, 60m or 1h.
func withUnits(v string) string {
	n, err := strconv.Atoi(v)
	if err != nil || n == 0 {
		return "90s, 10m, 1h30m, 2d"
	}
	words := []string{v + "s"}
	if n%60 == 0 {
		words = append(words, fmt.Sprintf("%dm", n/60))
	}
	if n%3600 == 0 {
		words = append(words, fmt.Sprintf("%dh", n/3600))
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
