package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about names: what tells jobs, hosts and namespaces apart, and what does not.

// SH-60: staging and production on one Redis. Each runs its own, every key begins with its namespace, and the variable
// and the option mean the same.
func TestCaseTwoNamespaces(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	for _, c := range []struct {
		host  *host
		words []string
	}{
		{newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=prod"), nil},
		{newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=prod"), []string{"--namespace", "staging"}},
	} {
		args := append([]string{"run", "--job", "a", "--date", "2026-01-05"}, c.words...)
		for _, want := range []string{"ran\n", ""} {
			got := c.host.run(append(args, "--", "echo", "ran")...)
			got.want(t, 0, "")
			if got.stdout != want {
				t.Errorf("%q: %q, want %q", args, got.stdout, want)
			}
		}
	}
	count := map[string]int{}
	keys, err := r.rdb.Keys(context.Background(), "*").Result()
	for _, k := range keys {
		ns, _, _ := strings.Cut(k, ":")
		count[ns]++
	}
	if err != nil || len(count) != 2 || count["prod"] != count["staging"] || count["prod"] == 0 {
		t.Errorf("keys %q, %v; want as many of staging as of prod, and no other", keys, err)
	}
	web := newHost(t, "web-2", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=staging")
	if got := web.run("explain", "--job", "a", "--date", "2026-01-05", "--", "echo", "ran"); !strings.Contains(got.stdout, "staging") {
		t.Errorf("explain does not say which namespace is in use: %v", got)
	}
}

// SH-61: hosts whose paths differ agree on the base name; other arguments are refused, not silently skipped; and with
// --job, neither path nor arguments tell jobs apart.
func TestCaseNameOfTheCommand(t *testing.T) {
	t.Parallel()
	true1, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(true1, filepath.Join(folder, "true")); err != nil {
		t.Fatal(err)
	}
	web1, web2, web3 := newHost(t, "web-1"), newHost(t, "web-2"), newHost(t, "web-3")
	web1.run("run", "--date", "2026-01-05", "--", true1).want(t, 0, "")
	web2.run("run", "--date", "2026-01-05", "--", filepath.Join(folder, "true")).want(t, 0, "")
	if got := web2.run("run", "--date", "2026-01-05", "--", "true"); got.status != 78 || // this host's line had another path
		!strings.HasPrefix(got.stderr, "onceonly: true 2026-01-05: not run: another line of this host has the same name") {
		t.Errorf("another line of the same host: %v", got)
	}
	got := web3.run("run", "--date", "2026-01-05", "true", "--release=7")
	if got.status != 78 || !regexp.MustCompile(`^onceonly: true 2026-01-05: not run: web-[12] asked at (\d\d-\d\d )?[0-9:]+ with other arguments\nonceonly: hint: two lines need two names: --job NAME on each\n$`).MatchString(got.stderr) {
		t.Errorf("other arguments under a derived name: %v", got)
	}
	if e := entryOf(t, "true", "2026-01-05"); e.State != "done" || e.Host != "web-1" || e.Attempt != 1 {
		t.Errorf("entry %+v, want done on web-1 at the first attempt", e)
	}
	for _, c := range []struct {
		host *host
		want string
		argv []string
	}{{web1, "ran\n", []string{"echo", "ran"}}, {web2, "", []string{"/bin/echo", "ran"}}, {web3, "", []string{"echo", "ran", "again"}}} {
		got := c.host.run(append([]string{"run", "--job", "named", "--date", "2026-01-05", "--"}, c.argv...)...)
		got.want(t, 0, "")
		if got.stdout != c.want {
			t.Errorf("%q on %s: %q, want %q", c.argv, c.host.name, got.stdout, c.want)
		}
	}
}

// A job's name does not depend on where the command lies, but its arguments must agree; a shell names nothing. (SH-61)
func TestNameTiedToTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	var paths []string
	for _, release := range []string{"release-1", "release-2", "release-3"} {
		path := filepath.Join(dir, release, "invoice")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		writeProgram(t, path, "#!/bin/sh\necho $ONCEONLY_JOB $* >>"+log+"\n")
		paths = append(paths, path)
	}
	hosts := []*host{newHost(t, "web-1"), newHost(t, "web-2"), newHost(t, "web-3")}
	for i, h := range hosts {
		args := []string{"run", "--job", "bill", "--every", "day", "--", paths[i]}
		if i == 2 {
			args = append(args, "2026-11-29")
		}
		h.run(args...).want(t, 0, "")
	}
	hosts[0].run("run", "--every", "day", "--", paths[0], "-a").want(t, 0, "")
	hosts[1].run("run", "--every", "day", "--", paths[1], "-a").want(t, 0, "")
	for _, args := range [][]string{{paths[2], "-b"}, {paths[2]}, {paths[2], "-a", ""}} {
		hosts[2].run(append([]string{"run", "--every", "day", "--"}, args...)...).wantLike(t, exitDisagree,
			`onceonly: invoice \d{4}-\d\d-\d\d: not run: web-1 asked at \d\d:\d\d:\d\d with other arguments`+"\n"+
				`onceonly: hint: two lines need two names: --job NAME on each`+"\n")
	}
	if got := lines(log); !slices.Equal(got, []string{"bill", "invoice -a"}) {
		t.Errorf("effects: %q", got)
	}
	for _, words := range [][]string{{"sh", "-c", "true"}, {"/usr/bin/env", "true"}, {"python3.11", "x.py"}} {
		hosts[0].run(append([]string{"run", "--every", "day", "--"}, words...)...).wantLike(t, exitUsage,
			`onceonly: "`+filepath.Base(words[0])+`" runs other programs, so it cannot name the job`+"\n"+`onceonly: hint: onceonly run --job NAME -- [^\n]*`+"\n")
	}
}

// SH-62: a name is given back unchanged, never cut, and two long ones that differ only at the end are two jobs.
func TestCaseOddNames(t *testing.T) {
	t.Parallel()
	web, x := newHost(t, "web-1"), strings.Repeat("x", 199)
	for _, name := range []string{"a b", "a/b", "a:b", "a.b", "Ärger", "청구서-발송", "😀", x, x + "a", x + "b", "a", "a%b", "a%25b", "a{b", "a}b",
		"{a}", "{}", "a}:ledger", "a:ledger", "*", "a*", `a"b`, `a'b`, `a\b`, `a\nb`, "$HOME", "$(date)", "`date`", "{job}", "%7Ba%7D", "[a]", " a", "a ",
		"A", "null", "0", "jobs", "a=b", "a-"} {
		for _, want := range []string{name + " " + name + "/2026-01-05\n", ""} {
			got := web.run("run", "--job="+name, "--date", "2026-01-05", "--", "sh", "-c", `printf '%s %s\n' "$ONCEONLY_JOB" "$ONCEONLY_KEY"`)
			got.want(t, 0, "")
			if got.stdout != want {
				t.Errorf("--job %q: the command saw %q, want %q", name, got.stdout, want)
			}
		}
		if e := entryOf(t, name, "2026-01-05"); e.State != "done" {
			t.Errorf("--job %q: %q", name, e.State)
		}
	}
}

// Names with quotes, spaces and any script are given back as they are. (SH-63, but for status)
func TestNamesUnchanged(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for _, name := range []string{`say "hi"`, `it's`, "a b  c", "청구서-발송", "Ärger/über:alles.", `back\slash`, "{tag}", "100%", "%7B", "😀"} {
		r := h.run("run", "--job", name, "--date", "2025-06-10", "--", "sh", "-c", `printf %s "$ONCEONLY_JOB|$ONCEONLY_KEY"`)
		r.wantOut(t, name+"|"+name+"/2025-06-10")
		if e := entryOf(t, name, "2025-06-10"); e.State != "done" {
			t.Errorf("%s: %+v", name, e)
		}
		listed, err := shared.rdb.SIsMember(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).jobsKey(), name).Result()
		if err != nil || !listed {
			t.Errorf("%s is not in the list of jobs: %v", name, err)
		}
	}
	h.run("run", "--frobnicate", "--job", "x", "--", "true").wantLike(t, exitUsage, "onceonly: no option --frobnicate\nonceonly: hint: .*\n")
}

// replicas starts runs of hosts that are all called app, and in which onceonly is process 1.
func replicas(t *testing.T) func(job, command string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		absent(t, fmt.Sprintf("PID and UTS namespaces: %v %s", err, out))
	}
	h := newHost(t, "")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_HOST=") })
	return func(job, command string) (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		cmd := exec.Command(unshare[0], append(unshare[1:], "sh", "-c", `hostname app && exec onceonly run --job "$0" --every day --lease 3s -- sh -c "$1"`,
			job, command)...)
		cmd.Env = h.env
		var text bytes.Buffer
		cmd.Stderr = &text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &text
	}
}

