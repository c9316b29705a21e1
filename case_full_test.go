package main

import (
	"os"
	"testing"
)

// What status and explain are asked for cannot be written: one line, and 74, whatever the answer would have been. (SH-51)
func TestCaseAnswerCannotBeWritten(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run(caseRun("j", "", "true")...).want(t, 0, "")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { full.Close() })
	for _, args := range [][]string{{"status"}, {"status", "j"}, {"status", "--json"}, {"status", "j", "--date", caseDay}, {"status", "j", "--hosts"},
		{"explain", "--job", "j", "--date", caseDay, "--", "true"}, {"explain", "--job", "new", "--date", caseDay, "--", "true"}} {
		cmd := h.command(args...)
		cmd.Stdout = full
		caseStart(t, cmd).wait().want(t, exitUnrecorded, "onceonly: "+args[0]+": no space left on device\n")
	}
}
