package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The recipe for SQLite.

// newFile is a database with the table of the page, and one that the job writes.
func newFile(t *testing.T) (name string, do func(sql string) string) {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		absent(t, "sqlite3 (scripts/setup installs it)")
	}
	name = filepath.Join(t.TempDir(), "report.db")
	do = func(sql string) string {
		t.Helper()
		out, err := exec.Command("sqlite3", "-bail", "-cmd", ".timeout 30000", name, sql).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", sql, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	do("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;" + fencingText(t, "table") +
		"CREATE TABLE report (id INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER);")
	return name, do
}

const writeFile = "INSERT INTO report (token) VALUES ($ONCEONLY_FENCING_TOKEN);\n"

// TestFencingSQLiteAsShown runs the script of the page, by one writer after the other.
func TestFencingSQLiteAsShown(t *testing.T) {
	t.Parallel()
	name, do := newFile(t)
	script := newScript(t, t.TempDir(), "report", changed(t, fencingText(t, "sqlite"), work, writeFile), "/srv/report.db", name)
	a, b := meet(0)
	for i, w := range []writer{a, a, b, a, {b.token, a.run}, b} {
		cmd := exec.Command(script)
		cmd.Env = append(os.Environ(), w.env()...)
		out, err := cmd.CombinedOutput()
		want := []int{0, 0, 0, 1, 1, 0}[i]
		if status := exitStatus(t, err); status != want || strings.Contains(string(out), "stale_token") != (want == 1) {
			t.Errorf("writer %d: status %d, want %d: %s", i, status, want, out)
		}
	}
	if got, want := do("SELECT group_concat(token, ' ') FROM report"), fmt.Sprintf("%d %[1]d %d %[2]d", a.token, b.token); got != want {
		t.Errorf("written by %s, want %s", got, want)
	}
}

// newShell is a sqlite3 that is told one step after the other.
func newShell(t *testing.T, name, first string) *session {
	t.Helper()
	s := &session{t: t, cmd: exec.Command("sqlite3", "-batch", name), mark: "SELECT 'done ' || count(*) || ' 00000' FROM fenced;"}
	in, _ := s.cmd.StdinPipe()
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		s.cmd.Wait()
	})
	s.do(first)
	return s
}

// writeInSteps is one writer's work, who may be frozen before each step. It is false if the answer to the question is that
// somebody newer was here.
func writeInSteps(s *session, w writer, steps []string, question string, frozen func(step int, locked bool)) bool {
	locked := false
	s.do("DELETE FROM fenced;")
	for i, sql := range steps {
		frozen(i, locked)
		o := s.do(strings.NewReplacer("$ONCEONLY_FENCING_TOKEN", fmt.Sprint(w.token), "$ONCEONLY_RUN_ID", w.run).Replace(sql))
		locked = locked || strings.HasPrefix(sql, "BEGIN")
		if sql == question && o.rows == 0 {
			if locked {
				s.do("ROLLBACK;")
			}
			return false
		}
	}
	return true
}

// TestFencingSQLiteRaces: no stale writer writes after a newer one, unless it asks first and then writes.
func TestFencingSQLiteRaces(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(fencingText(t, "sqlite"), "<<EOF\n")
	text, _, _ = strings.Cut(text, "EOF\n")
	first, rest, _ := strings.Cut(text, "BEGIN IMMEDIATE;\n")
	question, commit, found := strings.Cut(rest, work)
	if !found {
		t.Fatal(text)
	}
	for name, steps := range map[string][]string{
		"as shown":                {"BEGIN IMMEDIATE;", question, writeFile, commit},
		"wrong: ask, then begin":  {question, "BEGIN IMMEDIATE;", writeFile, commit},
		"wrong: only the writing": {"BEGIN IMMEDIATE;", writeFile, commit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, do := newFile(t)
			older, newer := newShell(t, file, first), newShell(t, file, first)
			write := func(s *session, w writer, frozen func(step int, locked bool)) bool {
				return writeInSteps(s, w, steps, question, frozen)
			}
			refused := 0
			for i := range raceRounds {
				a, b := meet(i)
				done := make(chan bool, 1)
				start := func() { go func() { done <- write(newer, b, func(int, bool) {}) }() }
				began := false
				if !write(older, a, func(step int, locked bool) {
					if step != i%(len(steps)+1) {
						return
					}
					began = true
					start()
					if !locked { // nothing keeps the newer one out
						done <- <-done
					}
				}) {
					refused++
				}
				if !began {
					start()
				}
				if !<-done {
					t.Fatal("the newer writer was refused")
				}
			}
			stale := do("SELECT count(*) FROM report a JOIN report b ON b.token = a.token + 1 WHERE a.token % 2 = 0 AND a.id > b.id")
			t.Logf("%d rounds: the older was refused %d times, wrote after the newer %s times", raceRounds, refused, stale)
			if (name == "as shown") != (stale == "0") || name == "as shown" && refused == 0 {
				t.Errorf("stale %s, refused %d", stale, refused)
			}
		})
	}
}
