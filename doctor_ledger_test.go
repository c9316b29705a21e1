//go:build !race

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Crontab lines held against the ledger: what would be refused is found before the night.

// A crontab whose lines use another Redis than doctor, or none but that which doctor was told.
func TestDoctorOtherRedis(t *testing.T) {
	t.Parallel()
	r, dir := newRedis(t), t.TempDir()
	config, file := filepath.Join(dir, "conf"), filepath.Join(dir, "crontab")
	caseTouch(t, config, "")
	caseTouch(t, file, "0 2 * * * onceonly run -- true\n")
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_CONFIG="+config)
	hasWords(t, h.run("doctor", file).stdout,
		"warn config crontab lines have no Redis: ONCEONLY_REDIS does not reach them hint: ONCEONLY_REDIS in "+config)
	caseTouch(t, file, "ONCEONLY_REDIS="+shared.url()+"\n0 2 * * * onceonly run -- true\n")
	got := h.run("doctor", file).stdout
	hasWords(t, got, "warn line 2 true 0 2 * * * day its ledger is not the one above, but in Redis at "+shared.address())
	hasNot(t, got, "crontab lines have no Redis")
}

// A line that the ledger would refuse is found before the night: another zone, another shape, other arguments.
func TestDoctorLedger(t *testing.T) {
	t.Parallel()
	r := newRedis(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "conf")
	os.WriteFile(config, []byte("ONCEONLY_REDIS="+r.url()+"\n"), 0o644)
	other := newHost(t, "web-9", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=onceonly")
	other.run("run", "--job", "seoul", "--tz", "Asia/Seoul", "--", "true").want(t, 0, "")
	other.run("run", "--job", "hourly", "--every", "hour", "--", "true").want(t, 0, "")
	other.run("run", "--", "true", "a").want(t, 0, "")
	file := filepath.Join(dir, "crontab")
	os.WriteFile(file, []byte("0 2 * * * onceonly run --job seoul -- true\n0 2 * * * onceonly run --job hourly -- true\n"+
		"0 2 * * * onceonly run -- true b\n0 2 * * * onceonly run --job fine -- true\n"), 0o644)
	changes := func() string {
		return regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(r.rdb.Info(context.Background(), "persistence").Val())
	}
	before := changes()
	got := newHost(t, "web-1", "ONCEONLY_REDIS="+r.url(), "ONCEONLY_NAMESPACE=onceonly", "ONCEONLY_CONFIG="+config).run("doctor", file)
	hasWords(t, got.stdout, "FAIL line 1 seoul 0 2 * * * day this host's zone is ", ", the job's is Asia/Seoul (web-9, since ",
		"FAIL line 2 hourly 0 2 * * * day this line is 'every day', that of web-9 is 'every hour', and their slots overlap",
		"FAIL line 3 true 0 2 * * * day web-9 asked at ", " with other arguments hint: two lines need two names",
		"ok line 4 fine 0 2 * * * day next ")
	if got.status != 1 {
		t.Errorf("%v", got)
	}
	if after := changes(); before == "" || after != before {
		t.Errorf("it has written: %s, then %s", before, after)
	}
}
