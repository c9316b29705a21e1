// Onceonly runs a command once in a cluster of hosts that all have the same crontab.
//
// Read run.go first: it follows one run from top to bottom. Behind it stand
//
//	call.go     what was asked, and its slot      slot.go     which slot (schedule, period, wall, date)
//	ask.go      asking whether to run             verdict.go  what the answer means (exit.go: statuses)
//	turn.go     waiting for another run           missed.go   slots missed or skipped, caught up with
//	lock.go     the lease: obtain, renew, regain  ledger.go   entries, and the scripts that move them
//	watch.go    while the command runs            child*.go   the command: start, signal, reap (guard.go, tty.go)
//	record.go   how an attempt ended              spool.go    ends kept on disk
//	address.go  where Redis is, connecting        redis.go    asking it again; what an error means (greeting.go)
//	options.go  flag, environment (value.go)      config.go   the file of options
//	job.go      the command's words, the name     pg.go       job, token and run ID for PostgreSQL
//	status*.go  what ran (history.go, table*.go)  explain.go  what run would do now
//	operate.go  by hand: stop                     pause.go, resolve.go  by hand, likewise
//	wait.go     for another job's slot            check.go    inside a command: still the holder?
//	doctor*.go  what is wrong here                crontab*.go crontabs, as cron and the shell read them
//	nagios.go   status for Nagios                 metrics.go  status for Prometheus (textfile.go)
//	voice.go    what is said, and where           stderr.go, syslog.go  the places
//	duration.go durations, read and shown         clock*.go   a clock that runs while the machine sleeps
//	completion.go  words for the shells           version.go  which build this is
//
// What must be atomic is one Lua file each under scripts. Go's runtime is told not to look once a second how many processors
// a container may use: who waits needs none.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

//go:embed man/help.txt
var helpText string

//go:embed man/run.txt
var runText string

//go:embed man/status.txt
var statusText string

//go:embed man/stop.txt
var stopText string

//go:embed man/doctor.txt
var doctorText string

//go:embed man/pause.txt
var pauseText string

//go:embed man/resume.txt
var resumeText string

//go:embed man/resolve.txt
var resolveText string

//go:embed man/wait.txt
var waitText string

//go:embed man/check.txt
var checkText string

// interspersed are the commands whose options may follow the job.
var interspersed = map[string][]*option{"status": statusOptions, "stop": stopOptions, "pause": pauseOptions,
	"resume": resumeOptions, "resolve": resolveOptions, "wait": waitOptions, "check": checkOptions, "doctor": doctorOptions}

func main() {
	if os.Args[0] == guardName {
		os.Exit(guardMain(os.Args))
	}
	stderr := &descriptor{fd: 2}
	status, typed := onceonly(os.Args, os.Stdout, stderr)
	stderr.rest()
	if typed != 0 {
		dieOf(typed)
	}
	os.Exit(status)
}

// onceonly runs one command line and returns the exit status, and the signal from the terminal that has ended the command,
// if one has. It is the one place that tells an error.
func onceonly(args []string, stdout, stderr io.Writer) (status int, typed syscall.Signal) {
	v := &voice{w: stderr, verbose: isTerminal(2)}
	defer func() {
		if bug := recover(); bug != nil {
			v.say("a bug: %v", bug)
			status = exitBug
		}
	}()
	a := app(args, stdout, v)
	if len(args) > 1 && args[1] == "complete" {
		complete(a.Commands, args[2:], stdout)
		return 0, 0
	}
	err := a.Run(reorder(args))
	var e *exit
	switch {
	case err == nil:
		return 0, 0
	case !errors.As(err, &e):
		e = usage(err.Error(), "onceonly --help")
	}
	v.leave(e)
	return e.status, e.typed
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err == nil
}

