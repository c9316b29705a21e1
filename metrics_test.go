package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The metrics: word for word, as promtool judges them, and in the file that a collector reads.

// samples are the metrics of one family, without its comments.
func samples(text, family string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, family+"{") || strings.HasPrefix(line, family+" ") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

func TestMetricsOfJob(t *testing.T) {
	t.Parallel()
	s := newSeed(t, "in\"v\\o ice", "schedule", "0 2 * * *", "first", "2026-11-27", "current", "2026-11-29",
		"count_done", "41", "count_failed", "2", "count_stale", "1")
	s.ran("2026-11-28", "2026-11-28T02:00:00+09:00", "2026-11-29T03:00:00.5+09:00", "web-1", 90500*time.Millisecond,
		`"state":"failed","signal":"KILL","exit":null`). // made up for after the newer one
		ran("2026-11-29", "2026-11-29T02:00:00+09:00", "2026-11-29T02:00:01.093+09:00", "web-2", 252107*time.Millisecond, "").
		ran("2026-11-27", "2026-11-27T02:00:00+09:00", "2026-11-27T02:00:00+09:00", "web-2", time.Second, "").
		asked("web-1", "2026-11-27T02:00:00+09:00").asked("web-2", "2026-11-28T02:00:00+09:00").
		asked("web-3", "2026-11-29T02:00:00+09:00").lock(backupRuns + "web-2:977")
	got := view(t, statusAsk{metrics: true}, seoulNow, 108*time.Second)
	of := `{ledger="` + namespaceOf(t) + `",job_name="in\"v\\o ice"`
	for _, want := range []string{
		"onceonly_job_attention_slots" + of + "} 1",
		"onceonly_job_consecutive_failures" + of + "} 0",
		"onceonly_job_slots" + of + `,state="done"} 2`,
		"onceonly_job_slots" + of + `,state="failed"} 1`,
		"onceonly_job_slots" + of + `,state="missed"} 0`,
		"onceonly_job_running" + of + "} 1",
		"onceonly_job_paused" + of + "} 0",
		"onceonly_job_due_timestamp_seconds" + of + "} 1795885200",
		"onceonly_job_next_due_timestamp_seconds" + of + "} 1795971600",
		"onceonly_job_last_start_timestamp_seconds" + of + "} 1795888800.5",
		"onceonly_job_last_end_timestamp_seconds" + of + "} 1795888891",
		"onceonly_job_last_success_timestamp_seconds" + of + "} 1795885453.2",
		"onceonly_job_last_duration_seconds" + of + "} 90.5",
		"onceonly_job_last_exit_status" + of + "} 137",
		"onceonly_job_lease_expiry_timestamp_seconds" + of + "} 1795911168",
		"onceonly_job_hosts" + of + "} 2",
		"onceonly_job_attempts_total" + of + `,outcome="done"} 41`,
		"onceonly_job_attempts_total" + of + `,outcome="failed"} 2`,
		"onceonly_job_attempts_total" + of + `,outcome="uncertain"} 0`,
		"onceonly_job_attempts_total" + of + `,outcome="stale"} 1`,
		"onceonly_job_info" + of + `,schedule="0 2 * * *",every="",timezone="Asia/Seoul"} 1`,
		`onceonly_up{ledger="` + namespaceOf(t) + `"} 1`,
		`onceonly_build_info{version="` + version + `",goversion="go1.`,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("lacks %s:\n%s", want, samples(got, want[:strings.IndexAny(want, "{ ")]))
		}
	}
}

// Of a job that has only begun: never is 0 for what an alert on age goes by; what is not known is absent.
func TestMetricsUnknown(t *testing.T) {
	t.Parallel()
	newSeed(t, "new").do("hdel", (&ledger{shared.rdb, namespaceOf(t)}).keys("new")[5], "zone")
	got := view(t, statusAsk{metrics: true}, seoulNow, 0)
	for family, want := range map[string]string{"onceonly_job_last_start_timestamp_seconds": " 0\n", "onceonly_job_last_end_timestamp_seconds": " 0\n",
		"onceonly_job_last_success_timestamp_seconds": " 0\n", "onceonly_job_lease_expiry_timestamp_seconds": " 0\n",
		"onceonly_job_due_timestamp_seconds": "", "onceonly_job_next_due_timestamp_seconds": "", "onceonly_job_hosts": "",
		"onceonly_job_last_duration_seconds": "", "onceonly_job_last_exit_status": "", "onceonly_spool_oldest_timestamp_seconds": ""} {
		if found := samples(got, family); (found == "") != (want == "") || !strings.HasSuffix(found, want) {
			t.Errorf("%s: %q, want %q", family, found, want)
		}
	}
}

