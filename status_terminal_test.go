//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// Where status is read by a person there is colour and a legend, and its width is the terminal's business; elsewhere neither.

// On a terminal there is colour and a legend; not with NO_COLOR, nor on a dumb one, nor in a pipe that begins there. (SH-63)
func TestStatusOnTerminal(t *testing.T) {
	t.Parallel()
	newHost(t, "web-1").run("run", "--job", "bad", "--", "false")
	show := func(line string) string {
		tty := newTerminal(t, "sh", "-c", line+"; echo over-$?")
		tty.expect("over-0\r\n")
		tty.wait()
		shown, _, _ := strings.Cut(tty.screen(), "over-")
		return strings.ReplaceAll(shown, "\r\n", "\n")
	}
	plain := show("NO_COLOR=1 TERM=xterm onceonly status")
	if !strings.HasSuffix(plain, "\n1 job, 1 needs attention: bad\nhistory, newest right:  F failed\n") || strings.Contains(plain, "\x1b") {
		t.Errorf("without colour: %q", plain)
	}
	if dumb := show("TERM=dumb onceonly status"); dumb != plain {
		t.Errorf("on a dumb terminal: %q", dumb)
	}
	if got := show("TERM=xterm onceonly status"); !strings.Contains(got, "  \x1b[31mfailed\x1b[0m  ") || !strings.Contains(got, "\x1b[31mF\x1b[0m\n") {
		t.Errorf("in colour: %q", got)
	}
	if got := show("TERM=xterm onceonly status | cat"); !strings.HasSuffix(got, "\n1 job, 1 needs attention: bad\n") || strings.Contains(got, "\x1b") {
		t.Errorf("in a pipe: %q", got)
	}
}

// A terminal is one whoever controls it; a device that is none is not, and neither is a pipe or a file.
func TestIsTerminal(t *testing.T) {
	t.Parallel()
	master, slave := openTerminal(t) // not the controlling terminal of this process
	defer slave.Close()
	out, in := casePipe(t)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	file := caseCreate(t, t.TempDir()+"/file")
	for name, c := range map[string]struct {
		file *os.File
		want bool
	}{"terminal": {slave, true}, "its other end": {master, true}, "/dev/null": {null, false}, "/dev/zero": {zero, false}, "a pipe": {out, false},
		"a pipe's end": {in, false}, "a file": {file, false}} {
		if got := isTerminal(int(c.file.Fd())); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if isTerminal(1 << 20) {
		t.Error("a descriptor that is not open is a terminal")
	}
}
