package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about lines that do not fit: a slot that overlaps with one of another name, and a line that runs
// more often than its slot.

// One shape at a time: a slot that overlaps in time with one of another name is refused, whichever came first; what overlaps
// with nothing runs.
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

// The message of two shapes names both lines and the host of the other.
func TestShapeMessage(t *testing.T) {
	t.Parallel()
	newHost(t, "web-3").run("run", "--job", "sync", "--schedule", "*/5 * * * *", "--date", "2025-06-10T14:20:00Z", "--", "true").wantOut(t, "")
	newHost(t, "web-4").run("run", "--job", "sync", "--schedule", "*/15 * * * *", "--date", "2025-06-10T14:15:00Z", "--", "true").wantLike(t, exitDisagree,
		regexp.QuoteMeta(`onceonly: sync: not run: this line is '*/15 * * * *', that of web-3 is '*/5 * * * *', and their slots overlap`)+`[^\n]*`+
			"\nonceonly: hint: give all hosts the same line: onceonly status sync --hosts\n")
}

// A line that says nothing about how often it runs, and comes again at another minute of the same day, is refused instead of
// being skipped in silence; whoever says that a day is meant is not, and neither is another host.
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
				"\nonceonly: hint: "+regexp.QuoteMeta("--every 5m, or --schedule '*/5 * * * *'; --every day if once a day is meant")+"\n", minute))
	}
	at("web-1", 16, "--every", "day").want(t, 0, "")
	at("web-1", 16, "--attempts", "2").want(t, 0, "")
	at("web-1", 16, "--date", midnight.Format(time.RFC3339)).want(t, 0, "")
}

// notDaily is what a line hears that evidently runs more often than its slot.
var notDaily = regexp.MustCompile(`^onceonly: sync [0-9-]+: not run: this line ran at \d\d:\d\d and comes again at \d\d:\d\d, but its slot is the whole day
onceonly: hint: --every \S+, or --schedule '\S+ \* \* \* \*'; --every day if once a day is meant
$`)

// A line that is not daily: asked again by the same host in the same minute it is skipped in silence, at another hour and
// minute it is refused with a hint, unless the line says that a day is meant. Waiting for the clock would take a minute:
// the host's last question is set back in the roll call instead, and with ONCEONLY_TEST_LONG the clock is waited for.
func TestCaseLineThatIsNotDaily(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		words []string
		env   string
		back  string // the minute in the roll call; "": as it was
		other bool   // another host asks
		want  int
	}{
		{what: "the same minute", want: 0},
		{what: "another minute", back: "00:61", want: 78},
		{what: "another minute, another host", back: "00:61", other: true, want: 0},
		{what: "--every day", words: []string{"--every", "day"}, back: "00:61", want: 0},
		{what: "ONCEONLY_EVERY=day", env: "ONCEONLY_EVERY=day", back: "00:61", want: 0},
		{what: "--attempts 2", words: []string{"--attempts", "2"}, back: "00:61", want: 0},
		{what: "--date today", words: []string{"--date", "today"}, back: "00:61", want: 0},
		{what: "--exit-done 9", words: []string{"--exit-done", "9"}, back: "00:61", want: 78},
		{what: "-v", words: []string{"-v"}, back: "00:61", want: 78},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			web := hostWith(t, "web-1", c.env)
			args := slices.Concat([]string{"run", "--job", "sync"}, c.words, []string{"--", "echo", "ran"})
			for {
				minute := time.Now().Format("15:04")
				if r := web.run(args...); r.status != 0 || r.stdout != "ran\n" {
					t.Fatalf("the first: %v", r)
				}
				setMinute(t, "sync", "web-1", c.back)
				asker := web
				if c.other {
					asker = hostWith(t, "web-2", c.env)
				}
				r := asker.run(args...)
				if time.Now().Format("15:04") != minute { // the clock went on in between, perhaps to another day
					l := &ledger{shared.rdb, namespaceOf(t)}
					shared.rdb.Del(context.Background(), l.keys("sync")...)
					continue
				}
				if r.status != c.want || r.stdout != "" || c.want == 0 && r.stderr != "" || c.want == 78 && !notDaily.MatchString(r.stderr) {
					t.Errorf("got %v, want status %d", r, c.want)
				}
				return
			}
		})
	}
}

// setMinute changes the minute at which a host asked last, in the roll call.
func setMinute(t *testing.T, job, host, minute string) {
	t.Helper()
	if minute == "" {
		return
	}
	key := (&ledger{shared.rdb, namespaceOf(t)}).keys(job)[6]
	fields, err := shared.rdb.HGetAll(context.Background(), key).Result()
	if err != nil || len(fields) != 1 {
		t.Fatalf("the roll call has %q, %v; want one host", fields, err)
	}
	for name, text := range fields {
		changed := regexp.MustCompile(`"minute":"[^"]*"`).ReplaceAllString(text, `"minute":"`+minute+`"`)
		if changed == text {
			t.Fatalf("the roll call of %s has no minute: %s", host, text)
		}
		shared.rdb.HSet(context.Background(), key, name, changed)
	}
}

func hostWith(t *testing.T, name, variable string) *host {
	if variable == "" {
		return newHost(t, name)
	}
	return newHost(t, name, variable)
}