// promtool runs it.
func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		absent(t, "promtool")
	}
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// promtool finds nothing to say, whatever the names.
func TestMetricsPromtool(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	newSeed(t, `a\n"b" {c} 100%`).days("2026-11-29", 2, "02:00:00")
	if got := promtool(t, view(t, statusAsk{metrics: true}, seoulNow, time.Minute), "check", "metrics"); got != "" {
		t.Errorf("%s", got)
	}
}

// The file is whole, for others to read, and is not there where it cannot be; a pipe or a device is not replaced
// by a file.
func TestMetricsFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "etl", "--", "true")
	dir := t.TempDir()
	name := filepath.Join(dir, "onceonly.prom")
	if err := os.WriteFile(name, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.prom")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	was, _ := os.Stat(name)
	h.run("status", "--metrics", "--output", link).want(t, 0, "")
	now, err := os.Stat(name)
	if err != nil || os.SameFile(was, now) || now.Mode() != 0o644 {
		t.Errorf("not replaced, or mode %v", now.Mode())
	}
	text, _ := os.ReadFile(name)
	if !strings.HasPrefix(string(text), "# HELP ") || !strings.HasSuffix(string(text), "} 1\n") {
		t.Errorf("%q", text)
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("left behind: %v", all)
	}
	h.run("status", "--metrics", "--output", dir+"/none/x.prom").want(t, exitUnrecorded, "onceonly: status: "+dir+"/none/x.prom: no such file or directory\n")
	pipe := filepath.Join(t.TempDir(), "pipe") // not /dev/null: that would be lost with this check
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("status", "--metrics", "--output", pipe).want(t, exitUsage, "onceonly: --output \""+pipe+"\": not a file\n")
}

// Who reads the file while it is written sees the one before or the one after, never a part.
func TestMetricsFileWhole(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "onceonly.prom")
	ask := &statusAsk{namespace: "ns", metrics: true, output: name}
	jobs := []*jobState{}
	for i := range 300 {
		jobs = append(jobs, &jobState{job: strconv.Itoa(i), zone: time.UTC})
	}
	m := &machine{up: true, dir: t.TempDir()}
	want := ask.metricsOf(jobs, m)
	done := make(chan error, 1)
	go func() {
		for range 20 {
			if err := ask.printMetrics(nil, jobs, m); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; {
		text, err := os.ReadFile(name)
		if err == nil {
			reads++
		}
		if err == nil && string(text) != want {
			t.Fatalf("a part: %d of %d bytes", len(text), len(want))
		}
		select {
		case err := <-done:
			if err != nil || reads == 0 {
				t.Errorf("%d reads: %v", reads, err)
			}
			return
		default:
		}
	}
}

// Where the ledger cannot be read the file says so, and so does the exit status; the ends on this host's disk are counted
// all the same. (SH-31)
func TestMetricsRedisAway(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis://127.0.0.1:1/0")
	state := filepath.Join(t.TempDir(), "state")
	h.env = append(h.env, "ONCEONLY_STATE_DIR="+state)
	for _, kept := range []string{"a.1.json", "b.1.json", ".onceonly-1", "undelivered/c.1.json"} {
		file := filepath.Join(state, kept)
		if os.MkdirAll(filepath.Dir(file), 0o700) != nil || os.WriteFile(file, nil, 0o600) != nil {
			t.Fatal(file)
		}
	}
	old := time.Unix(1795885200, 0)
	os.Chtimes(filepath.Join(state, "b.1.json"), old, old)
	name := filepath.Join(t.TempDir(), "onceonly.prom")
	h.run("status", "--metrics", "--redis-wait", "1s", "--output", name).
		want(t, exitAway, "onceonly: Redis at 127.0.0.1:1 not reached in 1s: connection refused\n")
	text, _ := os.ReadFile(name)
	for _, want := range []string{`onceonly_up{ledger="` + namespaceOf(t) + `"} 0`, "onceonly_spool_files 2", "onceonly_spool_oldest_timestamp_seconds 1795885200"} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "onceonly_job_") || strings.Contains(string(text), "clock_offset") {
		t.Errorf("says what is not known:\n%s", text)
	}
}

