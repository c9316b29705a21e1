//go:build !race

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis Cluster.

// SH-26: a cluster: every key of a job lies in one hash slot, whatever its name. A run, a second host, the status.
func TestClusterOfOne(t *testing.T) {
	t.Parallel()
	r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	clusterUp(t, r)
	url := "ONCEONLY_REDIS=redis+cluster://" + r.address()
	a, b := newHost(t, "web-1", url), newHost(t, "web-2", url)
	log := filepath.Join(t.TempDir(), "log")
	jobs := []string{"a", "bb", "a job", "a{b}c", "{x}", "}{", "100%", "größe", strings.Repeat("long", 50), "a.b:c/d"}
	for _, job := range jobs {
		a.run(caseRun(job, "--lease 5s", "sh", "-c", `echo "$ONCEONLY_JOB" >>"$0"`, log)...).want(t, 0, "")
		b.run(caseRun(job, "--lease 5s --exit-done 9", "sh", "-c", `echo "$ONCEONLY_JOB" >>"$0"`, log)...).want(t, 9, "")
		if r := b.run("status", job); r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, "done") {
			t.Errorf("status of %q: %v", job, r)
		}
		b.run(slices.Concat([]string{"explain", "--job", job, "--date", caseDay}, []string{"--", "sh", "-c", `echo "$ONCEONLY_JOB" >>"$0"`, log})...)
	}
	if got := lines(log); !slices.Equal(got, jobs) {
		t.Errorf("effects %q, want %q", got, jobs)
	}
	all := a.run("status")
	if all.status != 0 || all.stderr != "" || strings.Count(all.stdout, "web-1") < len(jobs) {
		t.Errorf("status: %v", all)
	}
	// A lease is renewed, and a standby is woken, in a cluster as anywhere.
	beatLog := filepath.Join(t.TempDir(), "beats")
	p := caseStart(t, a.command(caseRun("long", "--lease 1s", beating(t, beatLog, "20ms", "2500ms")...)...))
	eventually(t, "it begins", beats(beatLog, "web-1"))
	b.run(caseRun("long", "--lease 1s --exit-busy 5", "true")...).want(t, 5, "")
	q := caseStart(t, b.command(caseRun("long", "--lease 1s --standby --attempts 2 --exit-done 6", "true")...))
	p.wait().want(t, 0, "")
	at := time.Now()
	q.wait().want(t, 6, "")
	if took := time.Since(at); took > time.Second {
		t.Errorf("the waiter was woken %v after", took)
	}
}

// clusterUp gives a node all hash slots, and waits until it serves them.
func clusterUp(t *testing.T, r *redisServer) {
	t.Helper()
	ctx := context.Background()
	if err := r.rdb.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	served(t, r)
}

// served waits until a node serves its hash slots.
func served(t *testing.T, r *redisServer) {
	t.Helper()
	eventually(t, "the cluster is up", func() bool {
		return strings.Contains(r.rdb.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
}

// An end that a cluster could not take is delivered to it later, as to any other server.
func TestClusterSpool(t *testing.T) {
	t.Parallel()
	args := append(strings.Fields(durable), "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	r := newRedis(t, args...)
	clusterUp(t, r)
	h, e := newHost(t, "web-1", "ONCEONLY_REDIS=redis+cluster://"+r.address()), newEnder(t)
	p := caseStart(t, h.command(caseRun("j", "--lease 1s", e.command("0")...)...))
	eventually(t, "the command runs", e.up)
	r.stop()
	e.end(t)
	p.wait().wantMatch(t, 74, notRecorded("j", "done", h.stateDir()))
	if err := r.start(args...); err != nil {
		t.Fatal(err)
	}
	served(t, r)
	h.run(caseRun("next", "", "true")...).want(t, 0, "")
	if e := entryIn(t, r.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || len(h.kept()) > 0 {
		t.Errorf("entry %+v, kept %v", e, h.kept())
	}
}

// newCluster is a cluster of two masters, each with half of the slots.
func newCluster(t *testing.T) (all []*redisServer) {
	t.Helper()
	ctx := context.Background()
	for range 2 {
		all = append(all, newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"))
	}
	all[0].rdb.ClusterAddSlotsRange(ctx, 0, 8191)
	all[1].rdb.ClusterAddSlotsRange(ctx, 8192, 16383)
	all[1].rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", "2")
	all[0].rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(all[1].port))
	for _, r := range all {
		eventually(t, "the cluster is up", func() bool {
			info := r.rdb.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return all
}

// SH-26: jobs on two nodes of a cluster, asked through one of them, and the status of all.
func TestClusterOfTwo(t *testing.T) {
	t.Parallel()
	all := newCluster(t)
	a := newHost(t, "web-1", "ONCEONLY_REDIS=redis+cluster://"+all[0].address())
	b := newHost(t, "web-2", "ONCEONLY_REDIS=redis+cluster://127.0.0.1:1,"+all[1].address()) // the first is away
	for k := range 10 {
		job := fmt.Sprint("job", k)
		a.run(caseRun(job, "--lease 5s", "true")...).want(t, 0, "")
		b.run(caseRun(job, "--lease 5s --exit-done 9", "true")...).want(t, 9, "")
	}
	r := b.run("status")
	if r.status != 0 || r.stderr != "" || strings.Count(r.stdout, "job") < 10 {
		t.Errorf("status: %v", r)
	}
	for _, node := range all {
		if n := node.rdb.DBSize(context.Background()).Val(); n == 0 {
			t.Error("a node that has no key: this test needs other names")
		}
	}
}

// A job's hash slot moves to another node in the middle of a run: the run goes on, and its end is written there.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	ctx, all := context.Background(), newCluster(t)
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1", "ONCEONLY_REDIS=redis+cluster://"+all[0].address()).command(caseRun("j", "--lease 3s", beating(t, log, "20ms", "4s")...)...))
	eventually(t, "it begins", beats(log, "web-1"))
	key := lockKey(t, "j")
	slot := all[0].rdb.ClusterKeySlot(ctx, key).Val()
	from, to := all[0], all[1]
	if slot > 8191 {
		from, to = to, from
	}
	id := func(r *redisServer) string { return r.rdb.Do(ctx, "CLUSTER", "MYID").String() }
	must := func(r *redisServer, words ...any) {
		t.Helper()
		if err := r.rdb.Do(ctx, words...).Err(); err != nil {
			t.Errorf("%v: %v", words, err)
		}
	}
	name := func(r *redisServer) string { return id(r)[strings.LastIndex(id(r), " ")+1:] }
	must(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", name(from))
	must(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", name(to))
	for _, k := range from.rdb.ClusterGetKeysInSlot(ctx, int(slot), 100).Val() {
		must(from, "MIGRATE", "127.0.0.1", to.port, k, 0, 2000)
		eventually(t, "a renewal meets a slot that is in two places", func() bool {
			return regexp.MustCompile("errorstat_(ASK|TRYAGAIN)").MatchString(from.rdb.Info(ctx, "errorstats").Val())
		})
	}
	must(to, "CLUSTER", "SETSLOT", slot, "NODE", name(to))
	must(from, "CLUSTER", "SETSLOT", slot, "NODE", name(to))
	p.wait().wantMatch(t, 0, "("+notRenewed("j")+")?")
	if e := entryIn(t, to.rdb, namespaceOf(t), "j", caseDay); e.State != "done" || e.Attempt != 1 {
		t.Errorf("entry %+v", e)
	}
	wantWhole(t, log)
}
