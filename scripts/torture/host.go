//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A host has a name, a state directory and a network of its own, in namespaces where the machine allows, and the crontab
// lines that all have.
type host struct {
	name    string
	net     *network
	memory  *memory // nil: not bounded
	state   string
	program string
	url     string
	env     []string
}

// A line is a crontab line: the same on every host.
type line struct {
	job      string
	lease    time.Duration
	attempts int
	overlap  string
	standby  bool
	timeout  time.Duration
	grace    time.Duration // --kill-after
	patience time.Duration // --redis-wait
	waits    time.Duration // --wait-max
}

// Exit statuses that tell the verdicts apart.
const (
	statusBusy   = 10
	statusDone   = 11
	statusFailed = 12
)

func (l *line) args(h *host, slot, self string) []string {
	args := []string{"run", "--job", l.job, "--date", slot, "--every", "day", "--lease", l.lease.String(),
		"--attempts", strconv.Itoa(l.attempts), "--overlap", l.overlap, "--wait-max", l.waits.String(),
		"--retry-delay", "50ms", "--redis-wait", l.patience.String(), "--kill-after", l.grace.String(),
		"--exit-busy", strconv.Itoa(statusBusy), "--exit-done", strconv.Itoa(statusDone),
		"--exit-failed", strconv.Itoa(statusFailed)}
	if h.net.namespace == nil { // else it is the kernel's
		args = append(args, "--host", h.name)
	}
	if l.standby {
		args = append(args, "--standby")
	}
	if l.timeout > 0 {
		args = append(args, "--timeout", l.timeout.String())
	}
	return append(args, "--", self, "job")
}

// start starts onceonly for a slot.
func (h *host) start(s *scene, l *line, slot string, last bool) (*ask, *exec.Cmd, error) {
	cmd := exec.Command(h.program, l.args(h, slot, s.stage.self)...)
	cmd.Env = append(os.Environ(), h.env...)
	cmd.Env = append(cmd.Env, "ONCEONLY_REDIS="+h.url, "ONCEONLY_STATE_DIR="+h.state, "TZ=UTC", "ONCEONLY_CONFIG="+os.DevNull)
	if last {
		cmd.Env = append(cmd.Env, envBrief+"=20")
	}
	said, err := os.CreateTemp(s.dir, "said-*") // a file: a pipe would be waited on until all of the command is gone
	if err != nil {
		return nil, nil, err
	}
	defer said.Close()
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	a := &ask{job: l.job, slot: slot, host: h.name, attempts: l.attempts, began: bootNow(), ended: never, last: last,
		old: h.program != s.program}
	h.net.namespace.do(func() { err = cmd.Start() })
	if err != nil {
		return nil, nil, err
	}
	h.memory.bound(cmd.Process.Pid)
	a.pid = cmd.Process.Pid
	s.history.addAsk(a)
	return a, cmd, nil
}

// await reaps onceonly and notes how it left.
func (a *ask) await(s *scene, cmd *exec.Cmd) {
	cmd.Wait()
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	a.ended = bootNow()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	a.status = status.ExitStatus()
	if status.Signaled() {
		a.status = 128 + int(status.Signal())
	}
	if status.Signaled() && status.Signal() == syscall.SIGKILL && a.killed == 0 && s.history.outOfMemory(a) {
		a.killed = a.ended
		s.history.kills = append(s.history.kills, &kill{step: memoryFull, target: "wrapper", wrapper: a.pid, at: a.ended, hit: true})
	}
	name := cmd.Stderr.(*os.File).Name()
	text, _ := os.ReadFile(name)
	os.Remove(name)
	a.text = string(text)
}

// spooled are the ends that the host still keeps, and those that it has given up.
func (h *host) spooled() []string {
	files, _ := filepath.Glob(filepath.Join(h.state, "*.json"))
	more, _ := filepath.Glob(filepath.Join(h.state, "undelivered", "*"))
	return append(files, more...)
}
