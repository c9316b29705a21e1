//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The environment and whatever else a command gets from who starts it: it is as without onceonly.

// The command is the leader of a process group of its own, in the session of its caller.
func TestCaseProcessGroup(t *testing.T) {
	t.Parallel()
	r := newHost(t, "web-1").run(caseRun("group", "", "cat", "/proc/self/stat")...)
	fields := strings.Fields(r.stdout[strings.LastIndex(r.stdout, ")")+1:]) // state ppid pgrp session
	pid, _, _ := strings.Cut(r.stdout, " ")
	session, _ := unix.Getsid(0)
	if fields[2] != pid || fields[2] == strconv.Itoa(unix.Getpgrp()) || fields[3] != strconv.Itoa(session) {
		t.Errorf("process %s: group %s, session %s, want %s and %d", pid, fields[2], fields[3], pid, session)
	}
}

// Working directory, umask, priority, limits, ignored and blocked signals, rights: as without onceonly.
// (SH-45)
func TestCaseInherited(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	look := `pwd; umask; nice; ulimit -a; ulimit -Ha; grep -E '^(Sig(Blk|Ign)|Shd|Cap|NoNewPrivs|Umask|Uid|Gid|Groups|Seccomp)' /proc/self/status
		cat /proc/self/oom_score_adj /proc/self/timerslack_ns; echo "$0 $1"`
	see := func(words ...string) result {
		cmd := exec.Command("sh", append([]string{"-c", `umask 027; ulimit -S -n 77; ulimit -S -c 0; ulimit -S -s 4096; ulimit -f 99999
			trap '' HUP INT; exec nice -n 7 "$@"`, "sh"}, words...)...)
		cmd.Env, cmd.Dir = h.env, t.TempDir()
		return caseStart(t, cmd).wait()
	}
	dir := regexp.MustCompile(`^.*\n`) // each its own
	direct, wrapped := see("sh", "-c", look, "zero", "one"), see(append([]string{binary}, caseRun("look", "", "sh", "-c", look, "zero", "one")...)...)
	wrapped.want(t, 0, "")
	if a, b := dir.ReplaceAllString(direct.stdout, ""), dir.ReplaceAllString(wrapped.stdout, ""); a != b || len(a) < 500 {
		t.Errorf("with onceonly\n%s\nwithout\n%s", b, a)
	}
	if !regexp.MustCompile(`\n0?027\n[1-9]`).MatchString(direct.stdout) {
		t.Errorf("the test itself sets no umask and priority:\n%s", direct.stdout)
	}
	if d := dir.FindString(wrapped.stdout); !strings.Contains(d, namespaceOf(t)) {
		t.Errorf("working directory %q", d)
	}
}

// A working directory that is gone, or that may not be read, keeps nothing from running.
func TestCaseWorkingDirectoryGone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", append([]string{"-c", `mkdir x && cd x && rmdir ../x && exec "$@"`, "sh", binary}, caseRun("gone", "", "echo", "here")...)...)
	cmd.Env, cmd.Dir = newHost(t, "web-1").env, t.TempDir()
	if r := caseStart(t, cmd).wait(); r.status != 0 || r.stdout != "here\n" || r.stderr != "" {
		t.Error(r)
	}
}

// The command's environment is its caller's and nine variables, each once; what an outer onceonly handed down is replaced.
// Cron's few variables are enough, also none, and names in UTF-8 need no locale. (SH-56)
func TestCaseEnvironment(t *testing.T) {
	t.Parallel()
	redis := []string{"--redis", shared.url(), "--namespace", namespaceOf(t), "--tz", "UTC", "--host", "web-1"}
	config := "ONCEONLY_CONFIG=" + os.Getenv("ONCEONLY_CONFIG")
	old := []string{"ONCEONLY_JOB=a", "ONCEONLY_SLOT=b", "ONCEONLY_BUSINESS_DATE=c", "ONCEONLY_ATTEMPT=4", "ONCEONLY_FENCING_TOKEN=5",
		"ONCEONLY_RUN_ID=f", "ONCEONLY_KEY=g", "ONCEONLY_FIRST_SLOT=h", "ONCEONLY_LAST_SLOT=i"}
	for job, env := range map[string][]string{
		"bare":   {config}, // as env -i, but for the machine's own configuration
		"cron":   {config, "HOME=/root", "LOGNAME=root", "PATH=/usr/bin:/bin", "SHELL=/bin/sh"},
		"청구서 발송": {config, "LANG=C", "LC_ALL=C", "PATH=/usr/bin:/bin"},
		"odd":    {config, "PATH=/usr/bin:/bin", "TWO=1\n2", "EMPTY=", "=C:=x", "UTF=ü😀", "BYTES=\xff\xfe", "SPACE= ", "EQUAL=a=b", "lower=x", "ONCEONLY_HOST=web-1"},
		"inner":  append([]string{config, "PATH=/usr/bin:/bin"}, old...),
	} {
		args := slices.Concat([]string{"run", "--job", job, "--date", caseDay}, redis, []string{"--", "/usr/bin/env", "-0"})
		cmd := exec.Command(binary, args...)
		cmd.Env = env
		r := caseStart(t, cmd).wait()
		r.want(t, 0, "")
		e := entryOf(t, job, caseDay)
		want := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return slices.Contains(old, v) })
		want = append(want, "ONCEONLY_JOB="+job, "ONCEONLY_SLOT="+caseDay, "ONCEONLY_BUSINESS_DATE="+caseDay, "ONCEONLY_ATTEMPT=1",
			fmt.Sprint("ONCEONLY_FENCING_TOKEN=", e.Token), "ONCEONLY_RUN_ID="+e.RunID, "ONCEONLY_KEY="+job+"/"+caseDay,
			"ONCEONLY_FIRST_SLOT="+caseDay, "ONCEONLY_LAST_SLOT="+caseDay)
		got := strings.Split(strings.TrimSuffix(r.stdout, "\x00"), "\x00")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the command has\n%q\nwant\n%q", job, got, want)
		}
		if e.Token < 1e12 || len(e.RunID) != 32 {
			t.Errorf("%s: token %d, run ID %q", job, e.Token, e.RunID)
		}
	}
}

// A bare command's name without PATH: said so, or found where the system looks; nothing between. (SH-56)
func TestCaseNoPath(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary, caseRun("nopath", "", "true")...)
	cmd.Env = slices.DeleteFunc(newHost(t, "web-1").env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	r := caseStart(t, cmd).wait()
	if r.status != 0 {
		r.wantMatch(t, 127, "onceonly: nopath "+caseDay+": true: PATH is unset\n")
	}
}
