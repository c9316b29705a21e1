package main

import (
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

// Every literal text of the manual is run: a crontab line, a script, a file, what is typed. A check says which texts are
// its own. A text that no check knows fails, and so does a check that knows no text.

// A manualCheck runs the literal texts that begin so.
type manualCheck struct {
	name   string
	begins *regexp.Regexp
	run    func(*testing.T, []string)
}

var manualChecks = []manualCheck{
	{"migration", regexp.MustCompile(`^- [0-9*]`), manualMigration},
	{"collector", regexp.MustCompile(`^\* \* \* \* \* onceonly status --metrics `), manualCollector},
	{"alerts", regexp.MustCompile(`^groups:\n`), manualAlerts},
	{"crontab", regexp.MustCompile(`^([0-9*/,-]+ +){5}.*onceonly `), manualCrontab},
	{"time", regexp.MustCompile(`^([0-9*/,-]+ ?){5}$`), manualTime},
	{"unit", regexp.MustCompile(`^# /etc/systemd/system/`), manualUnit},
	{"by hand", regexp.MustCompile(`^onceonly [a-z]`), runByHand},
	{"week", regexp.MustCompile(`^for n in `), manualWeek},
	{"range", regexp.MustCompile(`^#!/bin/sh\nset -eu\npsql `), manualRange},
	{"key", regexp.MustCompile(`^#!/bin/sh\nset -eu\ncurl `), manualKey},
	{"key's form", regexp.MustCompile(`^[a-z]+/2026-11-29$`), manualKeyForm},
	{"placeholders", regexp.MustCompile(`^{job} `), manualPlaceholders},
	{"file", regexp.MustCompile(`^# the same on every host\n`), manualConfig},
	{"redis.conf", regexp.MustCompile(`^(appendonly|maxmemory-policy|min-replicas-to-write) `), manualRedisConfig},
	{"lease", regexp.MustCompile(`^renewal  at T/`), manualLease},
	{"rights", regexp.MustCompile(`^ACL SETUSER |^\+`), manualRightsShown},
	{"rollout", regexp.MustCompile(`^- ansible\.builtin\.`), manualRollout},
	{"word", regexp.MustCompile(`^(NAME=value|onceonly|ledger|job_name|done|failed|uncertain|stale|{date}|\\?%|%[0-9A-F]{2}|TZ=)$`), func(*testing.T, []string) {}},
}

func TestManualExamples(t *testing.T) {
	used := map[string]int{}
	for _, text := range manualTexts(t, manualFile) {
		at := slices.IndexFunc(manualChecks, func(c manualCheck) bool { return c.begins.MatchString(text) })
		if at < 0 {
			t.Errorf("no test runs this text of the manual: %q", text)
			continue
		}
		c := manualChecks[at]
		used[c.name]++
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, strings.Split(text, "\n"))
		})
	}
	for _, c := range manualChecks {
		if used[c.name] == 0 {
			t.Errorf("the manual has no text for the check %q", c.name)
		}
	}
}

// manualTexts are the displays of the manual, and its lines of literal text: .Bd to .Ed, .Dl, .D1, .Li.
func manualTexts(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	open := false
	for line := range strings.Lines(manualRead(t, file)) {
		line = strings.TrimSuffix(line, "\n")
		macro, rest, _ := strings.Cut(line, " ")
		switch {
		case macro == ".Bd":
			open, all = true, append(all, "")
		case macro == ".Ed":
			open = false
			all[len(all)-1] = strings.TrimSuffix(all[len(all)-1], "\n")
		case open:
			all[len(all)-1] += manualLiteral(line) + "\n"
		case macro == ".Dl" || macro == ".D1" || macro == ".Li":
			all = append(all, strings.TrimRight(manualLiteral(rest), " ,:;."))
		}
	}
	return all
}

func manualCrontab(t *testing.T, shown []string) {
	for _, line := range shown {
		t.Run(programsOf(t, line)[0], func(t *testing.T) { runCrontab(t, line) })
	}
}

// manualTime is a line's five fields alone.
func manualTime(t *testing.T, shown []string) {
	r := newHost(t, "web-1").run("explain", "--job", "j", "--schedule", shown[0], "--", "true")
	if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, shown[0]) {
		t.Errorf("%s: %v", shown[0], r)
	}
}

