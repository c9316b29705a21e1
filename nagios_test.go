package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The line of --brief, and the one rule that every view, the exit status and the metrics follow.

// statusAt is what --exit-code makes of the jobs, 0 to 3.
func statusAt(jobs []*jobState) int {
	if e, ok := (&statusAsk{exitCode: true}).verdict(jobs).(*exit); ok {
		return e.status
	}
	return 0
}

func TestNagiosLine(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	at := func(jobs string) string {
		return view(t, statusAsk{job: jobs, brief: true}, seoulNow, time.Minute)
	}
	same(t, at(""), "ONCEONLY CRITICAL - 4 of 7 jobs: backup uncertain 2026-11-29, close-books failed 2026-11, "+
		"etl missed 2026-11-24, report late 2026-11-29 | jobs=7 attention=4;0 running=1 paused=0\n")
	same(t, at("sync-orders"), "ONCEONLY OK - 1 job, newest done 22s ago | jobs=1 attention=0;0 running=0 paused=0\n")
	same(t, at("report"), "ONCEONLY CRITICAL - 1 of 1 job: report late 2026-11-29 | jobs=1 attention=1;0 running=0 paused=0\n")
}

// No alarm is louder than it is: a pause and an attempt to come are warnings. At most five jobs are named, and no | comes from a name.
func TestNagiosWarning(t *testing.T) {
	t.Parallel()
	now := msOf(t, seoulNow)
	seoul, _ := time.LoadLocation("Asia/Seoul")
	job := func(name, state string) *jobState {
		return &jobState{job: name, now: now, zone: seoul, slots: []*slotState{{name: "2026-11-29", state: state, begins: now, ended: now - 38_000}}}
	}
	purge := job("purge", "paused")
	purge.pause = &pause{Since: msOf(t, "2026-11-26T10:00:00+09:00")}
	var fleet []*jobState
	for i := range 299 {
		fleet = append(fleet, job(strconv.Itoa(i), "done"))
	}
	for range 4 {
		fleet[0].lock, fleet = "x", append(fleet[1:], fleet[0])
	}
	ask := &statusAsk{namespace: "onceonly"}
	all := append(slices.Clip(fleet), purge)
	same(t, ask.briefly(all), "ONCEONLY WARNING - 1 of 300 jobs: purge paused since 2026-11-26 | jobs=300 attention=0;0 running=4 paused=1\n")
	same(t, ask.briefly(append(slices.Clip(fleet), job("x", "done"))), "ONCEONLY OK - 300 jobs, newest done 38s ago | jobs=300 attention=0;0 running=4 paused=0\n")
	retrying := job("a|b", "retrying")
	same(t, ask.briefly([]*jobState{retrying}), "ONCEONLY WARNING - 1 of 1 job: a_b retrying 2026-11-29 | jobs=1 attention=0;0 running=0 paused=0\n")
	if got := []int{statusAt(all), statusAt(fleet), statusAt([]*jobState{retrying}), statusAt(nil)}; fmt.Sprint(got) != "[1 0 1 3]" {
		t.Errorf("statuses %v", got)
	}
	var bad []*jobState
	for i := range 17 {
		bad = append(bad, job(fmt.Sprint("bad-", i), "failed"))
	}
	got := ask.briefly(append(bad, purge))
	if !strings.Contains(got, "CRITICAL - 17 of 18 jobs: bad-0 failed 2026-11-29, ") || !strings.Contains(got, "bad-4 failed 2026-11-29 and 12 more | ") ||
		strings.Contains(got, "purge") || strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
}

