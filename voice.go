package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// A voice says what a person should know, on stderr, in syslog or on both. That it cannot be heard never changes what
// happens.
type voice struct {
	w       io.Writer
	verbose bool // say on stderr also what is normal; in syslog it always is
	log     string
	settled bool // log is what the options say
}

func (v *voice) say(format string, args ...any) { v.speak(false, format, args...) }

// normally says what is normal.
func (v *voice) normally(format string, args ...any) { v.speak(true, format, args...) }

// speak says one line. What syslog was to have and does not take, stderr gets: better there than nowhere.
func (v *voice) speak(normal bool, format string, args ...any) {
	shown := v.verbose || !normal
	if !shown && !v.inSyslog() {
		return
	}
	text := oneLine(fmt.Sprintf(format, args...))
	taken := v.inSyslog() && logLine(normal, text) == nil
	if shown && (v.log != "syslog" || !taken) {
		io.WriteString(v.w, "onceonly: "+text+"\n")
	}
}

func (v *voice) inSyslog() bool { return v.log == "syslog" || v.log == "both" }

func (v *voice) hint(text string) {
	if text != "" {
		v.say("hint: %s", text)
	}
}

// leave says what an exit has to say.
func (v *voice) leave(e *exit) {
	if e.msg == "" {
		return
	}
	v.speak(e.normal, "%s", e.msg)
	if e.hint != "" {
		v.speak(e.normal, "hint: %s", e.hint)
	}
}

// heed makes the voice speak as the options say.
func (v *voice) heed(s *settings) {
	v.verbose = v.verbose || s.verbose
	v.log, v.settled = s.log, true
}

// follow makes what is wrong with a command's words be said where its --log says, as far as that can be known: a host
// without mail would hear of it nowhere else.
func (v *voice) follow(c *cli.Command) *cli.Command {
	action, onUsageError := c.Action, c.OnUsageError
	c.Action = func(ctx *cli.Context) error {
		err := action(ctx)
		v.guess(c, err)
		return err
	}
	c.OnUsageError = func(ctx *cli.Context, err error, sub bool) error {
		v.guess(c, err)
		return onUsageError(ctx, err, sub)
	}
	return c
}

// guess finds --log alone, where options were not understood. A file that cannot be read may say anything, so then it is
// both.
func (v *voice) guess(c *cli.Command, err error) {
	if err == nil || v.settled {
		return
	}
	given := func(name string) (string, bool) {
		for _, f := range c.Flags {
			if w := f.(*word); w.name == name {
				return w.value, w.set
			}
		}
		return "", false
	}
	for _, o := range runOptions {
		if o.name != "log" {
			continue
		}
		file, unread := readConfig(os.LookupEnv)
		at, found := find(o, given, os.LookupEnv, file)
		s := &settings{}
		if found && o.set(s, at.value) == nil {
			v.log = s.log
		} else if unread != nil {
			v.log = "both"
		}
	}
}

// oneLine keeps a message one line, whatever a server or a user put into it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