// manualWeek runs seven days, the oldest first, up to the first that fails; typed again, it goes on there.
func manualWeek(t *testing.T, shown []string) {
	r := newRecorder(t)
	r.program("date", "#!/bin/sh\nexec /bin/date -d \"2026-03-08 12:00 UTC $2\" \"$3\"\n")
	r.program("invoice", "#!/bin/sh\necho $ONCEONLY_BUSINESS_DATE\ntest $ONCEONLY_BUSINESS_DATE != \"$BAD\"\n")
	loop := r.here(strings.Join(shown, "\n"))
	days := func(from, to int) (all string) {
		for d := from; d <= to; d++ {
			all += fmt.Sprintf("2026-03-%02d\n", d)
		}
		return all
	}
	r.host("web-1", "BAD=2026-03-04").shell(loop).wantOut(t, days(1, 4))
	r.host("web-1").run("resolve", "invoice", "--date", "2026-03-04", "--reopen", "--reason", "mended").wantOut(t, "")
	r.host("web-2").shell(loop).wantOut(t, days(4, 7))
}

// manualRange runs the script as the crontab line of EXAMPLES for it does: after three missed days it is given the range
// that it covers. It fails when psql does.
func manualRange(t *testing.T, shown []string) {
	r := newRecorder(t, "psql")
	r.program("export", strings.Join(shown, "\n")+"\n")
	line := regexp.MustCompile(`(?m)^([0-9*]+ +){5}.*--catch-up merge.*/export$`).
		FindString(manualLiteral(manualSection(t, "EXAMPLES")))
	command, fields := r.here(crontabCommand(t, line)), strings.Join(strings.Fields(line)[:5], " ")
	newest := time.Now().UTC().AddDate(0, 0, -4)
	options := "--schedule '" + fields + "' --date " + newest.Format(time.DateOnly) + " --"
	got := r.host("web-1", "RECORDED_STATUS=3").shell("onceonly run " + options + " " + r.dir + "/export")
	if got.status != 3 || got.stdout != "" {
		t.Errorf("psql failed with 3: %v", got)
	}
	got = r.host("web-1").shell(command)
	today, _, _ := strings.Cut(got.stdout, " ")
	want := []string{
		fmt.Sprintf("psql <-v> <from=%s> <-v> <to=%[1]s> <-f> </usr/share/export/range.sql>", newest.Format(time.DateOnly)),
		fmt.Sprintf("psql <-v> <from=%s> <-v> <to=%s> <-f> </usr/share/export/range.sql>",
			newest.AddDate(0, 0, 1).Format(time.DateOnly), today)}
	if got.status != 0 || got.stdout != today+" exported, attempt 1\n" || !slices.Equal(r.calls(), want) {
		t.Errorf("%v\ncalled %q\nwant   %q", got, r.calls(), want)
	}
}

// manualKey runs the script twice, for the destination fails at first: both times it gets one key.
func manualKey(t *testing.T, shown []string) {
	r := newRecorder(t, "curl")
	r.program("payouts", strings.Join(shown, "\n")+"\n")
	line := "onceonly run --date 2026-01-02 -- payouts"
	if got := r.host("web-1", "RECORDED_STATUS=22").shell(line); got.status != 22 {
		t.Errorf("curl failed with 22: %v", got)
	}
	silent(t, line, r.host("web-2").shell("onceonly run --date 2026-01-02 --rerun --reason again -- payouts"))
	want := "curl <--fail> <--silent> <--show-error> <--header> <Idempotency-Key: payouts/2026-01-02> " +
		"<--data> <day=2026-01-02> <https://bank.internal/payouts>"
	if !slices.Equal(r.calls(), []string{want, want}) {
		t.Errorf("called %q\nwant %q, twice", r.calls(), want)
	}
}

func manualKeyForm(t *testing.T, shown []string) {
	job, slot, _ := strings.Cut(shown[0], "/")
	newHost(t, "web-1").run("run", "--job", job, "--date", slot, "--", "sh", "-c", "echo $ONCEONLY_KEY").
		wantOut(t, shown[0]+"\n")
}

// manualPlaceholders wants each replaced by what the environment says, and no other.
func manualPlaceholders(t *testing.T, shown []string) {
	const same = `[ "$*" = "$ONCEONLY_JOB $ONCEONLY_SLOT $ONCEONLY_BUSINESS_DATE $ONCEONLY_ATTEMPT $ONCEONLY_FENCING_TOKEN ` +
		`$ONCEONLY_KEY {other}" ]`
	silent(t, shown[0], newHost(t, "web-1").run(append([]string{"run", "-x", "--job", "j", "--", "sh", "-c", same, "sh"},
		append(strings.Fields(shown[0]), "{other}")...)...))
}

