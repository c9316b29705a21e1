//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Standard streams, the terminal, the environment and whatever else a command gets from who starts it: onceonly in front
// of it changes nothing of that.

var _ = caseHelper("case:bytes", helpBytes) && caseHelper("case:alternate", helpAlternate) && caseHelper("case:files", helpFiles)

// caseBytes are n bytes of every value, in no order, without an end of line at their end.
func caseBytes(n int) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(n)) }

// helpBytes writes so many bytes to stdout, and so many to stderr.
func helpBytes(args []string) int {
	for i, f := range []*os.File{os.Stdout, os.Stderr} {
		n, _ := strconv.Atoi(args[i])
		if _, err := io.Copy(f, caseBytes(n)); err != nil {
			return 1
		}
	}
	return 0
}

// helpAlternate writes a thousand lines by turns to stdout and stderr.
func helpAlternate([]string) int {
	for i := range 500 {
		fmt.Printf("O%d\n", 2*i)
		fmt.Fprintf(os.Stderr, "E%d\n", 2*i+1)
	}
	return 0
}

// helpFiles writes down which files the process has open, without opening one.
func helpFiles(args []string) int {
	var open strings.Builder
	for fd := range 256 {
		var name [4096]byte
		if n, err := unix.Readlink(fmt.Sprint("/proc/self/fd/", fd), name[:]); err == nil {
			fmt.Fprintln(&open, fd, string(name[:n]))
		}
	}
	if err := os.WriteFile(args[0], []byte(open.String()), 0o600); err != nil {
		return 1
	}
	return 0
}

// casePipe makes a pipe whose ends live until the test's end, if nobody closes them earlier.
func casePipe(t *testing.T) (out, in *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
	return out, in
}

// What a command writes arrives byte by byte, whatever it is, and onceonly does not grow with it. (SH-48)
func TestCaseBytesAreExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 64 << 20} {
		cmd := newHost(t, "web-1").command(caseRun(fmt.Sprint("dump", n), "", caseSelf(t), "case:bytes", fmt.Sprint(n), fmt.Sprint(n/4))...)
		out, outIn := casePipe(t)
		err, errIn := casePipe(t)
		cmd.Stdout, cmd.Stderr = outIn, errIn
		p := caseStart(t, cmd)
		peak := make(chan int, 1)
		go func() { peak <- peakMemory(p.Process.Pid) }()
		outIn.Close()
		errIn.Close()
		sums := [2]string{}
		var wg sync.WaitGroup
		for i, f := range []*os.File{out, err} {
			wg.Go(func() { sums[i] = sumOf(f) })
		}
		wg.Wait()
		p.wait().want(t, 0, "")
		if kB := <-peak; kB == 0 || kB > 60<<10 {
			t.Errorf("%d bytes: onceonly took %d kB", n, kB)
		}
		if sums[0] != sumOf(caseBytes(n)) || sums[1] != sumOf(caseBytes(n/4)) {
			t.Errorf("%d bytes: others arrived", n)
		}
	}
}

// peakMemory is the most that a process had resident until it ended, in kB. What rusage says of a child counts the
// memory of who forked it.
func peakMemory(pid int) (kB int) {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, line, ok := strings.Cut(string(text), "VmHWM:")
		if err != nil || !ok {
			return kB
		}
		fmt.Sscan(line, &kB)
		time.Sleep(time.Millisecond)
	}
}

func sumOf(r io.Reader) string {
	sum := sha256.New()
	io.Copy(sum, r)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// Lines keep their order in one file, and their side in two. (SH-49)
func TestCaseOrderOfLines(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t, "web-1"), t.TempDir()
	var both, odd, even []string
	for i := range 500 {
		even, odd = append(even, fmt.Sprint("O", 2*i)), append(odd, fmt.Sprint("E", 2*i+1))
		both = append(both, even[i], odd[i])
	}
	one := h.command(caseRun("one", "", caseSelf(t), "case:alternate")...)
	name := filepath.Join(dir, "both")
	one.Stdout = caseCreate(t, name)
	one.Stderr = one.Stdout
	if r := caseStart(t, one).wait(); r.status != 0 || !slices.Equal(lines(name), both) {
		t.Errorf("one file: %v, not in order", r)
	}
	two := caseStart(t, h.command(caseRun("two", "", caseSelf(t), "case:alternate")...))
	if r := two.wait(); r.status != 0 || !slices.Equal(lines(two.out), even) || !slices.Equal(lines(two.err), odd) {
		t.Errorf("two files: status %d, lines on the wrong side", r.status)
	}
}