// app is the command line as urfave/cli knows it. Values are taken as text, and checked where their place is known.
func app(args []string, stdout io.Writer, v *voice) *cli.App {
	cli.HelpPrinter = func(w io.Writer, text string, _ any) { io.WriteString(w, text) }
	cli.HelpFlag = newWord(&option{name: "help", alias: "h", flag: true})
	cli.VersionFlag = newWord(&option{name: "version", flag: true})
	cli.VersionPrinter = func(*cli.Context) { io.WriteString(stdout, about()) }
	return &cli.App{
		Name: "onceonly", Version: version, Compiled: time.Unix(0, 0), Writer: stdout, ErrWriter: io.Discard,
		CustomAppHelpTemplate: helpText, HideHelpCommand: true,
		ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage(fmt.Sprintf("no command %q", c.Args().First()), "onceonly --help")
			}
			return usage("no command", "onceonly --help")
		},
		Commands: commands(args, stdout, v),
	}
}

// commands are those that the program has; only the one that is called, where one is: urfave/cli sets up all that it knows.
func commands(args []string, stdout io.Writer, v *voice) (made []*cli.Command) {
	all := []struct {
		name string
		make func() *cli.Command
	}{
		{"run", func() *cli.Command {
			return v.follow(newCommand("run", runText, runOptions, wrapped(args, v, func(c *call) *exit { return c.execute(v) })))
		}},
		{"explain", func() *cli.Command {
			return newCommand("explain", runText, runOptions, wrapped(args, v, func(c *call) *exit { return c.explain(stdout) }))
		}},
		{"status", func() *cli.Command {
			return forNagios(newCommand("status", statusText, statusOptions, func(c *cli.Context, s *settings) error {
				return status(c.Args().Slice(), s, stdout)
			}), stdout)
		}},
		{"stop", func() *cli.Command { return newCommand("stop", stopText, stopOptions, byWord(v, stop)) }},
		{"pause", func() *cli.Command { return newCommand("pause", pauseText, pauseOptions, byWord(v, pauseJob)) }},
		{"resume", func() *cli.Command { return newCommand("resume", resumeText, resumeOptions, byWord(v, resumeJob)) }},
		{"resolve", func() *cli.Command { return newCommand("resolve", resolveText, resolveOptions, byWord(v, resolve)) }},
		{"wait", func() *cli.Command { return newCommand("wait", waitText, waitOptions, byWord(v, waitFor)) }},
		{"check", func() *cli.Command { return newCommand("check", checkText, checkOptions, byWord(v, check)) }},
		{"doctor", func() *cli.Command { return doctorCommand(stdout) }},
		{"completion", func() *cli.Command { return completionCommand(stdout) }},
	}
	for _, c := range all {
		if len(args) > 1 && c.name == args[1] {
			return []*cli.Command{c.make()}
		}
	}
	for _, c := range all {
		made = append(made, c.make())
	}
	return made
}

// wrapped is the action of a command that is followed by another command.
func wrapped(args []string, v *voice, do func(*call) *exit) func(*cli.Context, *settings) error {
	return func(c *cli.Context, s *settings) error {
		v.heed(s)
		words := c.Args().Slice()
		call, err := newCall(words, dashed(args, len(words)), s, time.Now)
		if err != nil {
			return err
		}
		return orNil(do(call))
	}
}

// byWord is the action of a command that takes its arguments as words, and speaks on stderr.
func byWord(v *voice, do func([]string, *settings, *voice) error) func(*cli.Context, *settings) error {
	return func(c *cli.Context, s *settings) error { return do(c.Args().Slice(), s, v) }
}

// orNil keeps a nil exit from becoming an error that is not nil.
func orNil(e *exit) error {
	if e == nil {
		return nil
	}
	return e
}

// How urfave/cli, and package flag below it, put what is wrong with an option.
const (
	unknownOption = "flag provided but not defined: "
	noValue       = "flag needs an argument: "
)

