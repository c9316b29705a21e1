//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A command that cannot be guarded, as onceonly's own file is gone, runs all the same; that is no more than a remark.
func TestNoGuard(t *testing.T) {
	t.Parallel()
	self := filepath.Join(t.TempDir(), "onceonly")
	if err := exec.Command("cp", binary, self).Run(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Remove(self); err != nil {
		t.Fatal(err)
	}
	const said = "onceonly: j " + caseDay + ": no guard: no such file or directory\n"
	gate := filepath.Join(t.TempDir(), "gate")
	cmd := newHost(t, "web-1").command(append([]string{"run", "-v", "--job", "j", "--date", caseDay}, gated(gate+".log", gate)...)...)
	cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{file}
	p := caseStart(t, cmd)
	eventually(t, "it is said", func() bool { return manualRead(t, p.err) == said })
	caseTouch(t, gate, "0")
	p.wait().wantMatch(t, 0, said)
}
