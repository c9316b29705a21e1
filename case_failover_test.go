//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The master freezes with a question under way, and the Sentinels make another one, which never sees that question. What the
// old one makes of it when it comes back is lost with the rest that it wrote alone.

// freeze stops the master for as long as the Sentinels take to make another, and returns what lets it go on.
func (w *sentinels) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	process := w.master.cmd.Process
	if err := process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = func() { process.Signal(unix.SIGCONT) }
	t.Cleanup(thaw)
	return thaw
}

func (w *sentinels) moves(t *testing.T, from string) {
	t.Helper()
	eventually(t, "another master", func() bool { return w.current() != from && w.current() != "" })
}

// A begin that the master does not answer is asked of the next one: the command runs, once, also when the old master comes
// back and executes what it was asked.
func TestFailoverInBegin(t *testing.T) {
	t.Parallel()
	w, log := newSentinels(t), filepath.Join(t.TempDir(), "log")
	url, before := "ONCEONLY_REDIS="+w.url(), w.current()
	newHost(t, "web-9", url).run("run", "--job", "j", "--date", "2024-02-28", "--", "true").want(t, 0, "")
	l := &ledger{w.replica.rdb, namespaceOf(t)}
	eventually(t, "the replica has it", func() bool { return l.HExists(context.Background(), l.keys("j")[2], "2024-02-28").Val() })
	thaw := w.freeze(t)
	args := caseRun("j", "--lease 30s --redis-wait 30s --exit-done 6", effects(log, "sleep 1")[1:]...)
	a := caseStart(t, newHost(t, "web-1", url).command(args...))
	w.moves(t, before)
	eventually(t, "it begins", started(log))
	thaw()
	a.wait().want(t, 0, "")
	newHost(t, "web-2", url).run(args...).want(t, 6, "")
	if e := entryIn(t, w.replica.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 || len(readEffects(t, log, false)) != 1 {
		t.Errorf("entry %+v, effects %q", e, lines(log))
	}
}

// An end that the master does not take is told to the next one, as long as the lease lasts.
func TestFailoverInFinish(t *testing.T) {
	t.Parallel()
	w, ends := newSentinels(t), newEnder(t)
	url, before := "ONCEONLY_REDIS="+w.url(), w.current()
	h := newHost(t, "web-1", url)
	a := caseStart(t, h.command(caseRun("j", "--lease 60s", ends.command("0")...)...))
	eventually(t, "the command runs", ends.up)
	eventually(t, "the replica has it", func() bool { return heldIn(t, w.replica.rdb, "j") })
	w.freeze(t)
	ends.end(t)
	w.moves(t, before)
	a.wait().want(t, 0, "")
	if e := entryIn(t, w.replica.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 || e.Kept || len(h.kept()) != 0 {
		t.Errorf("entry %+v, kept %q", e, h.kept())
	}
}