// Whatever a ledger holds: footer, --problems, --exit-code, --brief, JSON and metric name the same slots; and no job is
// said to have fewer slots than need attention.
func TestStatusOneRule(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(20261129, 1))
	states := []string{"done", "done", "failed", "running", "skipped", "paused", "missed", "merged"}
	for i := range 40 {
		s := newSeed(t, fmt.Sprintf("job-%02d", i), "schedule", []string{"0 2 * * *", "*/5 * * * *", "", "0 2,14 * * *"}[i%4],
			"first", "2026-09-01", "attempts", 1+r.IntN(3))
		for d := range 45 {
			day := time.Date(2026, 11, 29-d, 2, 0, 0, 0, time.FixedZone("", 9*3600))
			if i < 20 && r.IntN(4) == 0 {
				continue
			}
			state := states[r.IntN(len(states))]
			if i >= 20 {
				state = "done"
			}
			if i < 4 {
				state = "failed"
			}
			name := day.Format(time.DateOnly)
			if i%4 == 3 {
				name += "T02:00"
			}
			s.ran(name, day.Format(time.RFC3339), day.Format(time.RFC3339), "web-1", time.Minute, fmt.Sprintf(`"state":%q`, state))
			if i < 20 && d%7 == 0 {
				s.ran(day.Format("2006-01"), day.AddDate(0, 0, -1).Format(time.RFC3339), day.Format(time.RFC3339), "web-1", time.Minute,
					`"state":"failed"`)
			}
		}
	}
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{json: true}, seoulNow, 0)), &jobs); err != nil {
		t.Fatal(err)
	}
	metrics, footer := view(t, statusAsk{metrics: true}, seoulNow, 0), view(t, statusAsk{}, seoulNow, 0)
	problems := view(t, statusAsk{problems: true}, seoulNow, 0)
	bad := 0
	for _, j := range jobs {
		n := len(j.Attention)
		if n > 0 {
			bad++
		}
		if want := fmt.Sprintf("onceonly_job_attention_slots{ledger=%q,job_name=%q} %d\n", namespaceOf(t), j.Job, n); !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
		_, named, _ := strings.Cut(footer, "attention: ")
		if strings.Contains(named, j.Job) != (n > 0) || strings.Contains(problems, "\n"+j.Job+" ") != (n > 0) {
			t.Errorf("%s: %v, but\n%s\n%s", j.Job, j.Attention, named, problems)
		}
		checkHead(t, view(t, statusAsk{job: j.Job, n: 7}, seoulNow, 0), n)
		brief := view(t, statusAsk{job: j.Job, brief: true}, seoulNow, 0)
		if critical := strings.HasPrefix(brief, "ONCEONLY CRITICAL"); critical != (n > 0) ||
			(n > 0 && !strings.Contains(brief, j.Job+" "+j.Attention[0].State+" "+strings.TrimSuffix(j.Attention[0].Slot, "+09:00"))) {
			t.Errorf("%v: %s", j.Attention, brief)
		}
	}
	if bad == 0 || bad == len(jobs) {
		t.Errorf("%d of %d jobs need attention: that shows nothing", bad, len(jobs))
	}
	if brief := view(t, statusAsk{brief: true}, seoulNow, 0); !strings.Contains(brief, fmt.Sprintf("attention=%d;0", bad)) {
		t.Errorf("%d need attention: %s", bad, brief)
	}
}

var jobHead = regexp.MustCompile(`(?m)^(.*)    (\d+) slots?, (none|\d+) needs? attention$`)

// checkHead holds a job's head against the number of slots that need attention: all are on show, and counted.
func checkHead(t *testing.T, text string, bad int) {
	t.Helper()
	m := jobHead.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no head:\n%s", text)
	}
	slots, _ := strconv.Atoi(m[2])
	needing, _ := strconv.Atoi(m[3])
	shown := strings.Count(m[1], "F") + strings.Count(m[1], "?") + strings.Count(m[1], "-") + strings.Count(m[1], "!")
	if needing != bad || slots < bad || len(m[1]) != slots || shown < bad {
		t.Errorf("%d need attention, %d shown: %q", bad, shown, m[0])
	}
}

