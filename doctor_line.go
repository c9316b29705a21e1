package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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

// inURL is what stands before the host in a URL, also where a password there is not encoded.
var inURL = pattern(`://\S*@`)

// say adds a finding about the line. What it repeats of the line is without passwords.
func (p *patient) say(level, text, hint string) {
	hidden := func(s string) string { return inURL().ReplaceAllString(s, "://***@") }
	p.failing = p.failing || level == failure
	p.examined = true
	p.findings = append(p.findings, finding{Level: level, Subject: fmt.Sprintf("line %d", p.at.number), File: p.at.file,
		Line: p.at.number, Job: cmp.Or(p.job, "-"), Fields: hidden(p.at.fields), Every: cmp.Or(p.every, "-"), Text: hidden(text),
		Hint: hidden(hint)})
}

// checkLine checks a line that has onceonly in it.
func (d *doctor) checkLine(l cronLine, system bool) {
	if !strings.Contains(strings.Join([]string{l.fields, l.user, l.command, l.input}, " "), "onceonly") {
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
	if l.input != "" {
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

// check looks at one onceonly.
func (p *patient) check() {
	p.env = environment(p.at.env, p.use.env)
	if len(p.use.args) > 1 && (p.use.args[1] == "run" || p.use.args[1] == "explain") {
		p.checkRun()
	} else {
		p.checkOther()
	}
	p.checkReadable()
	if !p.examined {
		p.say(fine, p.next(), "")
	}
}

// checkRun looks at what a command is run by.
func (p *patient) checkRun() {
	if err := p.readWords(); err != nil {
		p.refuse(err)
	} else if p.call != nil { // nil: --help
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
	} else {
		p.checkProgram()
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
