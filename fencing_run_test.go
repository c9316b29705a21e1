package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A host is frozen with all that it runs, past its lease; another takes over and ends; the frozen one wakes and goes on
// writing before anybody tells it. Its script is a psql's that knows nothing of onceonly: the trigger refuses it. Without
// the trigger the stale write is there.
//
//	web-1: insert 1 ─ ─ frozen ─ ─ ─ ─ ─ ─ ─ ─ ─ insert 2 → refused
//	web-2:                    insert 1, insert 2
func TestFencingStaleHolder(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		t.Run(map[bool]string{true: "trigger", false: "no trigger"}[fenced], func(t *testing.T) {
			t.Parallel()
			d, dir := newDatabase(t), t.TempDir()
			d.do(fencingText(t, "tables") + `CREATE TABLE report (id serial, total int,
				token bigint DEFAULT current_setting('onceonly.token')::bigint)`)
			if fenced {
				d.do(fencingText(t, "trigger"))
			}
			began, goOn := filepath.Join(dir, "began"), filepath.Join(dir, "go")
			newScript(t, dir, "report.sql", "INSERT INTO report (total) VALUES (1);\n"+
				`\! : >`+began+`; until test -e `+goOn+"; do sleep 0.01; done\n"+"INSERT INTO report (total) VALUES (2);\n")
			newScript(t, dir, "report", fencingText(t, "unchanged"), "/srv/", dir+"/")
			// The crontab line of the page, where a host that has died is given up sooner.
			line := changed(t, crontabCommand(t, strings.TrimSpace(fencingText(t, "line"))), "--pg", "--pg --attempts 2 --lease 2s --date "+caseDay)
			words := strings.Fields(strings.ReplaceAll(line, "/srv/", dir+"/"))[1:]

			old := caseStart(t, newHost(t, "web-1", d.env...).command(words...))
			eventually(t, "the old one has written", func() bool { _, err := os.Stat(began); return err == nil })
			command := childOf(t, old.Process.Pid)
			old.say(unix.SIGSTOP)
			for _, child := range childrenOf(old.Process.Pid) { // the command, and the guard if it is there
				unix.Kill(child, unix.SIGSTOP)
				t.Cleanup(func() { unix.Kill(child, unix.SIGCONT) })
			}
			caseTouch(t, goOn, "")
			lock := (&ledger{namespace: namespaceOf(t)}).keys("report")[0]
			eventually(t, "its lease is over", func() bool { return shared.rdb.Exists(context.Background(), lock).Val() == 0 })
			newHost(t, "web-2", d.env...).run(words...).wantMatch(t, 0,
				`onceonly: report `+caseDay+`: taking over, attempt 2 of 2: web-1:\d+ not heard of for \d+s\n`)

			unix.Kill(command, unix.SIGCONT)
			if fenced {
				eventually(t, "the old one is refused", func() bool {
					return strings.Contains(strings.Join(lines(old.err), "\n"), "ERROR:  onceonly: stale token ")
				})
			} else {
				eventually(t, "the old one has written again", func() bool { return d.do("SELECT count(*) FROM report") == "4" })
			}
			for _, child := range childrenOf(old.Process.Pid) {
				unix.Kill(child, unix.SIGCONT)
			}
			old.say(unix.SIGCONT)
			if r := old.wait(); r.status == 0 || !strings.Contains(r.stderr, "onceonly: report "+caseDay+": ") {
				t.Errorf("the old one: %v", r)
			}
			older, newer := tokensOf(t, caseDay)
			want := fmt.Sprintf("%d|1\n%[2]d|1\n%[2]d|2", older, newer)
			if !fenced {
				want += fmt.Sprintf("\n%d|2", older)
			}
			if got := d.do("SELECT token, total FROM report ORDER BY id"); got != want {
				t.Errorf("written:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// tokensOf are the tokens of the slot's two attempts, from the log.
func tokensOf(t *testing.T, slot string) (older, newer int64) {
	t.Helper()
	key := (&ledger{namespace: namespaceOf(t)}).keys("report")[4]
	for _, m := range shared.rdb.XRange(context.Background(), key, "-", "+").Val() {
		if m.Values["slot"] == slot && m.Values["event"] == "begin" {
			token, _ := strconv.ParseInt(fmt.Sprint(m.Values["token"]), 10, 64)
			older, newer = newer, token
		}
	}
	return older, newer
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (children []int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			children = append(children, child)
		}
	}
	return children
}