// A month without one good day: 31 slots of 30 days and today are counted, and shown. (the newest began this instant)
func TestStatusHeadCountsAll(t *testing.T) {
	t.Parallel()
	newSeed(t, "etl", "schedule", "0 2 * * *", "first", "2026-10-01").days("2026-10-20", 1, "02:00:00")
	now := "2026-11-29T02:00:00+09:00"
	same(t, strings.Split(view(t, statusAsk{job: "etl", n: 1, late: time.Second}, now, 0), "\n")[1],
		strings.Repeat("-", 29)+"- "+"    31 slots, 30 need attention")
	var b bytes.Buffer
	b.WriteString(view(t, statusAsk{job: "etl", n: 1, late: time.Second}, "2026-11-29T02:00:01+09:00", 0))
	checkHead(t, b.String(), 30)
}

// --late moves the line between pending and late, for the table as for the monitoring.
func TestStatusLate(t *testing.T) {
	t.Parallel()
	newSeed(t, "etl", "schedule", "0 9 * * *", "first", "2026-11-28").days("2026-11-28", 1, "09:00:00")
	for late, want := range map[time.Duration]string{0: "pending", 10 * time.Minute: "late", 11 * time.Minute: "late", 11*time.Minute + time.Second: "pending", time.Hour: "pending"} {
		if got := view(t, statusAsk{late: late}, seoulNow, 0); !strings.Contains(got, " "+want+" ") {
			t.Errorf("--late %v: not %s:\n%s", late, want, got)
		}
		if got := view(t, statusAsk{late: late, brief: true}, seoulNow, 0); strings.Contains(got, "etl late 2026-11-29") != (want == "late") {
			t.Errorf("--late %v: %s", late, got)
		}
	}
}

// That nobody has asked since is said only if the roll call shows it.
func TestStatusNobodyAsked(t *testing.T) {
	t.Parallel()
	const said = "nobody has asked since"
	for name, c := range map[string]struct {
		asked []string
		heard string
		want  bool
	}{
		"none":    {[]string{"02:00:00", "02:00:01"}, "02:30:00", true},
		"one":     {[]string{"02:00:00", "02:30:01"}, "02:30:00", false},
		"empty":   {nil, "02:30:00", false},
		"unheard": {[]string{"02:00:00"}, "", false},
	} {
		meta := []any{"attempts", "2", "current", "2026-11-29"}
		if c.heard != "" {
			meta = append(meta, "heard", msOf(t, "2026-11-29T"+c.heard+"+09:00"))
		}
		s := newSeed(t, name, meta...).ran("2026-11-29", "2026-11-29T00:00:00+09:00", "2026-11-29T02:00:00+09:00", "web-1", 0, `"state":"running"`)
		for i, at := range c.asked {
			s.asked(fmt.Sprint("web-", i), "2026-11-29T"+at+"+09:00")
		}
		got := strings.Join(strings.Fields(view(t, statusAsk{job: name, n: 1}, seoulNow, 0)), " ")
		if strings.Contains(got, said) != c.want || !strings.Contains(got, "1 attempt left") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The program itself heeds --late: a slot due five minutes ago is pending, until it is said that this is late.
func TestStatusLateByOption(t *testing.T) {
	t.Parallel()
	due := time.Now().UTC().Add(-5 * time.Minute)
	before := due.AddDate(0, 0, -1).Truncate(time.Minute)
	newSeed(t, "etl", "zone", "UTC", "schedule", due.Format("4 15 * * *"), "first", before.Format(time.DateOnly)).
		ran(before.Format(time.DateOnly), before.Format(time.RFC3339), before.Format(time.RFC3339), "web-1", time.Minute, "")
	h := newHost(t, "web-1")
	if got := h.run("status", "--exit-code"); got.status != 0 || !strings.Contains(got.stdout, " pending ") {
		t.Errorf("%v", got)
	}
	for _, words := range [][]string{{"status"}, {"status", "--json"}, {"status", "--brief"}, {"status", "etl"}} {
		if got := h.run(append(words, "--late", "1m", "--exit-code")...); got.status != nagiosCritical || !strings.Contains(got.stdout, "late") {
			t.Errorf("%q: %v", words, got)
		}
	}
	if got := h.run("status", "--metrics", "--late", "1m"); !strings.Contains(got.stdout, `,job_name="etl",state="late"} 1`) {
		t.Errorf("%v", got)
	}
}
