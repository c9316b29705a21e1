package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// What is wrong with one line of a crontab. Its words are read as run reads them, so what run would refuse is found with
// run's own words.

// A taken name is a job's, and the line that has it.
type taken struct {
	file     string
	line     int
	lineHash string
}

// A patient is one onceonly in a line, under examination.
type patient struct {
	*doctor
	at       cronLine
	use      use
	env      map[string]string
	fire     *schedule // nil: at each start of the machine, or unreadable
	job      string
	every    string
	call     *call // nil: run would refuse the words
	examined bool
	failing  bool
}

// say adds a finding about the line.
func (p *patient) say(level, text, hint string) {
	p.failing = p.failing || level == failure
	p.examined = true
	p.findings = append(p.findings, finding{Level: level, Subject: fmt.Sprintf("line %d", p.at.number), File: p.at.file,
		Line: p.at.number, Job: cmp.Or(p.job, "-"), Fields: p.at.fields, Every: cmp.Or(p.every, "-"), Text: text, Hint: hint})
}

// checkLine checks a line that has onceonly in it.
func (d *doctor) checkLine(l cronLine, system bool) {
	if !strings.Contains(strings.Join([]string{l.fields, l.user, l.command}, " "), "onceonly") {
		return
	}
	p := &patient{doctor: d, at: l}
	var err error
	if p.fire, err = p.fireTimes(); err != nil {
		p.say(failure, "cron does not take the line: "+err.Error(), "")
		return
	}
	if !p.checkUser(system) {
		return
	}
	if l.whole > longestCommand {
		p.say(failure, fmt.Sprintf("the command has %d characters, cron cuts it off after %d", l.whole, longestCommand), "put it into a script")
		return
	}
	found, err := uses(l.command)
	if l.input {
		p.say(failure, "cron ends the command at %, what follows is its standard input", `\%, or --expand and {date}`)
		return
	}
	if err != nil {
		p.say(warning, err.Error()+": not checked", "put it into a script")
		return
	}
	for _, u := range found {
		p := &patient{doctor: d, at: l, fire: p.fire, use: u}
		p.check()
	}
}

// fireTimes are the line's own fields, as cron reads them.
func (p *patient) fireTimes() (*schedule, error) {
	if p.at.fields == "@reboot" {
		return nil, nil
	}
	s, err := parseSchedule(p.at.fields)
	var u *usageError
	if errors.As(err, &u) {
		_, words, _ := strings.Cut(u.msg, `": `)
		return nil, errors.New(cmp.Or(words, u.msg))
	}
	return s, err
}

// check makes all checks of one onceonly.
func (p *patient) check() {
	p.env = environment(p.at.env, p.use.env)
	if len(p.use.args) < 2 || (p.use.args[1] != "run" && p.use.args[1] != "explain") {
		p.checkOther()
		return
	}
	if err := p.readWords(); err != nil {
		p.refuse(err)
	} else if p.call == nil { // --help
		return
	} else {
		p.checkProgram()
		p.checkOften()
		p.checkSchedule()
		p.checkEdge()
		p.checkCommand()
		p.checkSame()
		p.checkLedger()
	}
	p.checkAfter()
	p.checkZones()
	p.checkReadable()
	if !p.examined {
		p.say(fine, p.next(), "")
	}
}

// environment is what cron gives to a command, and what the command line sets before it.
func environment(crontab, command map[string]string) map[string]string {
	env := map[string]string{"PATH": cronPath}
	maps.Copy(env, crontab)
	maps.Copy(env, command)
	return env
}

// lookup finds a variable as the line's command would. The file of options is the one that is examined.
func (p *patient) lookup(name string) (string, bool) {
	if v, ok := p.env[name]; ok || name != "ONCEONLY_CONFIG" {
		return v, ok
	}
	return p.environ(name)
}

// readWords reads the words of run.
func (p *patient) readWords() error {
	c, given := bareCommand(p.use.args[1], "", runOptions)
	c.Action = func(x *cli.Context) error {
		s, err := gather(runOptions, given, p.lookup)
		if err != nil {
			return err
		}
		p.job = s.job
		words := x.Args().Slice()
		if p.call, err = readCall(words, dashed(p.use.args, len(words)), s, time.Now, p.lookup); err != nil {
			return err
		}
		p.job, p.every = p.call.command.job, p.call.line.lasts()
		return p.reach()
	}
	return onlyCommand(c).Run(p.use.args)
}

// reach finds the line's ledger. A line that has none would say so itself; but that is told once, for all of them.
func (p *patient) reach() error {
	c := p.call
	switch {
	case c.redis != "" || c.redisFile != "":
		return c.reach(p.lookup)
	case p.rdb != nil:
		p.borrowed = true
		c.server, c.ledger = p.server, &ledger{p.rdb, c.namespace}
	}
	return nil
}

// onlyCommand is a program of one command, which prints nothing.
func onlyCommand(c *cli.Command) *cli.App {
	return &cli.App{Name: "onceonly", Commands: []*cli.Command{c}, Writer: io.Discard, ErrWriter: io.Discard,
		HideHelpCommand: true, ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: onUsageError}
}

// lasts is how long a slot is, in a word.
func (l line) lasts() string {
	if l.schedule == nil {
		return l.every.String()
	}
	switch length := l.schedule.length(); {
	case length < 24*time.Hour:
		return period(length).String()
	case length < 7*24*time.Hour:
		return "day"
	case length < 28*24*time.Hour:
		return "week"
	case length < 365*24*time.Hour:
		return "month"
	}
	return "year"
}

