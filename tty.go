package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// The terminal is the command's while it runs, as if it stood in the shell's line itself: it reads what is typed, ^Z stops it
// and onceonly with it, fg brings both back. A command that reads something else than the terminal gets it when it asks for
// it, as for a password: until then others of the pipeline may be reading from it.

// A tty is the terminal that onceonly was started from; nil where there is none, as below cron.
type tty struct {
	fd     int
	wanted bool           // the command's standard input is it, or the command has asked for it
	stops  chan os.Signal // ^Z, where it comes to us and not to the command
}

func openTTY() *tty {
	if isTerminal(0) {
		return &tty{wanted: true}
	}
	if !tellsStops {
		return nil
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &tty{fd: fd, stops: make(chan os.Signal, 1)}
	if !isIgnored(unix.SIGTSTP) {
		signal.Notify(t.stops, unix.SIGTSTP)
	}
	return t
}

func (t *tty) close() {
	if t == nil || t.stops == nil {
		return
	}
	unix.Close(t.fd)
	if !isIgnored(unix.SIGTSTP) {
		signal.Ignore(unix.SIGTSTP)
		unignore(unix.SIGTSTP)
	}
}

// asked tells of each ^Z that the command has not heard.
func (t *tty) asked() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.stops
}

// foreground is the group that has the terminal, -1 where it is none of ours. As process 1 our own group may be 0.
func (t *tty) foreground() int {
	if t == nil {
		return -1
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

func (t *tty) isOurs() bool { return t.foreground() == unix.Getpgrp() }

// give makes a group the foreground. Who is in the background would be stopped for that.
func (t *tty) give(group int) (err error) {
	ignoring(unix.SIGTTOU, func() { err = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
	return err
}

// takeBack makes the terminal ours again, if it is the command's or that of a group that is gone. The shell may have given it
// to others meanwhile.
func (t *tty) takeBack(command int) {
	if group := t.foreground(); group == command || group > 0 && unix.Kill(-group, 0) == unix.ESRCH {
		t.give(unix.Getpgrp())
	}
}

// suspend is for a command that was stopped. If it was for the terminal, and we can give it that, it goes on. If nobody waits
// at the terminal, whoever stopped it lets it go on. Otherwise onceonly stops, and who is in its group, so that the shell has
// its prompt again; it returns when all go on. The lease runs on: should it run out, the guard kills the command.
func (c *child) suspend(by syscall.Signal) {
	t := c.tty
	switch asks := by == unix.SIGTTIN || by == unix.SIGTTOU; {
	case asks && t.isOurs() && t.give(c.pid) == nil:
		t.wanted = true
		c.signal(unix.SIGCONT)
		return
	case by == unix.SIGSTOP && t.foreground() != c.pid:
		return
	}
	t.takeBack(c.pid)
	stopHere(by)
	c.resume()
}

// resume lets the command go on, with the terminal if that is ours: in the background it is somebody else's.
func (c *child) resume() {
	if t := c.tty; t != nil && t.wanted && t.isOurs() {
		t.give(c.pid)
	}
	c.signal(unix.SIGCONT)
}
