//go:build linux && !race

// They run the binary, which has no race detector in it.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Debian's cron itself calls onceonly, on three hosts that have the same crontab.

const cronMinutes = 5 // that are judged

// A cronHost is a host name, a clock, a crontab folder and a mail system of its own, in namespaces of its own.
type cronHost struct {
	name, dir string
	offset    string // of its clock
}

// cronFleet is what the hosts have in common: the crontab, and the folder into which its commands write.
type cronFleet struct {
	t     *testing.T
	dir   string
	hosts []*cronHost
	clock string // the library that moves the clock of a program in C
}

func newCronFleet(t *testing.T) *cronFleet {
	t.Helper()
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "--uts", "--pid", "--fork", "true").Run() != nil {
		absent(t, "namespaces of its own")
	}
	daemon, err := os.ReadFile("/usr/sbin/cron")
	if err != nil {
		absent(t, "Debian's cron")
	}
	clocks, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(clocks) == 0 {
		absent(t, "libfaketime")
	}
	f := &cronFleet{t: t, dir: t.TempDir(), clock: clocks[0]}
	writeProgram(f.t, filepath.Join(f.dir, "cron"), string(daemon))
	buildShifted(t, filepath.Join(f.dir, "onceonly"))
	f.program("tick", `echo "$ONCEONLY_SLOT $(hostname)" >>"$0.log"`)
	f.program("fails", `echo "$ONCEONLY_SLOT $ONCEONLY_ATTEMPT" >>"$0.log"; echo "it fails on $(hostname)"; sleep 8; exit 1`) // until the last clock is there
	f.program("long", `unset LD_PRELOAD; echo "START $ONCEONLY_SLOT $(date +%s)" >>"$0.log"; sleep 75; echo "END $ONCEONLY_SLOT $(date +%s)" >>"$0.log"`)
	f.program("percent", `echo "$ONCEONLY_SLOT $*" >>"$0.log"`)
	for n, offset := range []string{"+0s", "+5s", "-7s"} {
		name := fmt.Sprint("web-", n+1)
		h := &cronHost{name, filepath.Join(f.dir, name), offset}
		for _, folder := range []string{"crontabs", "cron.d", "run", "sbin", "mail", "state"} {
			if err := os.MkdirAll(filepath.Join(h.dir, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		f.write(name+"/crontabs/root", 0o600, f.crontab(h))
		f.write(name+"/crontab", 0o644, "")
		f.program(name+"/sbin/sendmail", "cat >"+h.dir+"/mail/$$")
		f.hosts = append(f.hosts, h)
	}
	return f
}

func (f *cronFleet) write(name string, mode os.FileMode, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
}

func (f *cronFleet) program(name, script string) {
	writeProgram(f.t, filepath.Join(f.dir, name), "#!/bin/sh\n"+script+"\n")
}

// crontab is the same on every host, but for where a real host would have its own disk.
func (f *cronFleet) crontab(h *cronHost) string {
	return strings.NewReplacer("@DIR", f.dir, "@CLOCK", f.clock, "@OFFSET", h.offset, "@URL", shared.url(), "@NAMESPACE", namespaceOf(f.t),
		"@STATE", filepath.Join(h.dir, "state")).Replace(`MAILTO=root
PATH=@DIR:/usr/bin:/bin
LD_PRELOAD=@CLOCK
FAKETIME=@OFFSET
CLOCK_OFFSET=@OFFSET
ONCEONLY_REDIS=@URL
ONCEONLY_NAMESPACE=@NAMESPACE
ONCEONLY_STATE_DIR=@STATE
ONCEONLY_TZ=UTC
* * * * *    onceonly run --schedule '* * * * *' -- @DIR/tick
*/2 * * * *  onceonly run --schedule '*/2 * * * *' --attempts 2 --retry-delay 1s -- @DIR/fails
* * * * *    onceonly run --schedule '* * * * *' -- @DIR/long
* * * * *    onceonly run -x --schedule '* * * * *' -- @DIR/percent {date} "$(date -u +\%F)" '100\%'
`)
}

// buildShifted builds onceonly with a clock that is off by $CLOCK_OFFSET: no library moves that of a program in Go.
func buildShifted(t *testing.T, program string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	caseTouch(t, filepath.Join(dir, "shifted.go"), `package main

import (
	"os"
	"time"
)

func shiftedNow() time.Time {
	offset, err := time.ParseDuration(os.Getenv("CLOCK_OFFSET"))
	if err != nil {
		panic(err)
	}
	return time.Now().Add(offset)
}
`)
	replaced := map[string]string{filepath.Join(root, "shifted.go"): filepath.Join(dir, "shifted.go")}
	for _, name := range []string{"main.go", "lock.go", "watch.go", "call.go"} { // in others it is a deadline
		text, err := os.ReadFile(name)
		if moved := strings.ReplaceAll(string(text), "time.Now", "shiftedNow"); err != nil || moved == string(text) {
			t.Fatalf("%s asks no clock, %v", name, err)
		} else {
			caseTouch(t, filepath.Join(dir, name), moved)
		}
		replaced[filepath.Join(root, name)] = filepath.Join(dir, name)
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": replaced})
	caseTouch(t, filepath.Join(dir, "overlay.json"), string(overlay))
	if err := buildProgram(program, "-overlay", filepath.Join(dir, "overlay.json")); err != nil {
		t.Fatal(err)
	}
}

// start starts a host's cron. All that it has started ends with it.
func (f *cronFleet) start(h *cronHost) {
	f.t.Helper()
	cmd := exec.Command("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", `hostname "$2"
		mount --bind "$1/sbin" /usr/sbin
		mount --bind "$1/crontabs" /var/spool/cron/crontabs
		mount --bind "$1/cron.d" /etc/cron.d
		mount --bind "$1/crontab" /etc/crontab
		mount --bind "$1/run" /run
		exec env LD_PRELOAD="$4" FAKETIME="$5" "$3" -f`, "sh", h.dir, h.name, filepath.Join(f.dir, "cron"), f.clock, h.offset)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// logged are the lines that a program has written.
func (f *cronFleet) logged(program string) []string {
	return lines(filepath.Join(f.dir, program+".log"))
}

// mails are what cron has mailed, on any host.
func (f *cronFleet) mails() (all []string) {
	names, _ := filepath.Glob(filepath.Join(f.dir, "*/mail/*"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		all = append(all, string(text))
	}
	return all
}

// TestCron: every due minute exactly once, whichever host; nobody mails but who ran a command that says something; and the
// ledger says what happened.
func TestCron(t *testing.T) {
	t.Parallel()
	f := newCronFleet(t)
	for _, h := range f.hosts {
		f.start(h)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("cron has run %q, mailed %q", f.logged("tick"), f.mails())
		}
	})
	within(t, (cronMinutes+3)*time.Minute, "all minutes are over", func() bool { return len(f.logged("tick")) > cronMinutes })
	first, err := time.Parse("2006-01-02T15:04-07:00", strings.Fields(f.logged("tick")[0])[0])
	if err != nil {
		t.Fatal(err)
	}
	var due, even []string // the minute after is only there to have the last one over
	for n := range cronMinutes {
		minute := first.Add(time.Duration(n) * time.Minute)
		due = append(due, minute.Format("2006-01-02T15:04+00:00"))
		if minute.Minute()%2 == 0 {
			even = append(even, due[n])
		}
	}
	f.judgeTicks(due)
	f.judgeFailures(even)
	f.judgeLong(due)
}

func (f *cronFleet) judgeTicks(due []string) {
	f.t.Helper()
	ran, told := []string{}, f.logged("percent")
	for _, line := range f.logged("tick")[:len(due)] {
		slot, host, _ := strings.Cut(line, " ")
		ran = append(ran, slot)
		if e := entryOf(f.t, "tick", slot); e.State != "done" || e.Attempt != 1 || e.Host != host {
			f.t.Errorf("tick %s on %s: the entry %+v", slot, host, e)
		}
	}
	if !slices.Equal(ran, due) {
		f.t.Errorf("tick ran for %q, due were %q", ran, due)
	}
	for n, slot := range due {
		if day := slot[:len(time.DateOnly)]; n >= len(told) || told[n] != slot+" "+day+" "+day+" 100%" {
			f.t.Errorf("percent %s: %q", slot, told)
		}
	}
}

// judgeFailures: both attempts of each slot, and one mail, from the host that ran it.
func (f *cronFleet) judgeFailures(due []string) {
	f.t.Helper()
	var want []string
	for _, slot := range due {
		want = append(want, slot+" 1", slot+" 2")
		if e := entryOf(f.t, "fails", slot); e.State != "failed" || e.Attempt != 2 {
			f.t.Errorf("fails %s: the entry %+v", slot, e)
		}
	}
	ran := f.logged("fails")
	if len(ran) < len(want) || !slices.Equal(ran[:len(want)], want) {
		f.t.Errorf("fails ran %q, want %q", ran, want)
	}
	mails := f.mails()
	for _, mail := range mails {
		_, body, _ := strings.Cut(mail, "\n\n")
		host, twice := strings.CutPrefix(strings.TrimSpace(body), "it fails on ")
		if host, _, _ = strings.Cut(host, "\n"); !twice || strings.TrimSpace(body) != "it fails on "+host+"\nit fails on "+host {
			f.t.Errorf("a mail that nobody should have: %s", mail)
		}
	}
	if len(mails) < len(due) || len(mails) > len(due)+1 {
		f.t.Errorf("%d mails for %d failures", len(mails), len(due))
	}
}

// judgeLong: no two at once, and each minute that did not run is told as skipped.
func (f *cronFleet) judgeLong(due []string) {
	f.t.Helper()
	running, ended, began := "", 0, map[string]bool{}
	for _, line := range f.logged("long") {
		words := strings.Fields(line)
		at, _ := strconv.Atoi(words[2])
		if words[0] == "START" {
			if running != "" || at < ended || began[words[1]] {
				f.t.Errorf("long: %q", f.logged("long"))
			}
			running, began[words[1]] = words[1], true
			continue
		}
		running, ended = "", at
	}
	if len(began) < 2 {
		f.t.Errorf("long began for %v only", began)
	}
	for _, slot := range due {
		e := entryOf(f.t, "long", slot)
		if began[slot] != slices.Contains([]string{"done", "running"}, e.State) || !began[slot] && e.State != "skipped" {
			f.t.Errorf("long %s: began %v, the entry %+v", slot, began[slot], e)
		}
	}
	if got := newHost(f.t, "web-9").run("status"); got.status != 0 || strings.Count(got.stdout, "\n") < 5 {
		f.t.Errorf("status: %v", got)
	}
}
