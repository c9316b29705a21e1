//go:build linux && !race

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var _ = caseHelper("case:root", helpRoot)

// helpRoot becomes root, as its file allows, and stays until its standard input ends.
func helpRoot([]string) int {
	if err := unix.Setresuid(0, 0, 0); err != nil {
		return 1
	}
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// A command that has become root is out of the reach of a onceonly that is not: that is said once.
func TestCannotBeStopped(t *testing.T) {
	t.Parallel()
	s := newStranger(t, "54324")
	helper := filepath.Join(s.dir, "helper")
	copyFile(t, caseSelf(t), helper)
	os.Chmod(helper, 0o755|os.ModeSetuid)
	cmd := s.onceonly(t, shared.url(), caseRun("j", "--timeout 1s -k 100ms", helper, "case:root")...)
	life, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := caseStart(t, cmd)
	said := "onceonly: j " + caseDay + ": cannot be stopped: operation not permitted\n"
	eventually(t, "it is said", func() bool { return manualRead(t, p.err) == said })
	life.Close()
	p.wait().wantMatch(t, 124, regexp.QuoteMeta(said)+"onceonly: j [^\n]+ longer than --timeout 1s\n")
}

// A command that has used up its user's limit on processes is none the worse for onceonly's not being able to start any
// more: the lease is renewed over new connections, a guard that dies is followed by another when there is room again, and
// the end is written.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	s := newStranger(t, "54323")
	os.Chmod(s.dir, 0o777)
	px, gate := newProxy(t, shared.address()), filepath.Join(s.dir, "gate")
	p := caseStart(t, s.onceonly(t, px.url(), caseRun("j", "-v --lease 3s", gated(gate+".log", gate)[1:]...)...))
	eventually(t, "the command has begun", func() bool { return len(lines(gate+".began")) > 0 })
	group := gateTraces(t, gate+".log")[0].pid
	guarded := func() bool { return len(guardsOf(group)) > 0 }
	eventually(t, "there is a guard", guarded)
	limit := func(soft string) { // root may not have the right to
		t.Helper()
		out, err := s.command("prlimit", "--pid", fmt.Sprint(p.Process.Pid), "--nproc="+soft+":").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	limit("1")
	for range 8 {
		px.dropReply("EVAL", 1, true)
		eventually(t, "a connection is lost", func() bool { return px.dropsLeft() == 0 })
	}
	for _, pid := range guardsOf(group) {
		unix.Kill(pid, unix.SIGKILL)
	}
	said := "onceonly: j " + caseDay + ": no guard: resource temporarily unavailable\n"
	eventually(t, "there can be no other", func() bool { return strings.HasSuffix(manualRead(t, p.err), said) })
	limit("1000")
	eventually(t, "there is another guard", guarded)
	caseTouch(t, gate+".new", "0")
	os.Chmod(gate+".new", 0o644)
	os.Rename(gate+".new", gate)
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+")*"+regexp.QuoteMeta(said))
	wantEntry(t, "j", "done", 0, "", "")
}
