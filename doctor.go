package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"
)

// What is wrong here: the configuration, Redis, this host, its crontabs. Nothing is written, to Redis or elsewhere. What
// cannot be read is told, and is no mistake.

// Levels. Only a failure is an exit status.
const (
	fine    = "ok"
	warning = "warn"
	failure = "FAIL"
)

// A finding is what one check has to say. File and line are those of a crontab.
type finding struct {
	Level   string `json:"level"`
	Subject string `json:"subject"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Job     string `json:"job,omitempty"`
	Fields  string `json:"fields,omitempty"`
	Every   string `json:"every,omitempty"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
}

// An unread thing is one that could not be looked at, and why.
type unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// A doctor is one examination.
type doctor struct {
	*settings
	root     string // before every path of this host; "" but in tests
	environ  func(string) (string, bool)
	given    func(string) (string, bool)
	now      time.Time
	named    []string // the files to check in place of this host's crontabs
	crontabs []*crontab
	settled  bool             // the file of options could be read
	options  map[string]place // what stands in it
	server   *server          // nil: not known, or not to be asked
	rdb      redis.UniversalClient
	ledger   *ledger           // nil: cannot be asked
	jobs     map[string]*taken // names of jobs, and the lines that have them
	seen     map[string]bool   // hosts of the ledger
	borrowed bool              // a line has no Redis of its own
	usesPath bool              // a line finds onceonly by cron's own PATH
	closed   bool              // a crontab could not be read
	findings []finding
	unread   []unread
}

func doctorCommand(stdout io.Writer) *cli.Command {
	c, given := bareCommand("doctor", doctorText, doctorOptions)
	c.Action = func(c *cli.Context) error {
		d, err := newDoctor(c.Args().Slice(), given, os.LookupEnv)
		if err != nil {
			return err
		}
		d.examine()
		return orNil(d.print(stdout))
	}
	return c
}

// newDoctor reads the command line: only what is wrong there is a usage error, all else is a finding.
func newDoctor(files []string, given, environ func(string) (string, bool)) (*doctor, error) {
	d := &doctor{settings: initial(), given: given, environ: environ, now: time.Now(), named: files,
		jobs: map[string]*taken{}, seen: map[string]bool{}}
	for _, o := range doctorOptions {
		if v, ok := given(o.name); ok {
			if err := apply(o, d.settings, place{"--" + o.name, v}); err != nil {
				return nil, err
			}
		}
	}
	if d.config != "" {
		d.environ = instead(environ, "ONCEONLY_CONFIG", d.config)
	}
	for _, name := range files {
		text, err := readFile(name)
		if err != nil {
			return nil, usage("doctor: "+name+": "+cause(err), "")
		}
		d.addCrontab(name, string(text), "", d.hasColumn(name, string(text)))
	}
	return d, nil
}

// instead is an environment in which one variable has another value.
func instead(environ func(string) (string, bool), name, value string) func(string) (string, bool) {
	return func(asked string) (string, bool) {
		if asked == name {
			return value, true
		}
		return environ(asked)
	}
}

// elsewhere says whether the files are for other machines than this one.
func (d *doctor) elsewhere() bool { return d.offline && len(d.named) > 0 }

// here says whether the crontabs are those of this host, as they are.
func (d *doctor) here() bool { return len(d.named) == 0 }

// examine makes all checks, in the order in which they are printed.
func (d *doctor) examine() {
	if d.here() {
		d.findCrontabs()
	}
	d.checkConfig()
	if !d.offline {
		d.checkRedis()
	}
	if !d.elsewhere() {
		d.checkZone()
		d.checkMail()
		d.checkSpool()
	}
	for _, c := range d.crontabs {
		d.checkCrontab(c)
	}
	if !d.elsewhere() {
		d.checkPath()
	}
	d.checkBorrowed()
	slices.SortStableFunc(d.findings, func(a, b finding) int { return rank(a) - rank(b) })
	d.checkThatSomethingRuns()
}

// subjects are those of no crontab, in the order in which they are printed.
var subjects = strings.Fields("config redis ledger rights memory disk replicas clock zone path mail spool crontabs")

// rank puts what a check knows only after others into its place; crontabs follow.
func rank(f finding) int {
	if at := slices.Index(subjects, f.Subject); f.File == "" && at >= 0 {
		return at
	}
	return len(subjects)
}

// remark adds a finding.
func (d *doctor) remark(level, subject, text, hint string) {
	d.findings = append(d.findings, finding{Level: level, Subject: subject, Text: text, Hint: hint})
}

// cannotRead tells a thing once, though several nodes of a cluster refuse it.
func (d *doctor) cannotRead(what, why string) {
	if u := (unread{what, why}); !slices.Contains(d.unread, u) {
		d.unread = append(d.unread, u)
	}
}

// path is where a file of this host is.
func (d *doctor) path(name string) string { return filepath.Join("/", d.root, name) }

const (
	systemCrontab = "/etc/crontab"
	cronFolder    = "/etc/cron.d"
	cronSpool     = "/var/spool/cron/crontabs"
)

// findCrontabs reads this host's. One that is not there is no mistake, one that may not be read is told.
func (d *doctor) findCrontabs() {
	d.readCrontab(systemCrontab, "")
	for _, name := range d.list(cronFolder) {
		d.readCrontab(filepath.Join(cronFolder, name), "")
	}
	for _, name := range d.list(cronSpool) {
		d.readCrontab(filepath.Join(cronSpool, name), name)
	}
}

func (d *doctor) list(dir string) (names []string) {
	entries, err := os.ReadDir(d.path(dir))
	if err != nil {
		d.refused(dir, err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

func (d *doctor) readCrontab(name, user string) {
	text, err := readFile(d.path(name))
	if err != nil {
		d.refused(name, err)
		return
	}
	d.addCrontab(name, string(text), user, user == "")
}

// refused tells what of the crontabs cannot be read.
func (d *doctor) refused(name string, err error) {
	why := cause(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, fs.ErrPermission) && os.Getuid() != 0:
		why = "needs root"
	}
	d.closed = true
	d.cannotRead(name, why)
}

func (d *doctor) addCrontab(name, text, user string, column bool) {
	d.crontabs = append(d.crontabs, parseCrontab(name, text, user, column))
}

// hasColumn says whether the lines of a file name their users.
func (d *doctor) hasColumn(name, text string) bool {
	full, err := filepath.Abs(name)
	switch {
	case err == nil && (full == systemCrontab || filepath.Dir(full) == cronFolder):
		return true
	case err == nil && filepath.Dir(full) == cronSpool:
		return false
	}
	return guessColumn(text)
}

// checkThatSomethingRuns tells of crontabs without a line of ours.
func (d *doctor) checkThatSomethingRuns() {
	for _, f := range d.findings {
		if f.Line > 0 {
			return
		}
	}
	where := "the crontabs of this host"
	if !d.here() {
		where = strings.Join(d.named, ", ")
	}
	if !d.closed {
		d.remark(warning, "crontabs", "no line of onceonly in "+where, "")
	}
}
