//go:build linux && !race

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody reads on what onceonly says, and the pipe is full: the lease is renewed all the same, the end is written, and who
// reads later misses nothing.
func TestStderrIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	size, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	full := strings.Repeat("x", size)
	io.WriteString(write, full)
	px, gate := newProxy(t, shared.address()), filepath.Join(t.TempDir(), "gate")
	cmd := newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", "--lease 6s", gated(gate+".log", gate)[1:]...)...)
	cmd.Stderr = write
	p := caseStart(t, cmd)
	write.Close()
	eventually(t, "the command has begun", func() bool { return len(lines(gate+".began")) > 0 })
	for n := range 4 {
		px.dropReply("EVAL", n+1, true)
	}
	eventually(t, "renewals go on", func() bool { return px.dropsLeft() == 0 })
	caseTouch(t, gate, "0")
	eventually(t, "the end is written", func() bool { return entryOf(t, "j", caseDay).State == "done" })
	said, err := io.ReadAll(read)
	if err != nil || !strings.HasPrefix(string(said), full+"onceonly: j "+caseDay+": lease not renewed for ") {
		t.Errorf("%q, %v", strings.TrimPrefix(string(said), full), err)
	}
	p.wait().want(t, 0, "")
}
