package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cases of real users about slots and dates: which one it is, whether it ran, and who may say so. The dates lie in the past,
// so that they stay what they are.

// tellSlot is the end of a command line whose command says which slot and date it was told.
var tellSlot = []string{"--", "sh", "-c", `echo $ONCEONLY_SLOT $ONCEONLY_BUSINESS_DATE`}

// wantOut fails the test if a process did not end with 0 and exactly this on stdout, and nothing on stderr.
func (r result) wantOut(t *testing.T, stdout string) {
	t.Helper()
	if r.status != 0 || r.stdout != stdout || r.stderr != "" {
		t.Errorf("got %v\nwant status 0, stdout %q", r, stdout)
	}
}

// wantLike fails the test if a process did not leave this status, nothing on stdout, and such a text on stderr.
func (r result) wantLike(t *testing.T, status int, stderr string) {
	t.Helper()
	if r.status != status || r.stdout != "" || !regexp.MustCompile(`^(?s:`+stderr+`)$`).MatchString(r.stderr) {
		t.Errorf("got %v\nwant status %d, stderr like %q", r, status, stderr)
	}
}

// atMidnight is a zone of a whole hour whose next or last midnight is at most half an hour away, and that midnight. Redis's
// clock is the machine's, and a host may not be off it by more than an hour.
func atMidnight() (zone string, midnight time.Time) {
	midnight = time.Now().UTC().Round(time.Hour)
	east := (24 - midnight.Hour()) % 24 // hours to add until the clock shows 00:00
	if east > 12 {
		east -= 24
	}
	return fmt.Sprintf("Etc/GMT%+d", -east), midnight // its sign is the other way round
}

// newCallAt is a call in this process, made at that time.
func newCallAt(t *testing.T, now time.Time, options map[string]string, words ...string) (*call, error) {
	t.Helper()
	all := map[string]string{"redis": shared.url(), "namespace": namespaceOf(t), "host": "web-1", "tz": "UTC"}
	for name, value := range options {
		all[name] = value
	}
	given := func(name string) (string, bool) { v, ok := all[name]; return v, ok }
	s, err := gather(runOptions, given, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCall(words, true, s, func() time.Time { return now })
	if err == nil {
		t.Cleanup(func() { c.ledger.Close() })
	}
	return c, err
}

// The hour that comes twice is one day, and so is the one that is skipped: cron fires a line twice, or late, and the slot
// is the same. A line that runs every hour or less has each showing of the hour for itself. (SH-15, rulings 7)
func TestHourTwiceAndSkipped(t *testing.T) {
	t.Parallel()
	const newYork, berlin = "America/New_York", "Europe/Berlin"
	for _, c := range []struct {
		job, zone, line string
		at              []string // instants at which cron fires
		runs            []string // what the command is told; "" if it is not run
	}{
		{"autumn", newYork, "day", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02 2025-11-02", ""}},
		{"autumn-line", newYork, "30 1 * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02 2025-11-02", ""}},
		{"spring", newYork, "day", []string{"2025-03-09T06:59:00Z", "2025-03-09T07:00:00Z"}, []string{"2025-03-09 2025-03-09", ""}},
		{"spring-line", newYork, "30 2 * * *", []string{"2025-03-09T06:59:00Z", "2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"},
			[]string{"2025-03-08 2025-03-08", "2025-03-09 2025-03-09", ""}},
		{"berlin", berlin, "day", []string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"}, []string{"2025-10-26 2025-10-26", ""}},
		{"berlin-line", berlin, "30 2 * * *", []string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z"}, []string{"2025-10-26 2025-10-26", ""}},
		{"twice-a-day", newYork, "30 1,13 * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z"}, []string{"2025-11-02T01:30 2025-11-02", ""}},
		{"skipped-of-two", newYork, "30 2,14 * * *", []string{"2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"}, []string{"2025-03-09T02:30 2025-03-09", ""}},
		{"hourly", newYork, "hour", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-02T06:59:59Z"},
			[]string{"2025-11-02T01:00-04:00 2025-11-02", "2025-11-02T01:00-05:00 2025-11-02", ""}},
		{"tick", newYork, "*/30 * * * *", []string{"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-02T06:59:59Z"},
			[]string{"2025-11-02T01:30-04:00 2025-11-02", "2025-11-02T01:30-05:00 2025-11-02", ""}},
		{"midnight-skipped", "Asia/Beirut", "6h", []string{"2024-03-30T21:59:00Z", "2024-03-30T22:10:00Z", "2024-03-31T02:59:00Z", "2024-03-31T03:00:00Z"},
			[]string{"2024-03-30T18:00+02:00 2024-03-30", "2024-03-31T00:00+02:00 2024-03-31", "", "2024-03-31T06:00+03:00 2024-03-31"}},
	} {
		t.Run(c.job, func(t *testing.T) {
			option := "--every"
			if strings.Contains(c.line, " ") {
				option = "--schedule"
			}
			for i, at := range c.at {
				h := newHost(t, fmt.Sprintf("web-%d", i))
				args := []string{"run", "--job", c.job, "--tz", c.zone, option, c.line, "--date", at}
				want := c.runs[i]
				if want != "" {
					want += "\n"
				}
				h.run(append(args, tellSlot...)...).wantOut(t, want)
			}
		})
	}
}

// The last days of months and years, where arithmetic and week years go wrong, have their own names. (SH-16)
func TestLeapDayMonthEndYearEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for at, want := range map[string][3]string{
		"2024-02-29T12:00:00Z": {"2024-02-29 2024-02-29", "2024-W09 2024-02-26", "2024-02 2024-02-01"},
		"2023-02-28T23:59:59Z": {"2023-02-28 2023-02-28", "2023-W09 2023-02-27", "2023-02 2023-02-01"},
		"2020-12-31T23:30:00Z": {"2020-12-31 2020-12-31", "2020-W53 2020-12-28", "2020-12 2020-12-01"},
		"2022-01-01T00:00:00Z": {"2022-01-01 2022-01-01", "2021-W52 2021-12-27", "2022-01 2022-01-01"},
		"2024-12-30T12:00:00Z": {"2024-12-30 2024-12-30", "2025-W01 2024-12-30", "2024-12 2024-12-01"},
	} {
		for i, every := range []string{"day", "week", "month"} {
			h.run(append([]string{"run", "--job", every, "--every", every, "--date", at}, tellSlot...)...).wantOut(t, want[i]+"\n")
		}
		day, _, _ := strings.Cut(want[0], " ")
		if e := entryOf(t, "day", day); e.State != "done" {
			t.Errorf("%s is %s in the ledger", day, e.State)
		}
	}
	// These lie ahead, where no real clock may run yet.
	for at, want := range map[string][2]string{
		"2026-02-28T23:59:59Z": {"2026-02-28", "2026-W09"},
		"2026-12-31T23:30:00Z": {"2026-12-31", "2026-W53"},
		"2027-01-01T00:00:00Z": {"2027-01-01", "2026-W53"},
		"2028-02-29T23:59:59Z": {"2028-02-29", "2028-W09"},
		"2029-12-31T12:00:00Z": {"2029-12-31", "2030-W01"},
	} {
		now, _ := time.Parse(time.RFC3339, at)
		day, err := newCallAt(t, now, nil, "true")
		if err != nil || day.slot.name != want[0] || day.slot.date != want[0] {
			t.Errorf("the day at %s is %v, %v, want %s", at, day.slot, err, want[0])
		}
		week, err := newCallAt(t, now, map[string]string{"every": "week"}, "true")
		if err != nil || week.slot.name != want[1] {
			t.Errorf("the week at %s is %v, %v, want %s", at, week.slot, err, want[1])
		}
	}
}

// Hosts whose zones differ do not agree about today: the first one's zone is kept, and the others are refused and told
// what to write. With --tz all agree. The command's own TZ is left alone. (SH-18)
func TestHostsInDifferentZones(t *testing.T) {
	t.Parallel()
	in := func(name, zone string) *host { return newHost(t, name, "TZ="+zone) }
	run := []string{"run", "--job", "invoice", "--every", "day", "--", "sh", "-c", "echo $TZ"}
	since := time.Now()
	in("web-1", "Asia/Tokyo").run(run...).wantOut(t, "Asia/Tokyo\n")
	for name, zone := range map[string]string{"web-2": "UTC", "web-3": "America/Los_Angeles", "web-4": "Etc/UTC"} {
		in(name, zone).run(run...).wantLike(t, exitDisagree, fmt.Sprintf(
			`onceonly: invoice: not run: this host's zone is %s \(TZ\), the job's is Asia/Tokyo \(web-1, since \d{4}-\d\d-\d\d\)`+"\n"+
				`onceonly: hint: [^\n]*ONCEONLY_TZ=Asia/Tokyo[^\n]*--tz Asia/Tokyo[^\n]*`+"\n", zone))
	}
	in("web-5", "Asia/Seoul").run(run...).wantOut(t, "") // spelled otherwise, and the same

	tokyo := time.FixedZone("", 9*3600)
	day := since.In(tokyo).Format(time.DateOnly)
	run = []string{"run", "--job", "report", "--every", "day", "--tz", "Asia/Tokyo", "--", "sh", "-c", "echo $ONCEONLY_BUSINESS_DATE $TZ"}
	r := in("web-2", "UTC").run(run...)
	if later := time.Now().In(tokyo).Format(time.DateOnly); later != day && r.stdout != day+" UTC\n" {
		day = later
	}
	r.wantOut(t, day+" UTC\n")
	in("web-1", "Asia/Tokyo").run(run...).wantOut(t, "")
	in("web-3", "America/Los_Angeles").run(run...).wantOut(t, "")
	newHost(t, "web-4", "TZ=", "ONCEONLY_TZ=Asia/Tokyo").run("run", "--job", "report", "--every", "day", "--", "false").wantOut(t, "")
	h := newHost(t, "web-5")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return v == "TZ=UTC" }) // the machine's zone, whatever it is
	h.run(run...).wantOut(t, "")

	for _, zone := range []string{"Asia/Soul", ""} {
		r := in("web-6", "UTC").run("run", "--job", "report", "--every", "day", "--tz", zone, "--", "false")
		r.wantLike(t, exitUsage, `onceonly: --tz "`+zone+`": .*`)
	}
	in("web-6", "Mars/Olympus").run("run", "--job", "report", "--every", "day", "--", "false").wantLike(t, exitUsage, `onceonly: TZ "Mars/Olympus": .*`)
}

