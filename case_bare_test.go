//go:build !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Where there is next to nothing beside onceonly: no user, no home, no file.

// A stranger is a user that no file knows, with onceonly in a folder.
type stranger struct {
	dir string
	as  []string // the words before a command
}

func newStranger(t *testing.T, uid string) *stranger {
	t.Helper()
	if os.Getuid() != 0 {
		absent(t, "root, to become somebody else")
	}
	dir := t.TempDir()
	os.Chmod(filepath.Dir(dir), 0o755)
	os.Chmod(dir, 0o755)
	copyFile(t, binary, filepath.Join(dir, "onceonly"))
	return &stranger{dir, []string{"setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"}}
}

// command is one of the stranger's.
func (s *stranger) command(words ...string) *exec.Cmd {
	return exec.Command(s.as[0], slices.Concat(s.as[1:], words)...)
}

// onceonly is its own, with next to no environment.
func (s *stranger) onceonly(t *testing.T, redis string, words ...string) *exec.Cmd {
	t.Helper()
	return s.command(slices.Concat([]string{"env", "-i", "PATH=/usr/bin:/bin", "ONCEONLY_REDIS=" + redis,
		"ONCEONLY_NAMESPACE=" + namespaceOf(t), "ONCEONLY_HOST=web-1", filepath.Join(s.dir, "onceonly")}, words)...)
}

// SH-57: a user that no file knows, without a home, in a folder that it cannot read, with a TMPDIR that is not there: it
// works, and creates no file.
func TestCaseUnknownUser(t *testing.T) {
	t.Parallel()
	s := newStranger(t, "54321")
	dir, closed := s.dir, filepath.Join(s.dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(trace, command string) result {
		words := slices.Clone(s.as)
		if trace != "" {
			words = append([]string{"strace", "-f", "-qq", "-e", "trace=openat,open,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat", "-o", trace}, words...)
		}
		words = append(words, "env", "-i", "PATH=/usr/bin:/bin", "TMPDIR=/nowhere", "ONCEONLY_REDIS="+shared.url(),
			"ONCEONLY_NAMESPACE="+namespaceOf(t), filepath.Join(dir, "onceonly"))
		words = append(words, caseRun("j"+filepath.Base(trace), "", "sh", "-c", command)...)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = closed
		return caseStart(t, cmd).wait()
	}
	if r := run("", "id -u; sleep 1.3"); r.status != 0 || r.stdout != "54321\n" || r.stderr != "" { // long enough for a guard
		t.Errorf("got %v", r)
	}
	if e := entryOf(t, "j.", caseDay); e.State != "done" || e.User != "54321" {
		t.Errorf("entry %+v", e)
	}
	if _, err := exec.LookPath("strace"); err != nil {
		absent(t, "strace, to see which files are created")
	}
	trace := filepath.Join(dir, "trace")
	if r := run(trace, "sleep 1.3"); r.status != 0 || r.stderr != "" {
		t.Errorf("got %v", r)
	}
	for _, l := range lines(trace) {
		if regexp.MustCompile(`O_CREAT|(creat|mkdir|mkdirat|mknod|mknodat|rename|renameat|renameat2|link|linkat|symlink|symlinkat)\(`).MatchString(l) {
			t.Errorf("creates: %s", l)
		}
	}
	if len(lines(trace)) == 0 {
		t.Error("nothing was traced")
	}
}

// SH-57: an empty root with nothing but onceonly in it: no passwd, no resolv.conf, no zone files, no /dev, no /proc.
func TestCaseEmptyRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, for chroot")
	}
	root := t.TempDir()
	copyFile(t, binary, filepath.Join(root, "onceonly"))
	os.Chmod(root, 0o555)
	for _, command := range []string{"one", "two"} {
		cmd := exec.Command("chroot", append([]string{"--userspec=54321:54321", root, "/onceonly"}, caseRun(command, "", "/onceonly", "--version")...)...)
		cmd.Env = []string{"ONCEONLY_REDIS=" + shared.url(), "ONCEONLY_NAMESPACE=" + namespaceOf(t), "ONCEONLY_HOST=web-1"}
		if r := caseStart(t, cmd).wait(); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "onceonly") {
			t.Errorf("%s: %v", command, r)
		}
		wantEntry(t, command, "done", 0, "", "")
	}
	explain := exec.Command("chroot", "--userspec=54321:54321", root, "/onceonly", "explain", "--job", "one", "--", "/onceonly")
	explain.Env = []string{"ONCEONLY_REDIS=" + shared.url(), "ONCEONLY_NAMESPACE=" + namespaceOf(t), "ONCEONLY_HOST=web-1"}
	if r := caseStart(t, explain).wait(); !strings.Contains(r.stdout, "zone       UTC, from the default, as there is no /etc/localtime\n") {
		t.Errorf("%v", r)
	}
	if names, _ := os.ReadDir(root); len(names) != 1 {
		t.Errorf("left in the root: %v", names)
	}
}