// refuse tells what run would say.
func (p *patient) refuse(err error) {
	var e *exit
	if !errors.As(err, &e) {
		e = usage(err.Error(), "")
	}
	if name, nothing := strings.CutSuffix(e.msg, namesNothing); nothing {
		p.say(failure, name+" cannot name the job: --job NAME", e.hint)
		return
	}
	p.say(failure, e.msg, e.hint)
}

// checkOther looks at the words of the other commands; what they do does not depend on the line.
func (p *patient) checkOther() {
	all := app(p.use.args, io.Discard, &voice{w: io.Discard})
	all.Writer = io.Discard
	for _, c := range all.Commands {
		c.Action = func(*cli.Context) error { return nil }
	}
	if err := all.Run(reorder(p.use.args)); err != nil {
		p.refuse(err)
	} else if !p.examined {
		p.say(fine, p.next(), "")
	}
}

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

// checkProgram looks for onceonly where the line looks for it, if that is not where all look.
func (p *patient) checkProgram() {
	name, path := p.use.args[0], p.env["PATH"]
	switch bare := !strings.Contains(name, "/"); {
	case bare && path == cronPath:
		p.usesPath = true
	case bare:
		p.checkFound(name, path)
	default:
		p.checkThere(name)
	}
}

// checkCommand looks for the command where onceonly would.
func (p *patient) checkCommand() {
	if name := p.call.command.argv[0]; strings.Contains(name, "/") {
		p.checkThere(name)
	} else {
		p.checkFound(name, p.env["PATH"])
	}
}

const pathHint = "name it in full, or set PATH in the crontab"

// checkFound looks for a program in the line's PATH. Where the file is yet to be deployed the program may be, too; but one
// that only a shell finds is a mistake.
func (p *patient) checkFound(name, path string) {
	if p.elsewhere() || p.lookPath(name, path) != "" {
		return
	}
	if at := p.lookPath(name, os.Getenv("PATH")+":/usr/local/bin:/usr/sbin:/sbin:/usr/local/sbin"); at != "" {
		p.say(failure, at+" is not in this line's PATH, "+path, pathHint)
	} else if p.here() {
		p.say(failure, fmt.Sprintf("%s is not in this line's PATH, %s", quoteWord(name), path), pathHint)
	}
}

// checkThere looks for a program that is named in full. What cannot be looked at may be there.
func (p *patient) checkThere(name string) {
	if !p.here() || !filepath.IsAbs(name) || p.executable(name) {
		return
	}
	if _, err := os.Stat(p.path(name)); !errors.Is(err, os.ErrPermission) {
		p.say(failure, quoteWord(name)+" is not there, or not executable", "")
	}
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

// checkSame finds two lines of one name.
func (p *patient) checkSame() {
	c := p.call
	name := c.namespace + " " + p.job
	mine := &taken{p.at.file, p.at.number, c.command.lineHash()}
	other := p.jobs[name]
	if other == nil {
		p.jobs[name] = mine
		return
	}
	if other.lineHash == mine.lineHash {
		return
	}
	where := fmt.Sprintf("line %d", other.line)
	if other.file != mine.file {
		where += " of " + other.file
	}
	p.say(warning, "same name as "+where+", other command", "two lines need two names: --job NAME on each")
}

// checkLedger asks what run would be told now. Only that hosts or lines disagree is a mistake of the line.
func (p *patient) checkLedger() {
	c := p.call
	if p.ledger == nil || c.server == nil || p.failing {
		return
	}
	if c.server != p.server {
		defer c.ledger.Close()
	}
	if c.server.address != p.server.address || c.server.options.DB != p.server.options.DB {
		p.say(warning, "its ledger is not the one above, but in Redis at "+c.server.address, "")
		return
	}
	c.redisWait = p.redisWait
	r, e := c.foresee()
	if e != nil || r.Verdict == "run" || r.Verdict == "clock" || c.waits(r.Verdict) {
		return
	}
	if e := c.refuse(r); e.status == exitDisagree {
		_, text, _ := strings.Cut(e.msg, "not run: ")
		p.say(failure, text, e.hint)
	}
}

// checkAfter finds what follows onceonly: it runs on every host, for a slot that is done exits 0, too.
func (p *patient) checkAfter() {
	switch {
	case p.use.op == "":
		return
	case p.use.next && p.use.op == "&&":
		p.say(warning, "what follows && does not wait: where the first is done elsewhere it begins at once",
			"onceonly run --job NAME -- sh -c 'onceonly wait "+cmp.Or(p.job, "JOB")+" && COMMAND'")
		return
	case p.use.next:
		return
	}
	words := "COMMAND"
	if p.call != nil {
		words = quoteWords(p.call.command.argv)
	}
	glue := " " + p.use.op + " "
	if p.use.op == ";" {
		glue = "; "
	}
	script := strings.ReplaceAll(quoteWord(words+glue+p.use.after), "%", `\%`)
	p.say(failure, "what follows "+p.use.op+" runs on every host", "onceonly run --job "+quoteWord(cmp.Or(p.job, "NAME"))+" -- sh -c "+script)
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

// checkReadable wants the line's user to be able to read the options.
func (p *patient) checkReadable() {
	if p.elsewhere() || p.at.user == "" {
		return
	}
	files := []string{configOf(p.lookup)}
	if p.call != nil && nearer(p.call.from["redis-file"], p.call.from["redis"]) {
		files = append(files, p.call.redisFile)
	}
	for _, name := range files {
		if !mayRead(p.at.user, name) {
			p.say(failure, "user "+p.at.user+" cannot read "+name, "chgrp onceonly, chmod 640, and put the job's user into that group")
		}
	}
}