// A clock that is set back makes no second effect: not within the day, not across midnight. (SH-19)
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	zone, midnight := atMidnight()
	h := newHost(t, "web-1")
	log := filepath.Join(t.TempDir(), "log")
	at := func(d time.Duration, line ...string) {
		t.Helper()
		args := append(append([]string{"run", "--tz", zone}, line...), "--", "sh", "-c", `echo $ONCEONLY_JOB $ONCEONLY_SLOT >>"$0"`, log)
		if r := h.runAt(midnight.Add(d), args...); r.status != 0 || strings.Count(r.stderr, "\n") > 1 { // it may be told that its clock is off
			t.Errorf("%v after midnight: %v", d, r)
		}
	}
	local := func(d time.Duration, layout string) string {
		l, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return midnight.Add(d).In(l).Format(layout)
	}
	day := []string{"--job", "day", "--every", "day"}
	hour := []string{"--job", "hour", "--every", "hour"}
	line := []string{"--job", "line", "--schedule", "0 0 * * *"}
	for _, l := range [][]string{day, hour, line} {
		for _, d := range []time.Duration{-2 * time.Second, 5 * time.Second, -2 * time.Second, 20 * time.Minute, 10 * time.Minute,
			20*time.Minute - 7*time.Second, 5 * time.Second, -10 * time.Minute} {
			at(d, l...)
		}
	}
	before, after := local(-time.Second, time.DateOnly), local(0, time.DateOnly)
	want := []string{"day " + before, "day " + after, "hour " + local(-time.Hour, "2006-01-02T15:04-07:00"),
		"hour " + local(0, "2006-01-02T15:04-07:00"), "line " + before, "line " + after}
	if got := lines(log); !slices.Equal(got, want) {
		t.Errorf("effects: %q, want %q", got, want)
	}
}

