//go:build !race

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// What a Redis user may do, as doctor finds it.

// SH-32: a user with the least rights: all is well but for what he may not look at, which is told in one line. Each command
// that is taken away is named; and nothing he is refused for shows in the server's log but what was looked at.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t)
	var rule []any
	for _, word := range manualRights(t) {
		rule = append(rule, word)
	}
	if err := r.rdb.Do(ctx, rule...).Err(); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+strings.Replace(r.url(), "//", "//cron:PASSWORD@", 1), "ONCEONLY_NAMESPACE=onceonly")
	got := h.run("doctor")
	has(t, got.stdout, "ok    rights   user cron may do all that is needed",
		"not read: Redis's version, role, memory policy, persistence, replicas (user cron may not INFO, ROLE, CONFIG)")
	got.want(t, 0, "")
	for _, word := range manualRights(t) {
		name, ok := strings.CutPrefix(word, "+")
		if !ok {
			continue
		}
		r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "-"+name)
		level, status := "FAIL", 1
		if slices.Contains(spared, strings.ToUpper(name)) {
			level, status = "warn", 0
		}
		got := h.run("doctor")
		want := level + " rights user cron may not " + strings.ToUpper(name) + " hint: " + rightsHint
		if rows := rowsOf(got.stdout, "rights"); got.status != status || len(rows) != 1 || rows[0] != want {
			t.Errorf("-%s: %q, status %d", name, rows, got.status)
		}
		r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "+"+name)
	}
	r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "resetkeys", "~other:*")
	if rows := rowsOf(h.run("doctor").stdout, "rights"); len(rows) != 1 ||
		rows[0] != "FAIL rights user cron may not use the keys onceonly:* hint: "+rightsHint {
		t.Errorf("%q", rows)
	}
	// INFO alone is enough for all that is read otherwise.
	r.rdb.Do(ctx, "ACL", "SETUSER", "cron", "resetkeys", "~onceonly:*", "+info")
	has(t, h.run("doctor").stdout, "ok    memory   maxmemory-policy noeviction")
	hasNot(t, h.run("doctor").stdout, "not read: Redis")
}

// SH-32: in a cluster a user wants rights besides, which the manual names; without them doctor says which.
func TestDoctorClusterRights(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	clusterUp(t, r)
	allow := func(words ...string) {
		t.Helper()
		var rule []any
		for _, word := range words {
			rule = append(rule, word)
		}
		if err := r.rdb.Do(ctx, rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	allow(manualRights(t)...)
	h := newHost(t, "web-1", "ONCEONLY_REDIS=redis+cluster://cron:PASSWORD@"+r.address(), "ONCEONLY_NAMESPACE=onceonly")
	want := "user cron may not CLUSTER|SLOTS"
	h.run(caseRun("j", "", "true")...).want(t, 77, "onceonly: j "+caseDay+": not run: "+want+"\nonceonly: hint: "+rightsHint+"\n")
	got := h.run("doctor")
	if rows := rowsOf(got.stdout, "redis", "ledger", "rights"); got.status != 1 || !slices.Equal(rows, []string{"FAIL redis " + want + " hint: " + rightsHint}) {
		t.Errorf("%v", got)
	}
	allow("ACL", "SETUSER", "cron", clusterRights[0])
	h.run(caseRun("j", "", "true")...).want(t, 0, "")
	has(t, h.run("doctor").stdout, "ok    rights   user cron may do all that is needed")
}

// The rights that doctor asks for are those of the manual.
func TestDoctorNeeds(t *testing.T) {
	t.Parallel()
	var asked []string
	for _, command := range needed {
		name, _, _ := strings.Cut(command, ":")
		asked = append(asked, "+"+name)
	}
	rights := slices.DeleteFunc(manualRights(t), func(w string) bool { return w[0] != '+' })
	slices.Sort(asked)
	if slices.Sort(rights); !slices.Equal(asked, rights) {
		t.Errorf("asked for %q\nthe manual has %q", asked, rights)
	}
}
