package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Whether what a line names is found: onceonly, the command, the files that its user must read.

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
