package main

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The rights that the manual asks Redis for are enough, and each is used.

// manualRights are the words of the ACL rule in REDIS.
func manualRights(t *testing.T) []string {
	t.Helper()
	rule := regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(manualLiteral(manualSection(t, "REDIS")))
	if rule == "" {
		t.Fatal("REDIS has no line ACL SETUSER")
	}
	return strings.Fields(rule)
}

// TestManualRights gives a user of a Redis the rights in REDIS, and no others. Whatever onceonly does goes well, and the
// server's own log of refusals stays empty: also of those that onceonly could do without.
func TestManualRights(t *testing.T) {
	r := newRedis(t)
	var rule []any
	for _, word := range manualRights(t) {
		rule = append(rule, word)
	}
	if err := r.rdb.Do(context.Background(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(r.url(), "//", "//cron:PASSWORD@", 1)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+url, "ONCEONLY_NAMESPACE=onceonly")
	manualUse(t, h)
	refused, err := r.rdb.Do(context.Background(), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("refused: %v %v", refused, err)
	}
	if n := r.rdb.SCard(context.Background(), "onceonly:jobs").Val(); n < 5 {
		t.Errorf("%d jobs in the list", n)
	}
	other := newHost(t, "web-1", "ONCEONLY_REDIS="+strings.TrimSuffix(url, "0")+"5", "ONCEONLY_NAMESPACE=onceonly")
	const refusal = "user cron may not SELECT\nonceonly: hint: " + rightsHint + "\n"
	other.run("run", "--job", "j", "--", "true").wantMatch(t, exitDenied, "onceonly: j [^ ]+: not run: "+regexp.QuoteMeta(refusal))
	if said := other.run("doctor"); !strings.Contains(said.stdout, "user cron may not SELECT\n") {
		t.Errorf("doctor: %v", said)
	}
	if err := r.rdb.Do(context.Background(), "ACL", "SETUSER", "cron", "+select").Err(); err != nil {
		t.Fatal(err)
	}
	other.run("run", "--job", "j", "--", "true").want(t, 0, "")
}

// manualUse does everything once for which onceonly asks Redis.
func manualUse(t *testing.T, h *host) {
	minute := func(ago int) string {
		return time.Now().UTC().Add(-time.Duration(ago) * time.Minute).Format("2006-01-02T15:04")
	}
	const every = "* * * * *"
	do := func(status int, words ...string) {
		t.Helper()
		if r := h.run(words...); r.status != status {
			t.Errorf("onceonly %q: %v, want status %d", words, r, status)
		}
	}
	do(0, "run", "--", "true")
	do(0, "explain", "--job", "other", "--", "true")
	do(1, "explain", "--", "true")
	do(3, "run", "--job", "retried", "--attempts", "2", "--retry-delay", "10ms", "--", "sh", "-c", "exit 3")
	do(75, "run", "--job", "retried", "--attempts", "2", "--", "sh", "-c", "exit 3")
	do(0, "run", "--job", "retried", "--date", "today", "--rerun", "--reason", "test", "--", "true")
	do(127, "run", "--job", "absent", "--", "/nonexistent")
	for _, catchUp := range []string{"each", "merge"} {
		do(0, "run", "--job", catchUp, "--schedule", every, "--date", minute(5), "--", "true")
		do(0, "run", "--job", catchUp, "--schedule", every, "--catch-up", catchUp, "--", "true")
	}
	do(78, "run", "--job", "each", "--", "true") // one shape at a time
	for ago := 30; ago > 15; ago-- {
		do(0, "run", "--job", "trimmed", "--every", "1m", "--keep", "10", "--date", minute(ago), "--", "true")
	}
	do(0, "run", "--job", "trimmed", "--every", "1m", "--keep", "10", "--", "true") // the ledger knows the line
	held := h.command("run", "--job", "waited", "--every", "1m", "--lease", "5s", "--date", minute(3), "--", "sleep", "1.5")
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is held", func() bool {
		return h.run("explain", "--job", "waited", "--every", "1m", "--", "sleep", "1.5").status == 1
	})
	do(0, "run", "--job", "waited", "--every", "1m", "--overlap", "skip", "--", "sleep", "1.5")
	do(0, "run", "--job", "waited", "--every", "1m", "--date", minute(2), "--overlap", "wait", "--wait-max", "1m", "--",
		"true")
	if err := held.Wait(); err != nil {
		t.Error(err)
	}
	do(0, "run", "--job", "checked", "--", "sh", "-c", "onceonly check --left 1s")
	do(75, "run", "--job", "stopped", "--lease", "5s", "--", "sh", "-c", "onceonly stop stopped --reason test; sleep 30")
	do(0, "wait", "checked")
	do(1, "wait", "stopped")
	do(0, "resolve", "stopped", "--date", "today", "--reopen", "--reason", "test")
	do(0, "resolve", "stopped", "--date", "today", "--done", "--reason", "test")
	do(0, "resolve", "stopped", "--date", "yesterday", "--done", "--reason", "test")
	do(75, "resolve", "trimmed", "--date", minute(31), "--done", "--reason", "test")
	do(0, "pause", "checked")
	do(0, "run", "--job", "checked", "--date", "yesterday", "--", "true")
	do(0, "resume", "checked")
	do(0, "status")
	do(0, "status", "retried")
	do(0, "status", "retried", "--json")
}

// TestManualRightsAreUsed wants each right of the rule in use, and each command in the rule: those that a script calls,
// redislock's too, and those that the program sends itself.
func TestManualRightsAreUsed(t *testing.T) {
	used := map[string]bool{}
	scripts, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bsm/redislock").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"obtain", "refresh", "release"} {
		scripts = append(scripts, filepath.Join(strings.TrimSpace(string(out)), name+".lua"))
	}
	for _, name := range scripts {
		for _, m := range regexp.MustCompile(`redis\.p?call(?:\(|, )['"](\w+)['"]`).FindAllStringSubmatch(manualRead(t, name), -1) {
			used["+"+strings.ToLower(m[1])] = true
		}
	}
	for _, sent := range []string{"+eval", "+sadd", "+smembers", "+subscribe"} {
		used[sent] = true
	}
	rights := slices.DeleteFunc(manualRights(t), func(w string) bool { return w[0] != '+' })
	if want := slices.Sorted(maps.Keys(used)); !slices.Equal(slices.Sorted(slices.Values(rights)), want) {
		t.Errorf("the rule allows %q\nused are        %q", slices.Sorted(slices.Values(rights)), want)
	}
}