// A host whose clock is plainly wrong would use up a day to come: it is refused, and told both times. One that is a bit
// off runs and says so; seconds are not worth a word. (SH-20)
func TestClockPlainlyWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job    string
		off    time.Duration
		status int
		stderr string
	}{
		{"day-ahead", 26 * time.Hour, exitDisagree, `onceonly: day-ahead: not run: clock is 2[56]h\d+m\S* ahead of Redis \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d here, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d there\)` +
			"\nonceonly: hint: timedatectl status\n"},
		{"day-behind", -26 * time.Hour, exitDisagree, `onceonly: day-behind: not run: clock is 26h0m\S* behind Redis \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d here, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d there\)` +
			"\nonceonly: hint: timedatectl status\n"},
		{"61m-ahead", 61 * time.Minute, exitDisagree, "onceonly: 61m-ahead: not run: clock is .*\n"},
		{"59m-ahead", 59 * time.Minute, 0, `onceonly: clock is 5[89]m\S* ahead of Redis` + "\n"},
		{"2m-ahead", 124 * time.Second, 0, `onceonly: clock is 2m0[0-4]s ahead of Redis` + "\n"},
		{"2m-behind", -124 * time.Second, 0, `onceonly: clock is 2m\d+s behind Redis` + "\n"},
		{"20s-ahead", 20 * time.Second, 0, ""},
		{"20s-behind", -20 * time.Second, 0, ""},
	} {
		h, log := newHost(t, "web-1"), filepath.Join(t.TempDir(), "log")
		args := []string{"run", "--job", c.job, "--every", "day", "--", "sh", "-c", `echo run >>"$0"`, log}
		h.runAt(time.Now().Add(c.off), args...).wantLike(t, c.status, c.stderr)
		if ran := len(lines(log)) == 1; ran != (c.status == 0) {
			t.Errorf("%s: ran: %v", c.job, ran)
		}
		if n, _ := shared.rdb.HLen(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys(c.job)[2]).Result(); (n == 1) != (c.status == 0) {
			t.Errorf("%s: %d entries", c.job, n)
		}
		// Whoever finds it done says nothing about clocks, however wrong they are within the hour.
		if c.status == 0 && c.off > time.Minute {
			newHost(t, "web-2").runAt(time.Now().Add(c.off), args...).wantOut(t, "")
		}
	}
}

// Replicas that share one name, each process 1 of its own, are told apart: one effect, and one that is started again while
// the lease of its former self still stands does not take it for its own. (SH-58)
func TestSameHostNameSamePID(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	h := newHost(t, "")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "ONCEONLY_HOST=") })
	log := filepath.Join(t.TempDir(), "log")
	start := func(job, command string) (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		cmd := exec.Command(unshare[0], append(unshare[1:], "sh", "-c", `hostname app && exec onceonly run --job "$0" --every day --lease 3s -- sh -c "$1"`,
			job, command)...)
		cmd.Env = h.env
		var text bytes.Buffer
		cmd.Stderr = &text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &text
	}
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }

	command := `echo $ONCEONLY_RUN_ID >>` + log + `; sleep 600`
	one, _ := start("replica", command)
	two, _ := start("replica", command)
	eventually(t, "one of two runs", func() bool { return len(lines(log)) == 1 })
	ended := make(chan *exec.Cmd, 2)
	for _, cmd := range []*exec.Cmd{one, two} {
		go func() { cmd.Wait(); ended <- cmd }()
	}
	loser := <-ended
	if status := loser.ProcessState.ExitCode(); status != 0 {
		t.Errorf("the loser ended with %d", status)
	}
	e := entryOf(t, "replica", today())
	if e.Host != "app" || e.PID != 1 || e.RunID != lines(log)[0] {
		t.Errorf("the entry: %+v; the run ID %q", e, lines(log))
	}
	winner := one
	if loser == one {
		winner = two
	}
	winner.Process.Kill()
	<-ended
	again, text := start("replica", command) // busy: the lease stands
	status := exitStatus(t, again.Wait())
	if late := slotLock(t, "replica") == ""; len(lines(log)) != 1 || !late && (status != 0 || text.Len() > 0) {
		t.Errorf("started again within the lease: status %d, %d effects, stderr %q", status, len(lines(log)), text)
	}
	eventually(t, "the lease is over", func() bool {
		n, _ := shared.rdb.Exists(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).keys("replica")[0]).Result()
		return n == 0
	})
	again, text = start("replica", command)
	if status := exitStatus(t, again.Wait()); status != exitNotDone || !strings.Contains(text.String(), "uncertain: app:1 began at") || len(lines(log)) != 1 {
		t.Errorf("after the lease: status %d, %d effects, stderr %q", status, len(lines(log)), text)
	}
	other, _ := start("other", "true")
	if exitStatus(t, other.Wait()); entryOf(t, "other", today()).RunID == e.RunID {
		t.Error("two runs of one host and PID have one run ID")
	}
}

// A job's name does not depend on where the command lies, but its arguments must agree; a shell names nothing. (SH-61)
func TestNameTiedToTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	var paths []string
	for _, release := range []string{"release-1", "release-2", "release-3"} {
		path := filepath.Join(dir, release, "invoice")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho $ONCEONLY_JOB $* >>"+log+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	hosts := []*host{newHost(t, "web-1"), newHost(t, "web-2"), newHost(t, "web-3")}
	for i, h := range hosts {
		args := []string{"run", "--job", "bill", "--every", "day", "--", paths[i]}
		if i == 2 {
			args = append(args, "2026-11-29")
		}
		h.run(args...).want(t, 0, "")
	}
	hosts[0].run("run", "--every", "day", "--", paths[0], "-a").want(t, 0, "")
	hosts[1].run("run", "--every", "day", "--", paths[1], "-a").want(t, 0, "")
	for _, args := range [][]string{{paths[2], "-b"}, {paths[2]}, {paths[2], "-a", ""}} {
		hosts[2].run(append([]string{"run", "--every", "day", "--"}, args...)...).wantLike(t, exitDisagree,
			`onceonly: invoice \d{4}-\d\d-\d\d: not run: web-1 asked at \d\d:\d\d:\d\d with other arguments`+"\n"+
				`onceonly: hint: two lines need two names: --job NAME on each`+"\n")
	}
	if got := lines(log); !slices.Equal(got, []string{"bill", "invoice -a"}) {
		t.Errorf("effects: %q", got)
	}
	for _, words := range [][]string{{"sh", "-c", "true"}, {"/usr/bin/env", "true"}, {"python3.11", "x.py"}} {
		hosts[0].run(append([]string{"run", "--every", "day", "--"}, words...)...).wantLike(t, exitUsage,
			`onceonly: "`+filepath.Base(words[0])+`" runs other programs, so it cannot name the job`+"\n"+`onceonly: hint: onceonly run --job NAME -- [^\n]*`+"\n")
	}
}

