package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// The command's life: started in a process group of its own, signalled as a group, reaped last. Its standard streams are
// ours, handed over; nothing is copied.

// passedOn are the signals that the command gets when onceonly gets them.
var passedOn = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT,
	unix.SIGWINCH}

// listen subscribes to what is passed on, except what onceonly was started ignoring: to subscribe would end that, for the
// command too.
func listen() chan os.Signal {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.DeleteFunc(slices.Clone(passedOn), signal.Ignored)...)
	return signals
}

// A child is the running command. Its process group has the number pid, and keeps it until end.
type child struct {
	pid      int
	terminal bool          // its standard input is one
	ended    chan struct{} // closed when the leader has ended; it is not yet reaped
	paused   chan struct{} // the terminal has stopped it
}

// startChild starts the command. It must be called from a thread that lives until the command has ended: when it ends, the
// parent-death signal comes.
func startChild(argv, environ []string) (*child, error) {
	path, err := lookUp(argv[0])
	if err != nil {
		return nil, err
	}
	c := &child{terminal: isTerminal(0), ended: make(chan struct{}), paused: make(chan struct{}, 1)}
	attr := &syscall.ProcAttr{Env: environ, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if foreground() == unix.Getpgrp() {
		attr.Sys.Foreground, attr.Sys.Ctty = true, 0
	}
	dieWithParent(attr.Sys)
	if c.pid, err = syscall.ForkExec(path, argv, attr); err != nil {
		return nil, &fs.PathError{Op: "exec", Path: argv[0], Err: err}
	}
	go c.await()
	if os.Getpid() == 1 {
		go c.inherit()
	}
	return c, nil
}

// inherit reaps what others leave to us, as process 1 of a container, until the command has ended. That is reaped last.
func (c *child) inherit() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		for _, pid := range deadBelow(1) {
			if pid != c.pid { // the guard may be among them; who waits for it hears that it is gone
				syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
		select {
		case <-died:
		case <-c.ended:
			return
		}
	}
}

// await tells of the leader's end, and of its stops where a terminal makes them.
func (c *child) await() {
	for awaitChange(c.pid, c.terminal) == stoppedNow {
		select {
		case c.paused <- struct{}{}:
		default:
		}
	}
	close(c.ended)
}

// suspend stops onceonly, and who is in its group, as the terminal has stopped its command, so that the shell has its prompt
// again, and returns when all go on. The lease runs on: should it run out, the guard kills the command.
func (c *child) suspend() {
	c.giveBack()
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Ignore(unix.SIGTSTP)
		unix.Kill(0, unix.SIGTSTP)
		signal.Reset(unix.SIGTSTP)
	}
	stopHere()
	c.resume()
}

// resume lets the command go on, with the terminal if that is ours: in the background it is somebody else's.
func (c *child) resume() {
	if foreground() == unix.Getpgrp() {
		takeTerminal(c.pid)
	}
	c.signal(unix.SIGCONT)
}

// giveBack makes the terminal ours again, if it is the command's or that of a group that is gone. The shell may have given it
// to others meanwhile.
func (c *child) giveBack() {
	if group := foreground(); group == c.pid || group > 0 && unix.Kill(-group, 0) == unix.ESRCH {
		takeTerminal(unix.Getpgrp())
	}
}

// lookUp finds the command in PATH, as a shell would; a relative hit is what the user's PATH asks for.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
}

// foreground is the foreground group of the terminal that stdin is, -1 where it is none of ours. As process 1 our own group
// may be 0.
func foreground() int {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// signal sends to the whole group. Once the group is gone there is nobody to hear it. Who is stopped hears only when it goes
// on. An error is that nobody in the group may be signalled: a command can become another user.
func (c *child) signal(s os.Signal) (err error) {
	if unix.Kill(-c.pid, s.(unix.Signal)) == unix.EPERM {
		err = unix.EPERM
	}
	if asksToStop(s) && isStopped(c.pid) {
		unix.Kill(-c.pid, unix.SIGCONT)
	}
	return err
}

// end returns how the leader ended; the terminal is ours again, if it still was the command's. With sweep, what is left of the group is killed first,
// while its number cannot have been given to anybody else.
func (c *child) end(sweep bool) syscall.WaitStatus {
	<-c.ended
	if sweep {
		c.signal(unix.SIGKILL)
	}
	c.giveBack()
	return reap(c.pid)
}

// reap waits for a process of ours, and returns how it ended.
func reap(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}

// takeTerminal makes a group the terminal's foreground. Who is in the background would be stopped for asking.
func takeTerminal(group int) {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
}

// statusOf is the exit status of a command: its own, or 128 and the number of the signal that killed it.
func statusOf(w syscall.WaitStatus) int {
	if w.Signaled() {
		return exitSignal + int(w.Signal())
	}
	return w.ExitStatus()
}

// signalName is TERM for SIGTERM.
func signalName(s syscall.Signal) string {
	name := unix.SignalName(s)
	if len(name) > 3 {
		return name[3:]
	}
	return s.String()
}

// startFailure is the exit status and the reason of a command that could not be started, as a shell has them: 127 if it
// is not there, 126 if it cannot be executed.
func startFailure(err error) (int, string) {
	var failed *exec.Error
	status, reason := exitCannotExec, cause(err)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		status, reason = exitNotFound, "not found in PATH"
		if errors.As(err, &failed) && os.Getenv("PATH") == "" {
			reason = "PATH is unset"
		}
	case errors.Is(err, fs.ErrNotExist):
		status = exitNotFound
	}
	return status, reason
}