func onUsageError(c *cli.Context, err error, _ bool) error {
	hint := "onceonly --help"
	if len(c.Lineage()) > 2 { // below a command, and not the program itself
		hint = "onceonly " + c.Command.Name + " --help"
	}
	if name, ok := strings.CutPrefix(err.Error(), unknownOption); ok {
		if meant := nearest(strings.TrimLeft(name, "-"), named(c.Command.Flags)); meant != "" {
			hint = dashes(meant)
		}
		return usage("no option "+dashes(name), hint)
	}
	if name, ok := strings.CutPrefix(err.Error(), noValue); ok {
		return usage("no value for "+dashes(name), hint)
	}
	return usage(err.Error(), hint)
}

// named are the names of options, without their dashes, which would count as letters that are right.
func named(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	return names
}

// dashes writes an option as it is typed; urfave/cli names it with one dash, however long it is.
func dashes(name string) string {
	if name = strings.TrimLeft(name, "-"); len(name) > 1 {
		return "--" + name
	}
	return "-" + name
}

// newCommand makes a command of a table of options.
func newCommand(name, help string, options []*option, action func(*cli.Context, *settings) error) *cli.Command {
	c, given := bareCommand(name, help, options)
	c.Action = func(c *cli.Context) error {
		s, err := gather(options, given, os.LookupEnv)
		if err != nil {
			return err
		}
		return action(c, s)
	}
	return c
}

// bareCommand is a command that does nothing yet, and what its options are given as.
func bareCommand(name, help string, options []*option) (*cli.Command, func(name string) (string, bool)) {
	c := &cli.Command{Name: name, CustomHelpTemplate: help, HideHelpCommand: true, OnUsageError: onUsageError}
	words := map[string]*word{}
	for _, o := range options {
		words[o.name] = newWord(o)
		if !o.bare {
			c.Flags = append(c.Flags, words[o.name])
		}
	}
	return c, func(name string) (string, bool) { return words[name].value, words[name].set }
}

// A word is an option on the command line, as urfave/cli has it. Its own kinds of flag look at every name with regular
// expressions, several times: that would be a tenth of a run.
type word struct {
	*option
	names []string
	value string
	set   bool
}

func newWord(o *option) *word {
	if o.alias == "" {
		return &word{option: o, names: []string{o.name}}
	}
	return &word{option: o, names: []string{o.name, o.alias}}
}

func (w *word) Names() []string { return w.names }

// Apply is where a command line begins: doctor reads one after the other, and --help is one word for all of them.
func (w *word) Apply(flags *flag.FlagSet) error {
	w.value, w.set = "", false
	for _, name := range w.names {
		flags.Var(w, name, "")
	}
	return nil
}

func (w *word) Set(value string) error {
	w.value, w.set = value, true
	return nil
}

func (w *word) IsSet() bool { return w.set }

func (w *word) IsBoolFlag() bool { return w.flag }

// String is what urfave/cli hands from one form of an option to the other.
func (w *word) String() string {
	if w == nil || w.option == nil { // package flag asks a zero value for its default
		return ""
	}
	return w.value
}

// reorder puts the options of a command before its job, where urfave/cli looks for them. What follows the command of run
// and explain is that command's own, and stays where it is.
func reorder(args []string) []string {
	if len(args) < 2 || interspersed[args[1]] == nil {
		return args
	}
	var options, rest []string
	for words := args[2:]; len(words) > 0; {
		word := words[0]
		switch {
		case word == "--":
			rest, words = append(rest, words[1:]...), nil
			continue
		case len(word) > 1 && word[0] == '-':
			n := min(1+takesValue(interspersed[args[1]], word), len(words))
			options, words = append(options, words[:n]...), words[n:]
		default:
			rest, words = append(rest, word), words[1:]
		}
	}
	return slices.Concat(args[:2], options, []string{"--"}, rest)
}

// takesValue is 1 if the next word is this option's value.
func takesValue(options []*option, word string) int {
	name := strings.TrimLeft(word, "-")
	for _, o := range options {
		if (o.name == name || o.alias == name) && !o.flag {
			return 1
		}
	}
	return 0
}