// Names with quotes, spaces and any script are given back as they are. (SH-63, but for status)
func TestNamesUnchanged(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for _, name := range []string{`say "hi"`, `it's`, "a b  c", "청구서-발송", "Ärger/über:alles.", `back\slash`, "{tag}", "100%", "%7B", "😀"} {
		r := h.run("run", "--job", name, "--date", "2025-06-10", "--", "sh", "-c", `printf %s "$ONCEONLY_JOB|$ONCEONLY_KEY"`)
		r.wantOut(t, name+"|"+name+"/2025-06-10")
		if e := entryOf(t, name, "2025-06-10"); e.State != "done" {
			t.Errorf("%s: %+v", name, e)
		}
		listed, err := shared.rdb.SIsMember(context.Background(), (&ledger{shared.rdb, namespaceOf(t)}).jobsKey(), name).Result()
		if err != nil || !listed {
			t.Errorf("%s is not in the list of jobs: %v", name, err)
		}
	}
	h.run("run", "--frobnicate", "--job", "x", "--", "true").wantLike(t, exitUsage, "onceonly: no option --frobnicate\nonceonly: hint: .*\n")
}

// The ledger tells whether a slot is running, finished or dead: a run that was killed is never "running" for whoever asks
// after its lease. (SH-64, in the ledger)
func TestRunningFinishedOrDead(t *testing.T) {
	t.Parallel()
	h, other := newHost(t, "web-1"), newHost(t, "web-2")
	ctx, l := context.Background(), &ledger{shared.rdb, namespaceOf(t)}
	line := func(slot string) []string {
		return []string{"run", "--job", "etl", "--every", "day", "--date", slot, "--lease", "2s", "--", "sh", "-c", `[ -e "$0" ] || exec sleep 600; exit $(cat "$0")`}
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if text != "" {
			os.WriteFile(path, []byte(text), 0o600)
		}
		return path
	}

	dead := h.launch(append(line("2025-06-01"), file("never", ""))...)
	cmd := dead.cmd
	eventually(t, "it runs", func() bool { n, _ := l.HExists(ctx, l.keys("etl")[2], "2025-06-01").Result(); return n })
	e := entryOf(t, "etl", "2025-06-01")
	held, _ := l.Get(ctx, l.keys("etl")[0]).Result()
	if e.State != "running" || e.Host != "web-1" || e.PID != cmd.Process.Pid || e.Ended != 0 || e.Exit != nil || !strings.HasPrefix(held, e.RunID) {
		t.Errorf("while it runs: %+v, the lock %q", e, held)
	}
	ttl, _ := l.PTTL(ctx, l.keys("etl")[0]).Result()
	if ttl <= 0 || ttl > 2*time.Second {
		t.Errorf("the lease is left for %v", ttl)
	}
	other.run(append(append([]string{"run", "-v"}, line("2025-06-01")[1:]...), file("never", ""))...).wantLike(t, 0,
		fmt.Sprintf(`onceonly: etl 2025-06-01: not run: running on web-1:%d since [^\n]*, renewed [^\n]* ago, lease until [^\n]*`+"\n", cmd.Process.Pid))
	dead.die()
	if r := other.run(append(line("2025-06-01"), file("never", ""))...); r.status != 0 && slotLock(t, "etl") != "" { // it may still be alive
		t.Errorf("within the lease: %v", r)
	}
	eventually(t, "the lease is over", func() bool { n, _ := l.Exists(ctx, l.keys("etl")[0]).Result(); return n == 0 })
	other.run(append(line("2025-06-01"), file("never", ""))...).wantLike(t, exitNotDone,
		fmt.Sprintf(`onceonly: etl 2025-06-01: not run: uncertain: web-1:%d began at [^\n]* and never reported; it may have done all, part or nothing`+
			"\nonceonly: hint: find out, then onceonly resolve etl --date 2025-06-01 --done or --reopen, --reason TEXT\n", cmd.Process.Pid))

	r := h.launch(append(line("2025-06-02"), file("never", ""))...)
	childOf(t, r.cmd.Process.Pid)
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait().wantLike(t, 143, "onceonly: etl 2025-06-01: uncertain: [^\n]*\nonceonly: hint: [^\n]*\n")
	if e := entryOf(t, "etl", "2025-06-02"); e.State != "failed" || e.Signal != "TERM" || e.Reason != "interrupted" || e.Ended < e.Began {
		t.Errorf("terminated: %+v", e)
	}
	h.run(append(line("2025-06-03"), file("good", "0"))...)
	if e := entryOf(t, "etl", "2025-06-03"); e.State != "done" || e.Exit == nil || *e.Exit != 0 || e.Ended < e.Began || e.Attempt != 1 {
		t.Errorf("done: %+v", e)
	}
	h.run(append(line("2025-06-04"), file("bad", "3"))...).wantLike(t, 3, "")
	if e := entryOf(t, "etl", "2025-06-04"); e.State != "failed" || e.Exit == nil || *e.Exit != 3 || e.Signal != "" {
		t.Errorf("failed: %+v", e)
	}
}

