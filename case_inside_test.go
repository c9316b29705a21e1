package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Cases of real users about an onceonly inside an onceonly.

// SH-59: an onceonly inside an onceonly is an ordinary caller. Another job has its own slot and token; the same job, which
// is another line of this host, is refused at once; and what a run leaves behind has no free pass the next day.
func TestCaseOnceonlyInside(t *testing.T) {
	t.Parallel()
	web := newHost(t, "web-1")
	show := `echo $ONCEONLY_JOB $ONCEONLY_SLOT $ONCEONLY_KEY $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN`
	r := web.run("run", "--job", "a", "--date", "2026-01-05", "--", "sh", "-c",
		show+`; onceonly run --job b --date 2026-01-03 -- sh -c '`+show+`'; onceonly run --job a --date 2026-01-05 -- echo ran; echo "status $?"; env >"$0"`,
		filepath.Join(t.TempDir(), "env"))
	a, b := entryOf(t, "a", "2026-01-05"), entryOf(t, "b", "2026-01-03")
	want := fmt.Sprintf("a 2026-01-05 a/2026-01-05 1 %d\nb 2026-01-03 b/2026-01-03 1 %d\nstatus 78\n", a.Token, b.Token)
	if r.status != 0 || r.stdout != want || a.State != "done" || b.State != "done" || a.RunID == b.RunID {
		t.Errorf("got %v\nwant %q", r, want)
	}
	if !strings.Contains(r.stderr, "onceonly: a 2026-01-05: not run: ") || !strings.Contains(r.stderr, "two lines need two names") {
		t.Errorf("the same job inside is told %q", r.stderr)
	}
}

// SH-59: the names handed to the command are never read as options, whatever stands in them; nor do they stay as they
// were for the command of an onceonly inside.
func TestCaseInheritedNamesAreNoOptions(t *testing.T) {
	t.Parallel()
	web := newHost(t, "web-1")
	first := web.run("run", "--job", "a", "--date", "2026-01-05", "--", "env")
	first.want(t, 0, "")
	inherited := strings.Split(strings.TrimSpace(first.stdout), "\n")
	left := newHost(t, "web-1")
	left.env = append(inherited, "ONCEONLY_JOB=other", "ONCEONLY_DATE=2026-01-01", "ONCEONLY_SLOT=2026-01-01", "ONCEONLY_BUSINESS_DATE=x",
		"ONCEONLY_ATTEMPT=99", "ONCEONLY_FENCING_TOKEN=1", "ONCEONLY_RUN_ID="+strings.Repeat("0", 32), "ONCEONLY_KEY=other/1",
		"ONCEONLY_FIRST_SLOT=x", "ONCEONLY_LAST_SLOT=", "ONCEONLY_RERUN=yes", "ONCEONLY_REASON=x")
	r := left.run("run", "--job", "a", "--date", "2026-01-06", "--", "env")
	r.want(t, 0, "")
	e := entryOf(t, "a", "2026-01-06")
	for _, v := range []string{"JOB=a", "SLOT=2026-01-06", "BUSINESS_DATE=2026-01-06", "ATTEMPT=1", "KEY=a/2026-01-06", "FIRST_SLOT=2026-01-06",
		"LAST_SLOT=2026-01-06", "RUN_ID=" + e.RunID, "FENCING_TOKEN=" + fmt.Sprint(e.Token)} {
		name, _, _ := strings.Cut("ONCEONLY_"+v, "=")
		if n := len(regexp.MustCompile("(?m)^"+name+"=").FindAllString(r.stdout, -1)); n != 1 || !strings.Contains("\n"+r.stdout, "\nONCEONLY_"+v+"\n") {
			t.Errorf("the command of the left-over process sees %s %d times, want it once, ONCEONLY_%s", name, n, v)
		}
	}
	again := left.run("run", "--job", "a", "--date", "2026-01-06", "--", "env") // and takes part like anybody else
	again.want(t, 0, "")
	if again.stdout != "" || e.RunID == entryOf(t, "a", "2026-01-05").RunID {
		t.Errorf("ran twice: %v", again)
	}
}
