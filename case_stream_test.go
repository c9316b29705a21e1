//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Standard streams, and whatever else a command finds open: onceonly in front of it changes nothing of that.

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
	if len(args) > 2 { // what onceonly had resident at the most; rusage would count the memory of who forked it, too
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getppid()))
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		os.WriteFile(args[2], []byte(peak), 0o600)
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
		peak := filepath.Join(t.TempDir(), fmt.Sprint("peak", n))
		cmd := newHost(t, "web-1").command(caseRun(fmt.Sprint("dump", n), "", caseSelf(t), "case:bytes", fmt.Sprint(n), fmt.Sprint(n/4), peak)...)
		out, outIn := casePipe(t)
		err, errIn := casePipe(t)
		cmd.Stdout, cmd.Stderr = outIn, errIn
		p := caseStart(t, cmd)
		outIn.Close()
		errIn.Close()
		sums := [2]string{}
		var wg sync.WaitGroup
		for i, f := range []*os.File{out, err} {
			wg.Go(func() { sums[i] = sumOf(f) })
		}
		wg.Wait()
		p.wait().want(t, 0, "")
		kB := 0
		if fmt.Sscan(strings.Join(lines(peak), ""), &kB); kB == 0 || kB > 60<<10 {
			t.Errorf("%d bytes: onceonly took %d kB", n, kB)
		}
		if sums[0] != sumOf(caseBytes(n)) || sums[1] != sumOf(caseBytes(n/4)) {
			t.Errorf("%d bytes: others arrived", n)
		}
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

// SH-51: a command whose output nobody reads for longer than two leases waits, as it would without onceonly. The lease is
// renewed all the while, nobody else begins, all arrives.
func TestCaseSlowReader(t *testing.T) {
	t.Parallel()
	out, in := casePipe(t)
	cmd := newHost(t, "web-1").command(caseRun("slow", "--lease 2s", caseSelf(t), "case:bytes", "1000000", "0")...)
	cmd.Stdout = in
	p := caseStart(t, cmd)
	in.Close()
	eventually(t, "it begins", func() bool { return isHeld(t, "slow") })
	left := func() time.Duration { return shared.rdb.PTTL(context.Background(), lockKey(t, "slow")).Val() }
	renewed(t, rounds(9, 30), 2*time.Second, left, func(now time.Duration) {
		if now <= 0 {
			t.Fatal("the lease was lost behind a blocked write")
		}
	})
	newHost(t, "web-2").run(caseRun("slow", "--lease 2s --exit-busy 5", "true")...).want(t, 5, "")
	if sumOf(out) != sumOf(caseBytes(1000000)) {
		t.Error("other bytes arrived")
	}
	p.wait().want(t, 0, "")
	wantEntry(t, "slow", "done", 0, "", "")
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
// onceonly's own is among them. (SH-52)
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