// childOf waits until a process has a child that runs another program, and returns its ID.
func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	eventually(t, "the command has started", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		child = 0
		for _, thread := range threads { // the one that has started it
			text, _ := os.ReadFile(thread)
			if n, _ := fmt.Sscan(string(text), &child); n == 1 {
				break
			}
		}
		if child == 0 {
			return false
		}
		mine, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", child))
		return theirs != "" && theirs != mine
	})
	return child
}

// One shape at a time: a slot that overlaps in time with one of another name is refused, whichever came first; what overlaps
// with nothing runs. (DESIGN 3)
func TestOneShapeAtATime(t *testing.T) {
	t.Parallel()
	const day, hour = "2025-06-10", "2025-06-10T14:30:00Z"
	for name, asks := range map[string][][3]string{ // line, date, what the command is told: "" is skipped as done, "!" is refused
		"day-hour":   {{"day", day, "2025-06-10"}, {"hour", hour, "!"}, {"hour", "2025-06-11T00:00:00Z", "2025-06-11T00:00+00:00"}, {"day", day, ""}, {"day", "2025-06-11", "!"}, {"day", "2025-06-12", "2025-06-12"}},
		"hour-day":   {{"hour", hour, "2025-06-10T14:00+00:00"}, {"day", day, "!"}, {"day", "2025-06-09", "2025-06-09"}, {"hour", "2025-06-10T00:00:00Z", "2025-06-10T00:00+00:00"}, {"hour", "2025-06-09T23:59:59Z", "!"}},
		"day-5m":     {{"day", day, "2025-06-10"}, {"*/5 * * * *", hour, "!"}, {"5m", hour, "!"}, {"5m", "2025-06-11T00:04:00Z", "2025-06-11T00:00+00:00"}},
		"5m-day":     {{"5m", "2025-06-10T23:55:00Z", "2025-06-10T23:55+00:00"}, {"day", day, "!"}, {"0 2 * * *", day, "!"}, {"0 2 * * *", "2025-06-11T02:00:00Z", "2025-06-11"}},
		"5m-line":    {{"5m", hour, "2025-06-10T14:30+00:00"}, {"*/5 * * * *", hour, ""}, {"*/15 * * * *", "2025-06-10T14:35:00Z", ""}, {"*/20 * * * *", "2025-06-10T14:35:00Z", "!"}},
		"day-line":   {{"day", day, "2025-06-10"}, {"0 2 * * *", "2025-06-10T02:00:00Z", ""}, {"0 4 * * *", "2025-06-11T04:00:00Z", "2025-06-11"}, {"day", "2025-06-11", ""}},
		"week-day":   {{"week", day, "2025-W24"}, {"day", day, "!"}, {"0 2 * * 1", "2025-06-09T02:00:00Z", "!"}, {"day", "2025-06-16", "2025-06-16"}, {"week", "2025-06-16", "!"}},
		"month-week": {{"month", day, "2025-06"}, {"week", day, "!"}, {"week", "2025-07-01", "!"}, {"week", "2025-07-07", "2025-W28"}, {"month", "2025-07-01", "!"}, {"month", "2025-05-31", "2025-05"}},
		"hours":      {{"6h", hour, "2025-06-10T12:00+00:00"}, {"hour", hour, "!"}, {"hour", "2025-06-10T12:10:00Z", ""}, {"hour", "2025-06-10T18:00:00Z", "2025-06-10T18:00+00:00"}, {"6h", "2025-06-10T18:00:00Z", ""}, {"hour", "2025-06-10T19:00:00Z", "2025-06-10T19:00+00:00"}},
		"host-by-host": {{"* * * * *", "2025-06-10T14:04:00Z", "2025-06-10T14:04+00:00"}, {"* * * * *", "2025-06-10T14:05:00Z", "2025-06-10T14:05+00:00"}, {"*/2 * * * *", "2025-06-10T14:04:20Z", "!"},
			{"*/2 * * * *", "2025-06-10T14:06:00Z", "2025-06-10T14:06+00:00"}, {"* * * * *", "2025-06-10T14:06:00Z", ""}, {"* * * * *", "2025-06-10T14:07:00Z", "!"},
			{"* * * * *", "2025-06-10T14:08:00Z", "2025-06-10T14:08+00:00"}, {"*/2 * * * *", "2025-06-10T14:08:00Z", ""}, {"* * * * *", "2025-06-10T14:09:00Z", "2025-06-10T14:09+00:00"},
			{"*/2 * * * *", "2025-06-10T14:10:00Z", "2025-06-10T14:10+00:00"}, {"*/1 * * * *", "2025-06-10T14:12:00Z", "2025-06-10T14:12+00:00"}, {"* * * * *", "2025-06-10T14:13:00Z", "2025-06-10T14:13+00:00"}},
		"*/5-*/15": {{"*/5 * * * *", "2025-06-10T14:20:00Z", "2025-06-10T14:20+00:00"}, {"*/15 * * * *", "2025-06-10T14:15:00Z", "!"}, {"*/15 * * * *", "2025-06-10T14:30:00Z", "2025-06-10T14:30+00:00"}, {"*/5 * * * *", "2025-06-10T14:35:00Z", "!"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, a := range asks {
				option := "--every"
				if strings.Contains(a[0], " ") {
					option = "--schedule"
				}
				h := newHost(t, fmt.Sprintf("web-%d", i))
				r := h.run("run", "--job", "sync", option, a[0], "--date", a[1], "--", "sh", "-c", "echo $ONCEONLY_SLOT")
				switch a[2] {
				case "":
					r.wantOut(t, "")
				case "!":
					r.wantLike(t, exitDisagree, `onceonly: sync: not run: this line is '[^']+', that of web-\d+ is '[^']+', and their slots overlap[^\n]*`+
						"\nonceonly: hint: give all hosts the same line: onceonly status sync --hosts\n")
					if !strings.Contains(r.stderr, a[0]) {
						t.Errorf("it does not say what this line is: %s", r.stderr)
					}
				default:
					r.wantOut(t, a[2]+"\n")
				}
			}
		})
	}
}