// manualConfig wants the program to read the file that FILES shows, and its zone to decide.
func manualConfig(t *testing.T, shown []string) {
	name := filepath.Join(t.TempDir(), "onceonly.conf")
	if err := os.WriteFile(name, []byte(strings.Join(shown, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newHost(t, "web-1", "ONCEONLY_CONFIG="+name).run("explain", "--", "invoice")
	if r.status != 0 || !strings.Contains(r.stdout, "Asia/Seoul, from "+name) {
		t.Errorf("with the manual's file: %v", r)
	}
}

// manualRedisConfig starts a Redis with these lines in its file, and asks it what it took them for.
// manualUnit has systemd read a unit: the service as it is, the timer beside one of its name.
func manualUnit(t *testing.T, shown []string) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		absent(t, "systemd-analyze")
	}
	dir := t.TempDir()
	unit := filepath.Join(dir, filepath.Base(strings.TrimPrefix(shown[0], "# ")))
	text := strings.NewReplacer("/usr/bin/onceonly ", binary+" ").Replace(strings.Join(shown, "\n") + "\n")
	caseTouch(t, unit, text)
	if name, timer := strings.CutSuffix(unit, ".timer"); timer {
		caseTouch(t, name+".service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), filepath.Base(unit)) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func manualRedisConfig(t *testing.T, shown []string) {
	var args []string
	for _, line := range shown {
		name, value, _ := strings.Cut(line, " ")
		args = append(args, "--"+name, value)
	}
	r := newRedis(t, args...)
	for i := 0; i < len(args); i += 2 {
		name := strings.TrimPrefix(args[i], "--")
		if got := r.rdb.ConfigGet(context.Background(), name).Val()[name]; got != args[i+1] {
			t.Errorf("redis-server has %s %q, the manual %q", name, got, args[i+1])
		}
	}
}

// manualLease compares the deadlines of a lease with those of the program, for leases in which each of the two bounds
// of a line decides.
func manualLease(t *testing.T, shown []string) {
	want := []string{
		fmt.Sprintf("renewal  at T/%d, at most %.0f s", renewEvery, renewAtMost.Seconds()),
		fmt.Sprintf("TERM     at %.2f T - the shorter of --kill-after and T/4", 1-1./killMargin),
		fmt.Sprintf("KILL     at %.2f T", 1-1./killMargin),
		"end      at T",
	}
	if !slices.Equal(shown, want) {
		t.Errorf("the manual has %q\nthe program %q", shown, want)
	}
	for _, ttl := range []time.Duration{20 * time.Second, 300 * time.Second} {
		s := &lease{ttl: ttl}
		s.extend(0)
		kill := ttl - ttl/20
		if s.kill() != boot(kill) || s.term(10*time.Second) != boot(kill-min(10*time.Second, ttl/4)) ||
			s.interval() != min(ttl/4, 30*time.Second) {
			t.Errorf("lease %v: renewal %v, TERM %v, KILL %v", ttl, s.interval(), s.term(10*time.Second), s.kill())
		}
	}
}

// doctorsRights are those that doctor can use besides; TestDoctorRights adds them.
var doctorsRights = []string{"+info"}

// clusterRights are those that are wanted besides in a cluster, always, and while hash slots are moved.
var clusterRights = []string{"+cluster|slots", "+asking"}

// databaseRights are those that a database other than 0 needs besides; TestManualRights adds them.
var databaseRights = []string{"+select"}

// manualRightsShown wants these among the rights that TestManualRights takes from the manual.
func manualRightsShown(t *testing.T, shown []string) {
	for _, word := range strings.Fields(strings.ReplaceAll(shown[0], ",", " ")) {
		if !slices.Contains(slices.Concat(manualRights(t), doctorsRights, clusterRights, databaseRights), word) {
			t.Errorf("%s is no right of the rule in REDIS", word)
		}
	}
}

// TestHelpExamples runs the examples of the help.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	_, text, found := strings.Cut(manualRead(t, "man/help.txt"), "\nExamples\n")
	text, _, _ = strings.Cut(text, "\n\n")
	if !found {
		t.Fatal("help.txt has no Examples")
	}
	for _, line := range strings.Split(text, "\n") {
		t.Run(line, func(t *testing.T) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "onceonly ") {
				runByHand(t, []string{line})
			} else {
				runCrontab(t, line)
			}
		})
	}
}
