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
	pid     int
	tty     *tty
	ended   chan struct{}       // closed when the leader has ended; it is not yet reaped
	stopped chan syscall.Signal // what has stopped it; told only with a terminal
	typed   syscall.Signal      // what has ended it, if that can be typed at its terminal
}

// startChild starts the command. It must be called from a thread that lives until the command has ended: when it ends, the
// parent-death signal comes.
func startChild(argv, environ []string) (*child, error) {
	path, err := lookUp(argv[0])
	if err != nil {
		return nil, err
	}
	c := &child{tty: openTTY(), ended: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	attr := &syscall.ProcAttr{Env: environ, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if c.tty.isDue() {
		attr.Sys.Foreground, attr.Sys.Ctty = true, 0
	}
	dieWithParent(attr.Sys)
	if c.pid, err = syscall.ForkExec(path, argv, attr); err != nil {
		c.tty.close()
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
	for {
		stop := awaitChange(c.pid, c.tty != nil)
		if stop == 0 {
			break
		}
		select { // only the last one counts
		case <-c.stopped:
		default:
		}
		c.stopped <- stop
	}
	close(c.ended)
}

// lookUp finds the command in PATH, as a shell would; a relative hit is what the user's PATH asks for.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
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

// end returns how the leader ended; the terminal is ours again, if it still was the command's. With sweep, what is left of
// the group is killed first, while its number cannot have been given to anybody else.
func (c *child) end(sweep bool) syscall.WaitStatus {
	<-c.ended
	if sweep {
		c.signal(unix.SIGKILL)
	}
	had := c.tty.takeBack(c.pid)
	c.tty.close()
	status := reap(c.pid)
	if s := status.Signal(); c.tty != nil && status.Signaled() && (s == unix.SIGINT || s == unix.SIGQUIT) {
		c.typed = s
		if had {
			tellGroup(s)
		}
	}
	return status
}

// reap waits for a process of ours, and returns how it ended.
func reap(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
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
