//go:build !race

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// A cluster of three masters, asked through any of them: each job lies on one of the three, and status sees them all.
func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var all []*redisServer
	for k := range 3 {
		r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000")
		r.rdb.ClusterAddSlotsRange(ctx, 5462*k, min(5462*(k+1), 16384)-1)
		r.rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(k+1))
		if all = append(all, r); k > 0 {
			all[0].rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(r.port))
		}
	}
	for _, r := range all {
		eventually(t, "the cluster is up", func() bool {
			info := r.rdb.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	const jobs = 12
	for k := range jobs {
		through := func(node int) *host {
			return newHost(t, fmt.Sprint("web-", node), "ONCEONLY_REDIS=redis+cluster://127.0.0.1:1,"+all[node%3].address()) // the first is away
		}
		job := fmt.Sprint("job", k)
		through(k).run(caseRun(job, "--exit-done 9", "true")...).want(t, 0, "")
		through(k+1).run(caseRun(job, "--exit-done 9", "true")...).want(t, 9, "")
		if got := through(k+2).run("status", "--exit-code", "--brief"); got.status != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "ONCEONLY OK - "+count(k+1, "job")+", ") {
			t.Errorf("%v", got)
		}
	}
	for i, r := range all {
		if r.rdb.DBSize(ctx).Val() == 0 {
			t.Errorf("node %d has no key: this test needs other names", i)
		}
	}
}

// A replica, or a node of a cluster, given by mistake is told in one line, with what to write.
func TestAnotherNodeByMistake(t *testing.T) {
	t.Parallel()
	all := newCluster(t)
	replica := newRedis(t, "--replicaof", strings.Replace(shared.address(), ":", " ", 1))
	eventually(t, "the replica is in step", func() bool {
		return strings.Contains(replica.rdb.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	ask := func(r *redisServer) result {
		return newHost(t, "web-1", "ONCEONLY_REDIS=redis://"+r.address()).run(caseRun("j", "--redis-wait 1s", "true")...)
	}
	ask(replica).wantMatch(t, exitAway, "onceonly: j "+caseDay+": not run: Redis at "+replica.address()+": READONLY [^\n]+\n"+
		"onceonly: hint: the master's address, or redis\\+sentinel://HOST/MASTER\n")
	refused := 0
	for _, r := range all {
		if got := ask(r); got.status != 0 {
			refused++
			got.wantMatch(t, exitAway, "onceonly: j "+caseDay+": not run: Redis at "+r.address()+": MOVED [^\n]+\n"+
				"onceonly: hint: redis\\+cluster://"+r.address()+"\n")
		}
	}
	if refused != 1 {
		t.Errorf("%d of two nodes refused", refused)
	}
}