// The message of two shapes names both lines and the host of the other. (R16)
func TestShapeMessage(t *testing.T) {
	t.Parallel()
	newHost(t, "web-3").run("run", "--job", "sync", "--schedule", "*/5 * * * *", "--date", "2025-06-10T14:20:00Z", "--", "true").wantOut(t, "")
	newHost(t, "web-4").run("run", "--job", "sync", "--schedule", "*/15 * * * *", "--date", "2025-06-10T14:15:00Z", "--", "true").wantLike(t, exitDisagree,
		regexp.QuoteMeta(`onceonly: sync: not run: this line is '*/15 * * * *', that of web-3 is '*/5 * * * *', and their slots overlap`)+`[^\n]*`+
			"\nonceonly: hint: give all hosts the same line: onceonly status sync --hosts\n")
}

// One instant under two zones is one shape too many; zones that are the same by another name are one. (DESIGN 3)
func TestOneInstantTwoZones(t *testing.T) {
	t.Parallel()
	const at = "2025-06-10T05:00:00Z"
	for i, a := range []struct{ job, zone, line, date, want string }{
		{"hour", "Asia/Tokyo", "hour", at, "2025-06-10T14:00+09:00"},
		{"hour", "UTC", "hour", at, "!"},
		{"hour", "Asia/Seoul", "hour", at, ""},
		{"hour", "UTC", "hour", "2025-06-10T06:00:00Z", "2025-06-10T06:00+00:00"},
		{"hour", "Asia/Tokyo", "hour", "2025-06-10T06:00:00Z", "!"},
		{"day", "Asia/Tokyo", "day", at, "2025-06-10"},
		{"day", "UTC", "day", at, ""},                      // it has the same name: done
		{"day", "UTC", "day", "2025-06-09T20:00:00Z", "!"}, // in Tokyo that is the 10th
		{"day", "UTC", "day", "2025-06-11T20:00:00Z", "2025-06-11"},
		{"day", "Asia/Tokyo", "day", "2025-06-11T20:00:00Z", "!"}, // the 12th there
		{"twice", "Asia/Tokyo", "0 2,14 * * *", at, "2025-06-10T14:00"},
		{"twice", "UTC", "0 2,14 * * *", "2025-06-10T03:00:00Z", "!"}, // 02:00 to 14:00 there, 14:00 to 02:00 here
	} {
		option := "--every"
		if strings.Contains(a.line, " ") {
			option = "--schedule"
		}
		r := newHost(t, fmt.Sprintf("web-%d", i)).run("run", "--job", a.job, "--tz", a.zone, option, a.line, "--date", a.date, "--", "sh", "-c", "echo $ONCEONLY_SLOT")
		switch a.want {
		case "":
			r.wantOut(t, "")
		case "!":
			r.wantLike(t, exitDisagree, `onceonly: `+a.job+`: not run: .* their slots overlap.*`)
		default:
			r.wantOut(t, a.want+"\n")
		}
	}
}

// The command is told the name of its slot and its business date, for every kind of line. (DESIGN 3, ruling 8)
func TestSlotsAndBusinessDates(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	for i, c := range []struct {
		options []string
		at      string
		want    string
	}{
		{[]string{"--every", "day", "--day-start", "06:00"}, "2025-06-10T05:59:59Z", "2025-06-09 2025-06-09"},
		{[]string{"--every", "day", "--day-start", "06:00"}, "2025-06-10T06:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--every", "1d"}, "2025-06-10T23:59:59Z", "2025-06-10 2025-06-10"},
		{[]string{"--every", "week"}, "2025-06-15T23:59:59Z", "2025-W24 2025-06-09"},
		{[]string{"--every", "week"}, "2025-06-16T00:00:00Z", "2025-W25 2025-06-16"},
		{[]string{"--every", "week", "--day-start", "06:00"}, "2025-06-16T05:00:00Z", "2025-W24 2025-06-09"},
		{[]string{"--every", "month"}, "2025-06-30T23:59:59Z", "2025-06 2025-06-01"},
		{[]string{"--every", "month", "--day-start", "06:00"}, "2025-06-01T05:00:00Z", "2025-05 2025-05-01"},
		{[]string{"--every", "hour", "--day-start", "06:30"}, "2025-06-10T06:20:00Z", "2025-06-10T06:00+00:00 2025-06-10"},
		{[]string{"--every", "6h", "--day-start", "05:00"}, "2025-06-10T05:59:00Z", "2025-06-10T00:00+00:00 2025-06-10"},
		{[]string{"--every", "60m", "--tz", "Asia/Kolkata"}, "2025-06-10T00:10:00Z", "2025-06-10T05:00+05:30 2025-06-10"},
		{[]string{"--every", "15m"}, "2025-06-10T06:44:59Z", "2025-06-10T06:30+00:00 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *"}, "2025-06-11T00:00:20Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *"}, "2025-06-10T23:59:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "59 23 * * *", "--day-start", "06:00"}, "2025-06-11T00:00:20Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@daily"}, "2025-06-10T12:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@midnight"}, "2025-06-10T12:00:00Z", "2025-06-10 2025-06-10"},
		{[]string{"--schedule", "@hourly"}, "2025-06-10T12:34:00Z", "2025-06-10T12:00+00:00 2025-06-10"},
		{[]string{"--schedule", "@weekly"}, "2025-06-10T12:00:00Z", "2025-06-08 2025-06-08"},
		{[]string{"--schedule", "@monthly"}, "2025-06-10T12:00:00Z", "2025-06-01 2025-06-01"},
		{[]string{"--schedule", "@yearly"}, "2025-06-10T12:00:00Z", "2025-01-01 2025-01-01"},
		{[]string{"--schedule", "@annually"}, "2025-06-10T12:00:00Z", "2025-01-01 2025-01-01"},
		{[]string{"--schedule", "30 1,13 * * *"}, "2025-06-10T12:00:00Z", "2025-06-10T01:30 2025-06-10"},
		{[]string{"--schedule", "0 */6 * * *"}, "2025-06-10T12:34:00Z", "2025-06-10T12:00+00:00 2025-06-10"},
		{[]string{"--schedule", "0 2 1 * 1"}, "2025-06-10T12:00:00Z", "2025-06-09 2025-06-09"}, // the 1st or a Monday
		{[]string{"--schedule", "0 2 1 * 1"}, "2025-06-08T12:00:00Z", "2025-06-02 2025-06-02"},
		{[]string{"--schedule", "0 2 */8 * 1"}, "2025-06-10T12:00:00Z", "2025-06-09 2025-06-09"}, // the 9th and a Monday
		{[]string{"--schedule", "0 2 29 2 *"}, "2025-06-10T12:00:00Z", "2024-02-29 2024-02-29"},
		{[]string{"--schedule", "0 2 * * mon-fri"}, "2025-06-08T12:00:00Z", "2025-06-06 2025-06-06"},
		{[]string{"--schedule", "0 2 * * 7"}, "2025-06-10T12:00:00Z", "2025-06-08 2025-06-08"},
	} {
		args := append([]string{"run", "--job", fmt.Sprint("j", i), "--date", c.at}, c.options...)
		r := h.run(append(args, tellSlot...)...)
		if r.status != 0 || r.stdout != c.want+"\n" || r.stderr != "" {
			t.Errorf("%v at %s: %v, want %s", c.options, c.at, r, c.want)
		}
	}
}

