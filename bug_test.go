package main

import (
	"bytes"
	"io"
	"testing"
)

// A buggy writer stands for any bug of onceonly's: whoever writes to it meets a panic.
type buggy struct{ bug any }

func (b buggy) Write([]byte) (int, error) { panic(b.bug) }

// A bug is one line and 70, not a trace of the stack, which cron would mail. Not parallel: the command line is urfave/cli's,
// which has it in variables of its own.
func TestBugIsOneLine(t *testing.T) {
	newHost(t, "web-1").run(caseRun("j", "", "true")...).want(t, 0, "")
	redis := []string{"--redis", shared.url(), "--namespace", namespaceOf(t)}
	for _, args := range [][]string{
		append([]string{"onceonly", "status"}, redis...),
		append(append([]string{"onceonly", "explain"}, redis...), caseRun("j", "", "true")[1:]...),
		{"onceonly", "--version"}, {"onceonly", "run", "--help"},
	} {
		for bug, text := range map[any]string{"two\nlines": "two lines", io.ErrUnexpectedEOF: "unexpected EOF"} {
			var said bytes.Buffer
			status, _ := onceonly(args, buggy{bug}, &said)
			result{status: status, stderr: said.String()}.want(t, exitBug, "onceonly: a bug: "+text+"\n")
		}
	}
}
