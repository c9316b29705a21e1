package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What is wrong with a crontab as a file, so that cron takes none of its lines.

// cronName is what Debian's cron takes as the name of a file in /etc/cron.d.
var cronName = pattern(`^[A-Za-z0-9_-]+$`)

// leftover are files that a package manager or an editor has left, which nobody means to be read.
var leftover = pattern(`^\.|~$|\.(dpkg|ucf|rpm)[a-z-]*$`)

func (d *doctor) checkCrontab(c *crontab) {
	inFolder, name := filepath.Dir(c.file) == cronFolder, filepath.Base(c.file)
	if inFolder && leftover().MatchString(name) {
		return
	}
	before := len(d.findings)
	for _, l := range c.lines {
		d.checkLine(l, c.column)
	}
	if len(d.findings) == before {
		return
	}
	say := func(text, hint string) {
		d.findings = append(d.findings, finding{Level: failure, Subject: "file", File: c.file, Text: text, Hint: hint})
	}
	if c.unended {
		say("no newline at the end: cron ignores the file", "")
	}
	if len(d.named) > 0 && !inFolder {
		return
	}
	if inFolder && !cronName().MatchString(name) {
		say("only letters, digits, - and _ may be in its name: Debian's cron ignores the file", "mv "+quoteWord(c.file)+" "+quoteWord(plainName(c.file)))
	}
	if c.column {
		d.checkOwner(c, say)
	}
}

func plainName(file string) string {
	return filepath.Join(filepath.Dir(file), strings.ReplaceAll(filepath.Base(file), ".", "-"))
}

// checkOwner wants a system crontab to be root's.
func (d *doctor) checkOwner(c *crontab, say func(text, hint string)) {
	info, err := os.Stat(d.path(c.file))
	if err != nil {
		return
	}
	if info.Sys().(*syscall.Stat_t).Uid != 0 {
		say("not owned by root: cron ignores the file", "chown root "+quoteWord(c.file))
	}
	if info.Mode()&0o022 != 0 {
		say("others than root may write to it: cron ignores the file", "chmod 644 "+quoteWord(c.file))
	}
}

// checkUser wants a user where there must be one, and none where there is none. It says whether to look on.
func (p *patient) checkUser(column bool) bool {
	first, _ := takeWords(p.at.command, 2)
	switch {
	case column && (strings.ContainsAny(p.at.user, "/=") || base(p.at.user) == "onceonly" || slices.Contains(leading, p.at.user)):
		p.say(failure, "no user: in this file the word after the fields is one", p.at.fields+" root "+p.at.user+" "+p.at.command)
		return false
	case column && p.here() && unknownUser(p.at.user):
		p.say(failure, fmt.Sprintf("no user %q on this host: cron ignores the line", p.at.user), "")
	case !column && len(first) > 1 && base(first[1]) == "onceonly" && loginName().MatchString(first[0]) && !beginsCommand(first[0]):
		p.say(failure, fmt.Sprintf("%q would be the command: only /etc/crontab and /etc/cron.d name users", first[0]), "")
		return false
	}
	return true
}

func unknownUser(name string) bool {
	var unknown user.UnknownUserError
	_, err := user.Lookup(name)
	return errors.As(err, &unknown)
}
