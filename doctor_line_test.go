package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var nextTime = regexp.MustCompile(`next \d{4}-\d\d-\d\d \d\d:\d\d`)

var someSlot = regexp.MustCompile(`(would be|still)( \d{4}-[-\dT:]+)`)

// TestDoctorLines checks the crontabs of testdata/doctor, one kind of mistake each, as they are checked before they are
// deployed. Wanted is all that is said of the file, word by word, and the exit status; only times are left out, and NONEWLINE
// at the end of a crontab takes its last newline away.
func TestDoctorLines(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/doctor/*.txtar")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "crontab")
			crontab := strings.ReplaceAll(string(a.Files[0].Data), "NONEWLINE\n", "")
			if err := os.WriteFile(file, []byte(crontab), 0o644); err != nil {
				t.Fatal(err)
			}
			r := newHost(t, "web-1").run("doctor", "--offline", file)
			_, said, _ := strings.Cut(r.stdout, file+"\n")
			said, _, _ = strings.Cut(said, "\n\n")
			said = someSlot.ReplaceAllString(said, "$1 SLOT")
			got := nextTime.ReplaceAllString(said, "next TIME") + fmt.Sprintf("\nexit %d\n", r.status)
			if want := string(a.Files[1].Data); got != want || r.stderr != "" {
				if os.Getenv("ONCEONLY_TEST_WRITE") != "" {
					a.Files[1].Data = []byte(got)
					os.WriteFile(name, txtar.Format(a), 0o644)
				}
				t.Errorf("%s: stderr %q\ngot\n%s\nwant\n%s", name, r.stderr, got, want)
			}
			checkWidth(t, r.stdout)
		})
	}
}

// checkWidth wants no text wider than a terminal. A hint is there to be copied, and is not broken.
func checkWidth(t *testing.T, out string) {
	t.Helper()
	for l := range strings.Lines(out) {
		if len(l) > 81 && !strings.HasPrefix(strings.TrimSpace(l), "hint: ") && !strings.HasPrefix(l, "not read: ") {
			t.Errorf("wider than 80 columns: %q", l)
		}
	}
}