// A job that prints nothing leaves nothing, also where its streams are closed, and its day is done. (SH-50)
func TestCaseSilentJob(t *testing.T) {
	t.Parallel()
	for i, redirect := range []string{"", ">&- 2>&-", "<&- >&- 2>&-", "</dev/null"} {
		job := fmt.Sprint("silent", i)
		cmd := exec.Command("sh", append([]string{"-c", `exec "$@" ` + redirect, "sh", binary}, caseRun(job, "", "true")...)...)
		cmd.Env = newHost(t, "web-1").env
		r := caseStart(t, cmd).wait()
		r.want(t, 0, "")
		if r.stdout != "" {
			t.Errorf("%q: stdout %q", redirect, r.stdout)
		}
		wantEntry(t, job, "done", 0, "", "")
	}
}

// Output that cannot be written is the command's affair: it sees what it would see without onceonly. (SH-51)
func TestCaseOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	for i, line := range []string{"sh -c 'echo x' >/dev/full", "sh -c 'exec 2>/dev/null; yes; exit $?' | head -c1", "yes 2>/dev/null | head -c1"} {
		job := fmt.Sprint("full", i)
		words, redirect, _ := strings.Cut(line, " | ")
		if redirect != "" {
			redirect = " | " + redirect
		}
		status := func(prefix string) string {
			name := filepath.Join(t.TempDir(), "status")
			cmd := exec.Command("sh", "-c", "{ "+prefix+words+"; echo $? >"+name+"; }"+redirect)
			cmd.Env = newHost(t, "web-1").env
			caseStart(t, cmd).wait()
			return strings.Join(lines(name), " ")
		}
		prefix := "onceonly run --job " + job + " --date " + caseDay + " -- "
		if got, want := status(prefix), status(""); got != want || want == "0" {
			t.Errorf("%s: status %s, without onceonly %s", line, got, want)
		}
	}
}

// A command whose output nobody reads waits, as it would without onceonly; the lease is renewed all the while. (SH-51)
func TestCaseSlowReader(t *testing.T) {
	t.Parallel()
	out, in := casePipe(t)
	cmd := newHost(t, "web-1").command(caseRun("slow", "--lease 1s", caseSelf(t), "case:bytes", "1000000", "0")...)
	cmd.Stdout = in
	p := caseStart(t, cmd)
	in.Close()
	eventually(t, "it begins", func() bool { return isHeld(t, "slow") })
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if !isHeld(t, "slow") {
			t.Fatal("the lease was lost behind a blocked write")
		}
	}
	if sumOf(out) != sumOf(caseBytes(1000000)) {
		t.Error("other bytes arrived")
	}
	p.wait().want(t, 0, "")
}

// That onceonly's own words cannot be written changes nothing. (SH-51)
func TestCaseOwnWordsCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	stderrs := map[string]func(t *testing.T) *os.File{
		"full": func(t *testing.T) *os.File {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		},
		"nobody": func(t *testing.T) *os.File { // a pipe whose reader is gone
			out, in := casePipe(t)
			out.Close()
			return in
		},
	}
	for name, stderr := range stderrs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := func(env string, args ...string) int {
				cmd := newHost(t, "web-1", env).command(args...)
				cmd.Stderr = stderr(t)
				return caseStart(t, cmd).wait().status
			}
			if got := status("", caseRun("j", "-v", "true")...); got != 0 {
				t.Errorf("a run: status %d", got)
			}
			if got := status("", caseRun("j", "-v --exit-done 3", "true")...); got != 3 {
				t.Errorf("done: status %d, want 3", got)
			}
			if got := status("", caseRun("failed", "-v", "false")...); got != 1 {
				t.Errorf("a failure: status %d, want 1", got)
			}
			if got := status("", caseRun("failed", "-v", "false")...); got != 75 {
				t.Errorf("failed before: status %d, want 75", got)
			}
			if got := status("", "run", "--every", "7m", "--", "true"); got != 64 {
				t.Errorf("usage: status %d, want 64", got)
			}
			if got := status("ONCEONLY_REDIS=redis://127.0.0.1:1", caseRun("away", "--redis-wait 100ms", "true")...); got != 69 {
				t.Errorf("Redis away: status %d, want 69", got)
			}
			// The warning that the lease is not renewed, and that it is over, cannot be written either.
			proxy, dir := newProxy(t, r.address()), t.TempDir()
			up, end := filepath.Join(dir, "up"), filepath.Join(dir, "end")
			cmd := newHost(t, "web-1", "ONCEONLY_REDIS="+proxy.url()).command(caseRun("lost", "--lease 1s", "sh", "-c",
				`echo up >>"$0"; until [ -e "$1" ]; do sleep 0.02; done`, up, end)...)
			cmd.Stderr = stderr(t)
			p := caseStart(t, cmd)
			eventually(t, "the command runs", hasLine(up, "up"))
			proxy.refuse()
			if got := p.wait().status; got != 75 {
				t.Errorf("Redis gone: status %d, want 75", got)
			}
		})
	}
}

