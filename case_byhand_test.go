package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a hint says to type does work when it is typed: in a shell on the same host, with no word changed but COMMAND.

// byHandLines are lines whose slots are named in every way there is, and jobs whose names want quotes.
var byHandLines = map[string][]string{
	"day":           {"--job", "day"},
	"quoted":        {"--job", `it's a "job" {$x}`},
	"week":          {"--job", "week", "--every", "week"},
	"month":         {"--job", "month", "--every", "month"},
	"hour":          {"--job", "hour", "--every", "hour"},
	"quarter":       {"--job", "quarter", "--every", "15m"},
	"nightly":       {"--job", "nightly", "--schedule", "0 0 * * *"},
	"ticks":         {"--job", "ticks", "--schedule", "*/10 * * * *"},
	"twice a day":   {"--job", "twice", "--schedule", "0 0,12 * * *"},
	"zone":          {"--job", "zone", "--tz", "Pacific/Kiritimati"},
	"zone, quarter": {"--job", "zone-quarter", "--tz", "Asia/Kathmandu", "--every", "15m"},
	"day start":     {"--job", "start", "--day-start", "06:30"},
	"week start":    {"--job", "week-start", "--day-start", "06:30", "--every", "week"},
	"namespace":     {"--job", "elsewhere", "--namespace", "TestCaseByHand.elsewhere"},
}

// before is how many days before a slot of a line another one lies.
func before(name string) int {
	switch {
	case strings.HasPrefix(name, "month"):
		return 35
	case strings.HasPrefix(name, "week"):
		return 7
	}
	return 1
}

// lineIn is the command line in what was said.
func lineIn(said, begins string) string {
	line := ""
	for text := range strings.Lines(said) {
		if at := strings.Index(text, begins); at >= 0 {
			line = strings.TrimSpace(text[at:])
		}
	}
	return line
}

var eitherWay = regexp.MustCompile(`--done (or --reopen,|\(or --reopen\)) --reason TEXT$`)

// typed takes the command line out of what was said, and types it: where it reopens the slot, then the line that is told
// of that. The command writes down its slot.
func typed(t *testing.T, h *host, said string) (slot string) {
	t.Helper()
	shell := func(line string) result {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = h.env
		return caseStart(t, cmd).wait()
	}
	if line := lineIn(said, "onceonly resolve "); line != "" {
		r := shell(eitherWay.ReplaceAllString(line, "--reopen --reason looked -v"))
		if r.status != 0 {
			t.Fatalf("typed: %s: %v", line, r)
		}
		said = r.stderr
	}
	line := strings.TrimSuffix(lineIn(said, "onceonly run "), ", on a host that has the line")
	if !strings.HasSuffix(line, " -- COMMAND") {
		t.Fatalf("no command line in %q", said)
	}
	log := filepath.Join(t.TempDir(), "log")
	r := shell(strings.TrimSuffix(line, "COMMAND") + `sh -c 'echo "$ONCEONLY_SLOT" >>"$0"' ` + log)
	if r.wantMatch(t, 0, "(onceonly: .*: taking over, .*\n)?"); len(lines(log)) != 1 {
		t.Fatalf("typed: %s", line)
	}
	return lines(log)[0]
}

// The slot is uncertain or has failed; the slot before was done. The line that is told settles that very slot.
func TestCaseByHand(t *testing.T) {
	t.Parallel()
	for name, line := range byHandLines {
		for _, how := range []string{"uncertain", "failed"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				h, other, log, at := newHost(t, "web-1"), newHost(t, "web-2"), filepath.Join(t.TempDir(), "log"), time.Now().Add(-20*time.Minute)
				options := append([]string{"run"}, line...)
				if name == "namespace" {
					options[4] += how
				}
				with := func(more ...string) []string { return slices.Concat(options, more) }
				ask := func(command string) result { return other.runAt(at, with("--", command)...) }
				h.run(with("--date", at.AddDate(0, 0, -before(name)).Format(time.RFC3339), "--", "true")...).want(t, 0, "")
				if how == "failed" {
					h.runAt(at, with("--", "sh", "-c", `echo $ONCEONLY_SLOT >>"$0"; exit 3`, log)...)
				} else {
					r := h.launchAs(h.commandAt(at, with("--lease", "1s", "--", "sh", "-c", `echo $ONCEONLY_SLOT >>"$0"; sleep 600`, log)...))
					eventually(t, "it runs", started(log))
					r.die()
				}
				var said result
				eventually(t, "somebody is told", func() bool {
					said = ask("true")
					return said.status == exitNotDone
				})
				if slot := typed(t, other, said.stderr); slot != lines(log)[0] {
					t.Errorf("it ran for %s, and %s is %s", slot, lines(log)[0], how)
				}
				if again := newHost(t, "web-3").runAt(at, with("--", "false")...); again.status != 0 {
					t.Errorf("it is not settled: %v", again)
				}
			})
		}
	}
}