// A line near midnight that is started a little late works for the day that it was meant for: by the clock, not by --date.
func TestLineNearMidnight(t *testing.T) {
	t.Parallel()
	zone, midnight := atMidnight()
	local, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	yesterday := midnight.In(local).AddDate(0, 0, -1).Format(time.DateOnly)
	args := append([]string{"run", "--job", "close", "--schedule", "59 23 * * *", "--tz", zone}, tellSlot...)
	r := newHost(t, "web-1").runAt(midnight.Add(20*time.Second), args...)
	if r.status != 0 || r.stdout != yesterday+" "+yesterday+"\n" {
		t.Errorf("20 s after midnight: %v, want %s", r, yesterday)
	}
	newHost(t, "web-2").runAt(midnight.Add(-50*time.Second), args...).wantOut(t, "")
	calendar := append([]string{"run", "--job", "calendar", "--date", "yesterday", "--tz", zone}, tellSlot...)
	if r := newHost(t, "web-1").runAt(midnight.Add(20*time.Second), calendar...); r.stdout != yesterday+" "+yesterday+"\n" {
		t.Errorf("yesterday: %v, want %s", r, yesterday)
	}
}

// A line that says nothing about how often it runs, and comes again at another minute of the same day, is refused instead of
// being skipped in silence; whoever says that a day is meant is not, and neither is another host. (R19)
func TestLineThatIsNotDaily(t *testing.T) {
	t.Parallel()
	zone, midnight := atMidnight()
	at := func(name string, minutes int, more ...string) result {
		args := append([]string{"run", "--job", "sync", "--tz", zone}, more...)
		r := newHost(t, name).runAt(midnight.Add(time.Duration(minutes)*time.Minute), append(args, "--", "true")...)
		if strings.HasPrefix(r.stderr, "onceonly: clock is ") {
			_, r.stderr, _ = strings.Cut(r.stderr, "\n")
		}
		return r
	}
	at("web-1", 1).want(t, 0, "")
	at("web-1", 1).want(t, 0, "") // the same minute again
	at("web-2", 2).want(t, 0, "") // a host that is a minute late
	for _, minute := range []int{6, 11} {
		at("web-1", minute).wantLike(t, exitDisagree, fmt.Sprintf(
			`onceonly: sync \d{4}-\d\d-\d\d: not run: this line ran at 00:01 and comes again at 00:%02d, but its slot is the whole day`+
				"\nonceonly: hint: [^\n]*--every day[^\n]*\n", minute))
	}
	at("web-1", 16, "--every", "day").want(t, 0, "")
	at("web-1", 16, "--attempts", "2").want(t, 0, "")
	at("web-1", 16, "--date", midnight.Format(time.RFC3339)).want(t, 0, "")
}

// 5,000 slots of a job: whatever --keep says bounds keys and bytes, an entry is below 400 bytes, and what was forgotten is
// refused, never run again. A thousand jobs that ran once leave a bounded number of keys each. (SH-65)
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	var all sync.WaitGroup
	for _, keep := range []int{10, 400, 1000} {
		all.Go(func() { boundedHistory(t, r, keep, 5000) })
	}
	all.Go(func() { oneRunJobs(t, r, 1000) })
	all.Wait()
}

// quickly runs a slot as run does, but for the command.
func quickly(l *ledger, c *call, at time.Time) (*reply, error) {
	ctx := context.Background()
	var err error
	if c.slot, err = c.line.at(at); err != nil {
		return nil, err
	}
	r := &run{call: c, try: 1, lease: newLease(l, c.command.job, "web-1:1", time.Minute)}
	q := r.question()
	q.Dated = true // the slots lie years back, where no missed ones are looked for
	if r.reply, err = r.lease.begin(ctx, q); err != nil || r.reply.Verdict != "run" {
		return r.reply, err
	}
	e := r.end()
	e.State, e.Exit, e.Took, e.Listed = "done", "0", 90061, true
	_, err = r.lease.finish(ctx, e)
	return r.reply, err
}

