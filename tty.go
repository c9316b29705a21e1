package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// The terminal is the command's while it runs, as if it stood in the shell's line itself: it reads what is typed, ^Z stops it
// and onceonly with it, fg brings both back. Where others may be reading from the terminal, as a pager behind the command, or
// the command reads something else, it gets the terminal when it asks for it, as for a password.

// A tty is the terminal that onceonly was started from; nil where there is none, as below cron.
type tty struct {
	fd     int
	wanted bool           // the command is to have it whenever it is ours
	stops  chan os.Signal // ^Z, where it comes to us and not to the command
}

func openTTY() *tty {
	t := &tty{stops: make(chan os.Signal, 1)}
	switch {
	case isTerminal(0):
		t.wanted = isTerminal(1) || !tellsStops
	case !tellsStops:
		return nil
	default:
		fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		t.fd = fd
	}
	if tellsStops && !isIgnored(unix.SIGTSTP) {
		signal.Notify(t.stops, unix.SIGTSTP)
	}
	return t
}

func (t *tty) close() {
	if t == nil {
		return
	}
	if t.fd != 0 {
		unix.Close(t.fd)
	}
	if tellsStops && !isIgnored(unix.SIGTSTP) {
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

// isDue says whether the command is to have the terminal now: in the background it is somebody else's.
func (t *tty) isDue() bool { return t.isOurs() && t.wanted }

// give makes a group the foreground. Who is in the background would be stopped for that.
func (t *tty) give(group int) (err error) {
	ignoring(unix.SIGTTOU, func() { err = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
	return err
}

// takeBack makes the terminal ours again, if it is the command's or that of a group that is gone. The shell may have given it
// to others meanwhile. It says whether it was the command's.
func (t *tty) takeBack(command int) bool {
	group := t.foreground()
	if group == command || group > 0 && unix.Kill(-group, 0) == unix.ESRCH {
		t.give(unix.Getpgrp())
	}
	return group == command
}

// tellGroup sends the others of our group what the terminal has sent to the command alone: a script goes no further, and
// what is before and behind in a pipeline ends.
func tellGroup(s syscall.Signal) {
	if !isIgnored(s) {
		ignoring(s, func() { unix.Kill(0, s) })
	}
}

// dieOf ends onceonly as the command was ended: a shell asks whether it was by a signal, and not for 130, to leave a loop.
func dieOf(s syscall.Signal) {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	signal.Ignore(s)
	unignore(s)
	raise(s)
}

// suspend is for a command that was stopped. If it was for the terminal, and we can give it that, it goes on. If nobody waits
// at the terminal, whoever stopped it lets it go on. Otherwise onceonly stops, and who is in its group, so that the shell has
// its prompt again; it returns when all go on. The lease runs on: should it run out, the guard kills the command.
func (c *child) suspend(by syscall.Signal) {
	t := c.tty
	if !isStopped(c.pid) { // somebody has let it go on meanwhile
		return
	}
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

// resume lets the command go on.
func (c *child) resume() {
	if c.tty.isDue() {
		c.tty.give(c.pid)
	}
	c.signal(unix.SIGCONT)
}
