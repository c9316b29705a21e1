//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The command and all that it has started are one process group, and when that is over nothing of it is left.

// A procStat is what /proc says of a process.
type procStat struct {
	pid, parent, group int
	state              string
}

// processes are all that there are.
func processes() (all []procStat) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if i := strings.LastIndex(string(text), ") "); i > 0 {
			var p procStat
			p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if n, _ := fmt.Sscan(string(text[i+2:]), &p.state, &p.parent, &p.group); n == 3 {
				all = append(all, p)
			}
		}
	}
	return all
}

// aliveIn are the living processes of a group. A dead one that nobody has reaped is none.
func aliveIn(group int) (pids []int) {
	for _, p := range processes() {
		if p.group == group && p.state != "Z" && p.state != "X" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func groupOf(t *testing.T, log, host string) int {
	t.Helper()
	eventually(t, "it begins", beats(log, host))
	return beatsBy(log, host)[0].group
}

// under runs a command two shells down, as a crontab's lines do.
func under(command []string) []string {
	return append([]string{"sh", "-c", `("$0" "$@"); true`}, command...)
}

// SH-43: a shell in between, grandchildren, one of them deaf: however it comes to the end, TERM to onceonly, a time-out, a
// lease that another has, nothing of the group is left.
func TestCaseNothingOfTheGroupIsLeft(t *testing.T) {
	t.Parallel()
	commands := map[string][]string{
		"shell": {"sh", "-c", `echo $$ >>"$0"; sleep 100; true`}, "pipe": {"sh", "-c", `echo $$ >>"$0"; (sleep 100) | cat`},
		"deaf": {"sh", "-c", `echo $$ >>"$0"; (trap "" TERM; sleep 100; sleep 100) & sleep 100; true`},
	}
	for what, command := range commands {
		for _, end := range []string{"term", "timeout", "lost"} {
			t.Run(what+" "+end, func(t *testing.T) {
				t.Parallel()
				log, options := filepath.Join(t.TempDir(), "log"), "--lease 3s --attempts 2 --kill-after 500ms --retry-delay 50ms"
				if end == "timeout" {
					options = "--lease 3s --kill-after 500ms --timeout 1s"
				}
				px := newProxy(t, shared.address())
				p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS="+px.url()).command(caseRun("j", options, append(slices.Clone(command), log)...)...))
				eventually(t, "it begins", func() bool { return len(lines(log)) > 0 })
				group, err := strconv.Atoi(lines(log)[0])
				if err != nil {
					t.Fatal(err)
				}
				switch end {
				case "term":
					p.say(unix.SIGTERM)
					if r := p.wait(); r.status != 143 && r.status != 75 {
						t.Errorf("got %v", r)
					}
				case "timeout":
					p.wait().want(t, 124, timeoutLine("j", "1s"))
				case "lost":
					renewalPasses(t, px)
					shared.rdb.Del(context.Background(), lockKey(t, "j"))
					b := caseStart(t, newHost(t, "web-2").command(caseRun("j", options, "sh", "-c", "sleep 3; exit 0", log)...))
					p.wait().wantMatch(t, 75, lostLine("j", "web-2", 2))
					defer b.wait()
				}
				at := time.Now()
				eventually(t, "nothing is left", func() bool { return len(aliveIn(group)) == 0 })
				if took := time.Since(at); took > 2*time.Second {
					t.Errorf("left for %v", took)
				}
			})
		}
	}
}

// As process 1 of a container, onceonly reaps what it inherits while the command runs, and the command's status is its own.
func TestCaseProcessOne(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		absent(t, "namespaces of its own: "+string(out))
	}
	const orphans = `(sleep 0.1 & sleep 0.2 & sleep 0.3 &)
		for n in $(seq 100); do
			sleep 0.05
			grep -qs "^[0-9]* (sleep)" /proc/[0-9]*/stat || { echo "$n looks"; exit 3; }
		done
		echo left; exit 4`
	h := newHost(t, "web-1")
	cmd := exec.Command(unshare[0], slices.Concat(unshare[1:], []string{binary}, caseRun("j", "", "sh", "-c", orphans))...)
	cmd.Env = h.env
	if r := caseStart(t, cmd).wait(); r.status != 3 || r.stderr != "" || !strings.HasSuffix(r.stdout, "looks\n") {
		t.Error(r)
	}
	wantEntry(t, "j", "failed", 3, "", "")
}