// What this host adds: its clock against Redis's.
func TestMetricsClock(t *testing.T) {
	t.Parallel()
	h := newHost(t, "web-1")
	h.run("run", "--job", "etl", "--", "true")
	seconds := regexp.MustCompile(`(?m)^onceonly_clock_offset_seconds (\S+)$`).FindStringSubmatch(h.run("status", "--metrics").stdout)
	if seconds == nil {
		t.Fatal("no offset")
	}
	if off, err := strconv.ParseFloat(seconds[1], 64); err != nil || off > 0.001 || off < -10 {
		t.Errorf("one clock is %v ahead of itself: %v", seconds[1], err)
	}
	r := &reader{}
	for _, ahead := range []int64{-40, -3, -20} {
		r.compare(1000+ahead, 1000)
	}
	if *r.ahead != -3 {
		t.Errorf("of several the fastest counts: %d", *r.ahead)
	}
}

// The manual has every metric with its labels, and no other.
func TestManualMetrics(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	text := view(t, statusAsk{metrics: true}, seoulNow, time.Minute)
	ahead := int64(1)
	spool := t.TempDir()
	if err := os.WriteFile(filepath.Join(spool, "a.1.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text += (&statusAsk{}).metricsOf(nil, &machine{up: true, ahead: &ahead, dir: spool})
	known := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(onceonly_[a-z_]+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1) {
		labels := regexp.MustCompile(`="(?:[^"\\]|\\.)*"`).ReplaceAllString(m[2], "")
		if strings.HasPrefix(m[1], "onceonly_job_") {
			labels = strings.TrimPrefix(strings.TrimPrefix(labels, "ledger,job_name"), ",")
		}
		known[m[1]] = labels
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\.It (onceonly_[a-z_]+)(?: { (.*) })?$`).FindAllStringSubmatch(manualSection(t, "METRICS"), -1) {
		shown[m[1]] = true
		if labels, ok := known[m[1]]; !ok || labels != strings.ReplaceAll(m[2], ", ", ",") {
			t.Errorf("the manual has %s with labels %q, the program %q (%v)", m[1], m[2], labels, ok)
		}
	}
	for name := range known {
		if !shown[name] {
			t.Errorf("the manual lacks %s", name)
		}
	}
	if len(known) != 22 {
		t.Errorf("%d metrics, the interface has 22", len(known))
	}
}

// manualCollector runs the line for the textfile collector, as cron does: nothing is printed, or it would be mailed every
// minute, and promtool reads what it wrote. (SH-53, 68)
func manualCollector(t *testing.T, shown []string) {
	r := newRecorder(t)
	h := r.host("web-1")
	h.run("run", "--job", "etl", "--", "true")
	line := strings.ReplaceAll(crontabCommand(t, shown[0]), "/var/lib/node_exporter", r.dir)
	silent(t, shown[0], h.shell(line))
	text, err := os.ReadFile(filepath.Join(r.dir, "onceonly.prom"))
	if err != nil || !strings.Contains(string(text), `job_name="etl"`) {
		t.Errorf("%v: %s", err, text)
	}
	if got := promtool(t, string(text), "check", "metrics"); got != "" {
		t.Errorf("%s", got)
	}
}

// manualAlerts has promtool check the rules of the manual, and each of them against what it is for.
func manualAlerts(t *testing.T, shown []string) {
	dir := t.TempDir()
	rules := strings.Join(shown, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := promtool(t, "", "check", "rules", filepath.Join(dir, "rules.yml")); !strings.Contains(got, "SUCCESS: 8 rules found") {
		t.Errorf("%s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.yml"), []byte(manualRead(t, "testdata/alerts.yml")), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := regexp.MustCompile(`alertname: (\w+)`).FindAllStringSubmatch(manualRead(t, "testdata/alerts.yml"), -1)
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		n := 0
		for _, c := range cases {
			if c[1] == alert[1] {
				n++
			}
		}
		if n < 2 {
			t.Errorf("%d cases of %s: one where it fires, and one where it does not", n, alert[1])
		}
	}
	if got := promtool(t, "", "test", "rules", filepath.Join(dir, "test.yml")); !strings.Contains(got, "SUCCESS") {
		t.Errorf("%s", got)
	}
}

// Names of metrics that the rules of the manual use are the program's.
func TestManualAlertNames(t *testing.T) {
	t.Parallel()
	section := manualSection(t, "METRICS")
	for _, name := range regexp.MustCompile(`onceonly_[a-z_]+`).FindAllString(section, -1) {
		if !strings.Contains(section, ".It "+name) {
			t.Errorf("a rule uses %s, which is no metric", name)
		}
	}
}
