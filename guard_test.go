//go:build linux && !race

package main

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that cannot be guarded, as onceonly may open no file more, goes on all the same; that is no more than a remark,
// made once. As soon as there can be a guard there is one.
func TestNoGuard(t *testing.T) {
	t.Parallel()
	const said = "onceonly: j " + caseDay + ": no guard: too many open files\n"
	gate := filepath.Join(t.TempDir(), "gate")
	p := caseStart(t, newHost(t, "web-1").command(append([]string{"run", "-v", "--job", "j", "--date", caseDay}, gated(gate+".log", gate)...)...))
	eventually(t, "the command has begun", func() bool { return len(lines(gate+".began")) > 0 })
	var before unix.Rlimit
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(soft uint64) {
		t.Helper()
		if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: before.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(3)
	group := gateTraces(t, gate+".log")[0].pid
	eventually(t, "it is said", func() bool {
		for _, pid := range guardsOf(group) { // one that was started before, on a slow machine
			unix.Kill(pid, unix.SIGKILL)
		}
		return manualRead(t, p.err) == said
	})
	limit(before.Cur)
	eventually(t, "there is a guard after all", func() bool { return len(guardsOf(group)) > 0 })
	caseTouch(t, gate, "0")
	p.wait().wantMatch(t, 0, said)
}
