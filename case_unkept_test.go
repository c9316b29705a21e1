//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the spool is no help: the end cannot be kept, or never delivered. It is told, and blocks nothing.

// What cannot be delivered is set aside and told once, and blocks neither the run nor the other ends: a file that is no end,
// and one whose job's ledger is no ledger.
func TestSpoolSetAside(t *testing.T) {
	t.Parallel()
	ctx, r := context.Background(), newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url())
	e1, e2 := newEnder(t), newEnder(t)
	a := caseStart(t, h.command(caseRun("broken", "--lease 1s", e1.command("0")...)...))
	b := caseStart(t, h.command(caseRun("whole", "--lease 1s", e2.command("0")...)...))
	eventually(t, "the commands run", func() bool { return e1.up() && e2.up() })
	r.stop()
	e1.end(t)
	e2.end(t)
	a.wait().wantMatch(t, 74, notRecorded("broken", "done", h.stateDir()))
	b.wait().wantMatch(t, 74, notRecorded("whole", "done", h.stateDir()))
	back(t, r)
	corrupt := map[string]string{"0000.1.json": `{"server":"127.0.`, "1111.1.json": "", "ffff.1.json": `{"job":"x"}`, "gggg.1.json": "\x00\xff\n\x1b[2J"}
	for name, text := range corrupt {
		caseTouch(t, filepath.Join(h.stateDir(), name), text)
	}
	if err := unix.Mkfifo(filepath.Join(h.stateDir(), "hhhh.1.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &ledger{r.rdb, namespaceOf(t)}
	r.rdb.Del(ctx, l.keys("broken")[2])
	r.rdb.Set(ctx, l.keys("broken")[2], "no ledger", 0)
	got := h.run(caseRun("next", "", "echo", "ran")...)
	if got.status != 0 || got.stdout != "ran\n" {
		t.Errorf("got %v", got)
	}
	said := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	if len(said) != 6 || strings.Count(got.stderr, "WRONGTYPE") != 1 || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("said %q", said)
	}
	for _, line := range said {
		if !strings.HasPrefix(line, "onceonly: ") || !strings.Contains(line, h.stateDir()) ||
			!regexp.MustCompile(`: cannot be delivered: .+; set aside$`).MatchString(line) {
			t.Errorf("said %q", line)
		}
	}
	if !strings.Contains(got.stderr, ": cannot be delivered: not an end; set aside\n") {
		t.Errorf("said %q", said)
	}
	if len(h.kept()) != 0 || len(h.setAside()) != 6 {
		t.Errorf("kept %v, set aside %v", h.kept(), h.setAside())
	}
	if e := entryIn(t, r.rdb, namespaceOf(t), "whole", caseDay); e.State != "done" {
		t.Errorf("entry %+v", e)
	}
	h.run(caseRun("after", "", "true")...).want(t, 0, "")
	if len(h.setAside()) != 6 {
		t.Errorf("set aside %v", h.setAside())
	}
}

// The disk is full, and Redis dies before the end: the end is lost, and the line says so. While Redis is there nobody
// notices.
//
// Manual: the disk is full
func TestSpoolDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, to mount a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	for n, err := 0, error(nil); err == nil; n++ {
		err = os.WriteFile(fmt.Sprintf("%s/%d", dir, n), make([]byte, 4096), 0o600)
	}
	r := newDurableRedis(t)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+dir)
	spoolEnd(t, r, h, "j", "0", "").wantMatch(t, 74, "("+notRenewed("j")+")?onceonly: j "+caseDay+
		": done, not recorded: [^\n]+; nor kept: "+regexp.QuoteMeta(dir)+": no space left on device\n")
	h.run(caseRun("next", "", "true")...).want(t, 0, "")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "running" {
		t.Errorf("entry %+v", e)
	}
}

// A spool that cannot be written: one line says that the end is lost with it, and why.
func TestSpoolNotWritable(t *testing.T) {
	t.Parallel()
	for what, status := range map[string]string{"done": "0", "exit 3": "3"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			caseTouch(t, file, "")
			r := newDurableRedis(t)
			h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_STATE_DIR="+file+"/state")
			want := map[string]int{"0": 74, "3": 3}[status]
			spoolEnd(t, r, h, "j", status, "").wantMatch(t, want, "("+notRenewed("j")+")?onceonly: j "+caseDay+": "+what+
				", not recorded: [^\n]+; [^\n]*"+regexp.QuoteMeta(file+"/state")+": not a directory\n")
			h.run(caseRun("next", "", "true")...).want(t, 0, "") // and is no trouble while all is well
		})
	}
}