func boundedHistory(t *testing.T, r *redisServer, keep, slots int) {
	ctx := context.Background()
	c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": fmt.Sprint("minutely-", keep), "schedule": "* * * * *", "keep": fmt.Sprint(keep),
		"host": "web-12.example.com", "attempts": "2"}, "/usr/bin/sync-orders", "--all")
	if err != nil {
		t.Error(err)
		return
	}
	l := c.ledger
	keys := l.keys(c.command.job)
	begin := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	var half [2]int64 // bytes of ledger and slots after half of the slots, and after all
	bytes := func() (n int64) {
		for _, k := range []string{keys[2], keys[3]} {
			m, _ := l.MemoryUsage(ctx, k, 0).Result()
			n += m
		}
		return n
	}
	for i := range slots {
		if reply, err := quickly(l, c, at(i)); err != nil || reply.Verdict != "run" {
			t.Errorf("keep %d, slot %d: %+v, %v", keep, i, reply, err)
			return
		}
		if i == slots/2-1 {
			half[0] = bytes()
		}
	}
	half[1] = bytes()
	entries, _ := l.HLen(ctx, keys[2]).Result()
	ranked, _ := l.ZCard(ctx, keys[3]).Result()
	events, _ := l.XLen(ctx, keys[4]).Result()
	fields, _ := l.HLen(ctx, keys[5]).Result()
	hosts, _ := l.HLen(ctx, keys[6]).Result()
	if entries != int64(keep) || ranked != entries || events > int64(keep*4+200) || fields > 40 || hosts != 1 {
		t.Errorf("keep %d: %d entries, %d ranked, %d events, %d fields of meta, %d hosts", keep, entries, ranked, events, fields, hosts)
	}
	longest := 0
	texts, _ := l.HVals(ctx, keys[2]).Result()
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	whole := int64(0)
	names, _ := l.Keys(ctx, l.namespace+":{"+c.command.job+"}*").Result()
	for _, k := range names {
		n, _ := l.MemoryUsage(ctx, k, 0).Result()
		whole += n
	}
	t.Logf("keep %d after %d slots: %d keys, ledger+slots %d bytes = %d an entry, longest JSON %d bytes, all keys %d bytes", keep, slots, len(names),
		half[1], half[1]/entries, longest, whole)
	if longest >= 400 {
		t.Errorf("an entry has %d bytes", longest)
	}
	if len(names) > 7 || slots/2 >= keep && half[1] > half[0]*11/10 {
		t.Errorf("keep %d: keys %v; ledger and slots %d bytes, after half of the slots %d", keep, names, half[1], half[0])
	}
	low, err := quickly(l, c, at(slots-keep-1))
	if err != nil || low.Verdict != "old" {
		t.Errorf("keep %d: a forgotten slot: %+v, %v", keep, low, err)
	}
	if known, err := quickly(l, c, at(slots-keep)); err != nil || known.Verdict != "done" {
		t.Errorf("keep %d: the oldest known slot: %+v, %v", keep, known, err)
	}
	refused := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url()).run("run", "--job", c.command.job, "--schedule", "* * * * *", "--keep", fmt.Sprint(keep),
		"--date", at(0).Format(time.RFC3339), "--", "echo", "again")
	refused.want(t, exitNotDone, fmt.Sprintf("onceonly: %s 2025-06-01T00:00: not run: the ledger reaches back to %s, nobody can say whether it ran\n",
		c.command.job, at(slots-keep).Format("2006-01-02T15:04")))
	if refused.stdout != "" {
		t.Error("a forgotten slot ran again")
	}
}

func oneRunJobs(t *testing.T, r *redisServer, jobs int) {
	ctx := context.Background()
	at := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	var l *ledger
	for i := range jobs {
		c, err := newCallAt(t, time.Now(), map[string]string{"redis": r.url(), "job": fmt.Sprint("once-", i)}, "/usr/bin/invoice")
		if err != nil {
			t.Error(err)
			return
		}
		if l != nil {
			c.ledger.Close()
			c.ledger = l
		}
		l = c.ledger
		if reply, err := quickly(l, c, at); err != nil || reply.Verdict != "run" {
			t.Errorf("job %d: %+v, %v", i, reply, err)
			return
		}
	}
	names, bytes := []string{}, int64(0)
	for iter := l.Scan(ctx, 0, l.namespace+":{once-*", 1000).Iterator(); iter.Next(ctx); {
		names = append(names, iter.Val())
	}
	for _, k := range names[:min(600, len(names))] {
		n, _ := l.MemoryUsage(ctx, k, 0).Result()
		bytes += n
	}
	t.Logf("%d jobs that ran once: %d keys = %.1f a job, %d bytes a job", jobs, len(names), float64(len(names))/float64(jobs),
		bytes*int64(len(names))/int64(min(600, len(names)))/int64(jobs))
	if len(names) > 6*jobs {
		t.Errorf("%d keys of %d jobs", len(names), jobs)
	}
}

// The slot that runs is never forgotten, however many newer ones come: else its end would be lost.
func TestHoldersSlotIsKept(t *testing.T) {
	t.Parallel()
	options := func(minute int) []string {
		return []string{"run", "--job", "tick", "--schedule", "* * * * *", "--keep", "10", "--date", fmt.Sprintf("2025-06-01T00:%02d:00Z", minute)}
	}
	one := newHost(t, "web-1").hold(filepath.Join(t.TempDir(), "log"), options(0)...)
	two := newHost(t, "web-2")
	for minute := 1; minute <= 30; minute++ {
		two.run(append(options(minute), "--", "true")...).wantOut(t, "")
	}
	if s := stateOf(t, "tick", "2025-06-01T00:00+00:00"); s != "running" {
		t.Errorf("the slot that runs is %q", s)
	}
	if n, _ := shared.rdb.HLen(context.Background(), jobKeys(t, "tick")[2]).Result(); n > 11 {
		t.Errorf("%d entries, 10 are to be kept", n)
	}
	one.open(0)
	one.wait().want(t, 0, "")
	two.run(append(options(0), "--", "echo", "again")...).wantOut(t, "")
	if s := stateOf(t, "tick", "2025-06-01T00:00+00:00"); s != "done" {
		t.Errorf("the slot that ran is %q", s)
	}
	two.run(append(options(5), "--", "echo", "again")...).wantLike(t, exitNotDone, "onceonly: tick 2025-06-01T00:05: not run: the ledger reaches back to .*")
}

// What is shown about an entry survives as JSON that others read: numbers are numbers, and the token is whole.
func TestEntryIsJSON(t *testing.T) {
	t.Parallel()
	newHost(t, "web-1").run("run", "--job", `a "b" ü`, "--date", "2025-06-10", "--", "true").wantOut(t, "")
	l := &ledger{shared.rdb, namespaceOf(t)}
	text, err := l.HGet(context.Background(), l.keys(`a "b" ü`)[2], "2025-06-10").Result()
	var e map[string]any
	if err = errors.Join(err, json.Unmarshal([]byte(text), &e)); err != nil {
		t.Fatal(err)
	}
	if token := fmt.Sprint(e["token"]); !regexp.MustCompile(`^\d{13}$`).MatchString(token) {
		t.Errorf("token %v in %s", e["token"], text)
	}
}