// What status says to type does the same, also where the zone is not the line's own host's.
func TestCaseByHandStatus(t *testing.T) {
	t.Parallel()
	for name, line := range byHandLines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, log, at := newHost(t, "web-1"), filepath.Join(t.TempDir(), "log"), time.Now().Add(-20*time.Minute)
			with := func(more ...string) []string { return slices.Concat([]string{"run"}, line, more) }
			h.run(with("--date", at.AddDate(0, 0, -before(name)).Format(time.RFC3339), "--", "true")...).want(t, 0, "")
			h.runAt(at, with("--", "sh", "-c", `echo $ONCEONLY_SLOT >>"$0"; exit 3`, log)...)
			if len(lines(log)) != 1 {
				t.Fatal("it has not run")
			}
			slot := lines(log)[0]
			shown := newHost(t, "web-2").run(append([]string{"status", line[1], "--date", slot}, namespaceIn(line)...)...)
			if ran := typed(t, newHost(t, "web-2"), shown.stdout); ran != slot {
				t.Errorf("it ran for %s, and %s has failed", ran, slot)
			}
		})
	}
}

// namespaceIn is a line's --namespace, if it has one.
func namespaceIn(line []string) []string {
	if at := slices.Index(line, "--namespace"); at >= 0 {
		return line[at : at+2]
	}
	return nil
}

// What is told of a job in a namespace that was an option names it, whichever command tells it.
func TestTypedNamespace(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	const typed = "j --namespace TestTypedNamespace.b"
	in := func(words ...string) result { return h.run(append(words, "--namespace", "TestTypedNamespace.b")...) }
	h.run("run", "--job", "j", "--date", caseDay, "--namespace", "TestTypedNamespace.b", "--", "false").want(t, 1, "")
	settle := "onceonly resolve " + typed + " --date " + caseDay + " --done "
	hasWords(t, in("status", "j", "--date", caseDay).stdout, settle+"(or --reopen) --reason TEXT")
	hasWords(t, in("wait", "j", "--date", caseDay).stderr, "hint: "+settle+"or --reopen, --reason TEXT")
	hasWords(t, in("resolve", "j", "--date", caseDay, "--reopen", "--reason", "x", "-v").stderr,
		"hint: onceonly run --job "+typed+" --date "+caseDay+" -- COMMAND, on a host that has the line")
	held := h.hold(filepath.Join(t.TempDir(), "log"), "run", "--job", "j", "--date", caseDay, "--namespace", "TestTypedNamespace.b")
	hasWords(t, in("resolve", "j", "--date", caseDay, "--done", "--reason", "x").stderr, "or onceonly stop "+typed+" --reason TEXT")
	held.open(0)
	h.run("run", "--job", "j", "--namespace", "TestTypedNamespace.b", "--date", caseDay+"T10:00", "--every", "hour", "--", "true").wantMatch(t, 78,
		"onceonly: [^\n]*\nonceonly: hint: give all hosts the same line: onceonly status "+typed+" --hosts\n")
}

// A missed slot runs when what status says is typed; so does yesterday's uncertain one, of which today's run tells.
func TestCaseByHandOtherSlots(t *testing.T) {
	t.Parallel()
	b := newBacklog(t, "missed")
	b.run("web-1").want(t, 0, b.missedLine(true, -2, -1))
	h := newHost(t, "web-1")
	if ran := typed(t, h, h.run("status", b.job).stdout); ran != b.day(-2) || stateOf(t, b.job, ran) != "done" {
		t.Errorf("it ran for %s, %s was missed first", ran, b.day(-2))
	}

	b = newBacklog(t, "uncertain")
	b.other(-1).die()
	shared.rdb.Del(context.Background(), lockKey(t, b.job))
	said := b.run("web-1")
	said.wantMatch(t, 0, b.missedLine(true, -2)+"onceonly: uncertain "+b.day(-1)+": uncertain: web-2:.*\nonceonly: hint: .*\n")
	if ran := typed(t, h, said.stderr); ran != b.day(-1) || stateOf(t, b.job, ran) != "done" {
		t.Errorf("it ran for %s, %s is uncertain", ran, b.day(-1))
	}
}

// A zone without a name, as /etc/localtime may be, is no word of a command line.
func TestByHandNamelessZone(t *testing.T) {
	t.Parallel()
	line := terms{Every: "hour", Zone: "Local"}
	if got, want := byHand("j", line, "2026-11-29T14:00"), "onceonly run --job j --every hour --date 2026-11-29T14:00 -- COMMAND"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
