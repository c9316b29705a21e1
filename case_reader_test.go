//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"testing"
	"time"
)

// Nobody reads what the command writes.

// SH-51: nobody reads the command's output for longer than two leases. The lease is kept, nobody else begins, all arrives.
func TestCaseReaderSleeps(t *testing.T) {
	t.Parallel()
	out, in := casePipe(t)
	cmd := newHost(t, "web-1").command(caseRun("slow", "--lease 3s", caseSelf(t), "case:bytes", "1000000", "0")...)
	cmd.Stdout = in
	p := caseStart(t, cmd)
	in.Close()
	eventually(t, "it begins", func() bool { return isHeld(t, "slow") })
	rival := newHost(t, "web-2")
	for until := time.Now().Add(time.Duration(rounds(7, 20)) * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		rival.run(caseRun("slow", "--lease 3s --exit-busy 5", "true")...).want(t, 5, "")
	}
	if sumOf(out) != sumOf(caseBytes(1000000)) {
		t.Error("other bytes arrived")
	}
	p.wait().want(t, 0, "")
	wantEntry(t, "slow", "done", 0, "", "")
}