// Replicas that share one name, each process 1 of its own, are told apart: one effect, and one that is started again while
// the lease of its former self still stands does not take it for its own. (SH-58)
func TestSameHostNameSamePID(t *testing.T) {
	t.Parallel()
	start, log := replicas(t), filepath.Join(t.TempDir(), "log")
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	command := `echo $ONCEONLY_RUN_ID >>` + log + `; sleep 600`
	one, _ := start("replica", command)
	two, _ := start("replica", command)
	eventually(t, "one of two runs", func() bool { return len(lines(log)) == 1 })
	ended := make(chan *exec.Cmd, 2)
	for _, cmd := range []*exec.Cmd{one, two} {
		go func() { cmd.Wait(); ended <- cmd }()
	}
	loser := <-ended
	if status := loser.ProcessState.ExitCode(); status != 0 {
		t.Errorf("the loser ended with %d", status)
	}
	e := entryOf(t, "replica", today())
	if e.Host != "app" || e.PID != 1 || e.RunID != lines(log)[0] {
		t.Errorf("the entry: %+v; the run ID %q", e, lines(log))
	}
	winner := one
	if loser == one {
		winner = two
	}
	winner.Process.Kill()
	<-ended
	again, text := start("replica", command) // busy: the lease stands
	status := exitStatus(t, again.Wait())
	if late := slotLock(t, "replica") == ""; len(lines(log)) != 1 || !late && (status != 0 || text.Len() > 0) {
		t.Errorf("started again within the lease: status %d, %d effects, stderr %q", status, len(lines(log)), text)
	}
	eventually(t, "the lease is over", func() bool {
		n, _ := shared.rdb.Exists(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys("replica")[0]).Result()
		return n == 0
	})
	again, text = start("replica", command)
	if status := exitStatus(t, again.Wait()); status != exitNotDone || !strings.Contains(text.String(), "uncertain: app:1 began at") || len(lines(log)) != 1 {
		t.Errorf("after the lease: status %d, %d effects, stderr %q", status, len(lines(log)), text)
	}
	other, _ := start("other", "true")
	if exitStatus(t, other.Wait()); entryOf(t, "other", today()).RunID == e.RunID {
		t.Error("two runs of one host and PID have one run ID")
	}
}