// Standard input is the command's alone: all of it arrives, closed is closed, and of what is not the command's nothing is
// read. (SH-52)
func TestCaseStandardInput(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	out, in := casePipe(t)
	cmd := h.command(caseRun("sum", "", "sha256sum")...)
	cmd.Stdin = out
	p := caseStart(t, cmd)
	out.Close()
	io.Copy(in, caseBytes(1<<20))
	in.Close()
	if r := p.wait(); r.status != 0 || r.stdout != sumOf(caseBytes(1<<20))+"  -\n" {
		t.Errorf("a pipe: %v", r)
	}
	shell := func(line string) result {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(slices.Clone(h.env), "RUN=onceonly run --date "+caseDay)
		return caseStart(t, cmd).wait()
	}
	if r := shell("$RUN --job closed -- cat <&- 2>/dev/null"); r.stdout != "" { // Go's runtime opens /dev/null in its place
		t.Errorf("closed: %v", r)
	}
	r := shell(`printf 'one\ntwo\nthree\n' | { $RUN --job line -- head -c4; $RUN --job line -- head -c4; cat; }`)
	if r.stdout != "one\ntwo\nthree\n" {
		t.Errorf("what the command leaves is lost: %v", r)
	}
	// cron's percent sign: what follows it is the command's standard input.
	r = shell("printf 'line one\nline two' | $RUN --job mail -- cat")
	if r.stdout != "line one\nline two" {
		t.Errorf("after cron's percent sign: %v", r)
	}
}

// The command's streams, and every other descriptor that was open, are those of who called: the same open files. None of
// onceonly's own is among them. (SH-52, DESIGN §1.6)
func TestCaseDescriptors(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t, "web-1"), t.TempDir()
	third, seventh := caseCreate(t, filepath.Join(dir, "third")), caseCreate(t, filepath.Join(dir, "seventh"))
	in, _ := casePipe(t)
	_, out := casePipe(t)
	list := func(name string, words ...string) []string {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = h.env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, caseCreate(t, filepath.Join(dir, "stderr"))
		cmd.ExtraFiles = []*os.File{third, nil, nil, nil, seventh}
		if r := caseStart(t, cmd).wait(); r.status != 0 {
			t.Error(r)
		}
		return lines(filepath.Join(dir, name))
	}
	direct := list("direct", caseSelf(t), "case:files", filepath.Join(dir, "direct"))
	wrapped := list("wrapped", append([]string{binary}, caseRun("fds", "", caseSelf(t), "case:files", filepath.Join(dir, "wrapped"))...)...)
	if !slices.Equal(direct, wrapped) || len(direct) < 5 {
		t.Errorf("the command has open\n%s\nwithout onceonly\n%s", strings.Join(wrapped, "\n"), strings.Join(direct, "\n"))
	}
	// Not a file of that name, but the very one: its position moves with what the command writes.
	f := caseCreate(t, filepath.Join(dir, "moved"))
	f.WriteString("12345")
	cmd := h.command(caseRun("moved", "", "echo", "x")...)
	cmd.Stdout = f
	caseStart(t, cmd).wait().want(t, 0, "")
	if at, _ := f.Seek(0, io.SeekCurrent); at != 7 {
		t.Errorf("the caller's file stands at %d, want 7", at)
	}
}

// The command is the leader of a process group of its own, in the session of its caller. (DESIGN §5)
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

// Working directory, umask, priority, limits, ignored and blocked signals, rights: as without onceonly. (DESIGN §1.6)
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
	if !strings.Contains(direct.stdout, "\n0027\n7\n") && !strings.Contains(direct.stdout, "\n027\n7\n") {
		t.Errorf("the test itself sets no umask and priority:\n%s", direct.stdout)
	}
	if d := dir.FindString(wrapped.stdout); !strings.Contains(d, namespaceOf(t)) {
		t.Errorf("working directory %q", d)
	}
}

