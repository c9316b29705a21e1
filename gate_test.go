package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A command and its test speak by files: it logs what it is at, and goes on when its gate is opened.

// A heldRun is an onceonly that has been started and not waited for. Its command runs until the gate is opened.
type heldRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	gate   string
	stderr bytes.Buffer
	ended  chan struct{}
	err    error
}

// launch starts onceonly, and returns at once.
func (h *host) launch(args ...string) *heldRun {
	h.t.Helper()
	return h.launchAs(h.command(args...))
}

func (h *host) launchAs(cmd *exec.Cmd) *heldRun {
	h.t.Helper()
	r := &heldRun{t: h.t, cmd: cmd, ended: make(chan struct{})}
	r.cmd.Stderr = &r.stderr
	if err := r.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { r.err = r.cmd.Wait(); close(r.ended) }()
	h.t.Cleanup(func() { r.cmd.Process.Kill(); <-r.ended })
	return r
}

// hold runs a command that writes to its log, and ends with the status that is written into its gate. It returns when the
// command has begun.
func (h *host) hold(log string, options ...string) *heldRun {
	h.t.Helper()
	gate := filepath.Join(h.t.TempDir(), "gate")
	r := h.launch(append(options, gated(log, gate)...)...)
	r.gate = gate
	eventually(h.t, "the command has begun", func() bool { return len(lines(gate+".began")) > 0 || r.over() })
	return r
}

// gated is a command that logs START, waits for the gate, and logs END.
func gated(log, gate string) []string {
	return []string{"--", "sh", "-c", `echo START $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"
		echo began >>"$1.began"; while [ ! -s "$1" ]; do sleep 0.02; done
		echo END $ONCEONLY_SLOT $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN $ONCEONLY_RUN_ID $$ $(date +%s%N) >>"$0"; exit $(cat "$1")`, log, gate}
}

func (r *heldRun) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// open lets the command end with that status.
func (r *heldRun) open(status int) {
	if err := os.WriteFile(r.gate+".new", fmt.Append(nil, status), 0o600); err != nil {
		r.t.Error(err)
	}
	if err := os.Rename(r.gate+".new", r.gate); err != nil {
		r.t.Error(err)
	}
}

// wait returns what it left, when it has ended.
func (r *heldRun) wait() result {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.t.Errorf("%v does not end", r.cmd.Args)
		r.cmd.Process.Kill()
		<-r.ended
	}
	return result{exitStatus(r.t, r.err), "", r.stderr.String()}
}

// die kills it and its command, as if the host went off.
func (r *heldRun) die() {
	r.t.Helper()
	child := childOf(r.t, r.cmd.Process.Pid)
	r.cmd.Process.Kill()
	syscall.Kill(-child, syscall.SIGKILL)
	<-r.ended
}

// A gateTrace is a line of gated's log.
type gateTrace struct {
	word, slot     string
	attempt, token int64
	runID          string
	pid            int
	at             time.Time
}

func gateTraces(t *testing.T, log string) []gateTrace {
	t.Helper()
	var all []gateTrace
	for _, text := range lines(log) {
		var e gateTrace
		var at int64
		if _, err := fmt.Sscan(text, &e.word, &e.slot, &e.attempt, &e.token, &e.runID, &e.pid, &at); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		e.at = time.Unix(0, at)
		all = append(all, e)
	}
	return all
}

// traceWords are what a log says, for comparison: START 2025-06-01 1.
func traceWords(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	for _, e := range gateTraces(t, log) {
		all = append(all, fmt.Sprintf("%s %s %d", e.word, e.slot, e.attempt))
	}
	return all
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func slotWrite(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func slotRemove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func caseTouch(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hasLine(name, line string) func() bool {
	return func() bool { return slices.Contains(lines(name), line) }
}