// A working directory that is gone, or that may not be read, keeps nothing from running. (DESIGN §1.6)
func TestCaseWorkingDirectoryGone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", append([]string{"-c", `mkdir x && cd x && rmdir ../x && exec "$@"`, "sh", binary}, caseRun("gone", "", "echo", "here")...)...)
	cmd.Env, cmd.Dir = newHost(t, "web-1").env, t.TempDir()
	if r := caseStart(t, cmd).wait(); r.status != 0 || r.stdout != "here\n" || r.stderr != "" {
		t.Error(r)
	}
}

// The command's environment is its caller's and nine variables, each once; what an outer onceonly handed down is replaced.
// Cron's few variables are enough, also none, and names in UTF-8 need no locale. (SH-56, DESIGN §6)
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

// A terminal is a session on a pseudo-terminal, and what it showed.
type terminal struct {
	*caseProc
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
}

// newTerminal runs a shell line as the leader of a session on a terminal. $RUN is onceonly's words up to the job.
func newTerminal(t *testing.T, shell ...string) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	tty := &terminal{master: os.NewFile(uintptr(fd), "ptmx")}
	t.Cleanup(func() { tty.master.Close() }) // whoever is left gets HUP
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Env = append(newHost(t, "web-1").env, "RUN=onceonly run --date "+caseDay+" --job")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	tty.caseProc = caseStart(t, cmd)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.master.Read(buf)
			tty.mu.Lock()
			tty.shown.Write(buf[:n])
			tty.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return tty
}

func (tty *terminal) screen() string {
	tty.mu.Lock()
	defer tty.mu.Unlock()
	return tty.shown.String()
}

// expect waits until the terminal shows something.
func (tty *terminal) expect(what string) {
	tty.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(tty.screen(), what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tty.t.Fatalf("the terminal never shows %q, but %q", what, tty.screen())
		}
	}
}

func (tty *terminal) typed(keys string) { io.WriteString(tty.master, keys) }

// At a terminal the command can read what is typed, and when it is over the shell can: also through an onceonly inside an
// onceonly, and when the command died. (SH-52, DESIGN §5)
func TestCaseTerminal(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"plain":  `$RUN a -- sh -c 'read x; echo got-$x'; echo status-$?; read y; echo back-$y`,
		"nested": `$RUN a -- $RUN b -- sh -c 'read x; echo got-$x'; echo status-$?; read y; echo back-$y`,
		"twice":  `$RUN a -- sh -c 'read x; echo got-$x'; $RUN b -- true; $RUN b -- true; echo status-$?; read y; echo back-$y`,
		"absent": `$RUN a -- /no/such/command; read x; echo got-$x; $RUN b -- true; echo status-$?; read y; echo back-$y`,
		"killed": `$RUN a -- sh -c 'read x; echo got-$x; kill -9 $$'; [ $? = 137 ]; echo status-$?; read y; echo back-$y`,
		"piped":  `echo one | $RUN a -- sh -c 'read x; echo got-$x'; echo status-$?; read z; read y; echo back-$y`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t, "sh", "-c", line)
			tty.typed("one\n")
			tty.expect("got-one")
			tty.expect("status-0")
			tty.typed("two\n")
			tty.expect("back-two")
			tty.wait()
		})
	}
}

// ^C is the command's, not onceonly's: it ends as without it, and the shell goes on. (DESIGN §5)
func TestCaseTerminalInterrupt(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t, "sh", "-c", `trap : INT; $RUN tty -- cat; echo status-$?; read y; echo back-$y`)
	tty.typed("up\n")
	tty.expect("up\r\nup") // the terminal's, and cat's
	tty.typed("\x03")
	tty.expect("status-130")
	tty.typed("two\n")
	tty.expect("back-two")
	tty.wait()
	if e := entryOf(t, "tty", caseDay); e.State != "failed" || e.Signal != "INT" || !e.ByHand {
		t.Errorf("entry %+v", e)
	}
}

// In the background of a shell with job control nothing takes the terminal away from the shell: a command there would not
// have had it without onceonly either. (DESIGN §1.6)
func TestCaseTerminalBackground(t *testing.T) {
	t.Parallel()
	end := filepath.Join(t.TempDir(), "end")
	tty := newTerminal(t, "sh", "-c", `set -m
		$RUN tty -- sh -c 'echo up; until [ -e "$0" ]; do sleep 0.02; done; echo down' "$0" &
		read y; echo back-$y; : >"$0"; wait; echo over`, end)
	tty.expect("up")
	tty.typed("two\n")
	tty.expect("back-two")
	tty.expect("over")
	tty.wait()
}
