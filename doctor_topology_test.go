//go:build !race

package main

import (
	"context"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Redis of several nodes as doctor finds it: masters, replicas, Sentinels.

// Of two masters one may drop entries, and the other is nearly full: each is named.
func TestDoctorOneOfTwo(t *testing.T) {
	t.Parallel()
	all := newCluster(t)
	url := "redis+cluster://" + all[0].address() + "," + all[1].address()
	all[0].rdb.ConfigSet(context.Background(), "maxmemory-policy", "allkeys-lru")
	rows := rowsOf(doctorOf(t, url).stdout, "memory")
	want := "FAIL memory maxmemory-policy allkeys-lru (" + all[0].address() + "): Redis may drop ledger entries, and a dropped slot runs again " +
		"hint: CONFIG SET maxmemory-policy noeviction, or a Redis apart"
	if !slices.Equal(rows, []string{want}) {
		t.Errorf("%q, want %q", rows, want)
	}
	all[0].rdb.ConfigSet(context.Background(), "maxmemory-policy", "noeviction")
	all[1].rdb.ConfigSet(context.Background(), "maxmemory", "1mb")
	rows = rowsOf(doctorOf(t, url).stdout, "memory")
	full := regexp.MustCompile(`^warn memory \d+ % of maxmemory is used \(` + all[1].address() + `\): when it is full no job starts hint: CONFIG SET maxmemory$`)
	if len(rows) != 1 || !full.MatchString(rows[0]) {
		t.Errorf("%q", rows)
	}
}

// SH-27: Sentinels, and a Sentinel's port given for Redis; a cluster. Replicas in step.
func TestDoctorTopology(t *testing.T) {
	t.Parallel()
	w := newSentinels(t)
	got := doctorOf(t, w.url())
	hasWords(t, got.stdout, "ok redis "+w.master.address()+", master by Sentinel main, Redis ", "ok replicas 1 in step")
	w.replica.stop()
	eventually(t, "the replica is gone", func() bool {
		return strings.Contains(w.master.rdb.Info(context.Background(), "replication").Val(), "connected_slaves:0")
	})
	hasWords(t, doctorOf(t, w.url()).stdout, "warn replicas none: there is nothing that Sentinel could make the master ok clock")
	got = doctorOf(t, "redis://"+w.addresses[0])
	hasWords(t, got.stdout, "FAIL redis "+w.addresses[0]+" is a Sentinel hint: redis+sentinel://"+w.addresses[0]+"/MASTER")
	r := newRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--maxmemory-policy", "allkeys-lru")
	clusterUp(t, r)
	got = doctorOf(t, "redis+cluster://"+r.address())
	hasWords(t, got.stdout, "ok redis "+r.address()+", cluster of 1 master, Redis ", "FAIL memory maxmemory-policy allkeys-lru: ",
		"ok rights user default may do all that is needed")
}

// SH-27: a node of a cluster, as if it were the whole; and one without all slots.
func TestDoctorNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	args := []string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"}
	a, b := newRedis(t, args...), newRedis(t, args...)
	a.rdb.ClusterAddSlotsRange(ctx, 0, 8000)
	got := doctorOf(t, a.url())
	if rows := rowsOf(got.stdout, "ledger"); got.status != 1 || len(rows) != 1 || !strings.HasPrefix(rows[0], "FAIL ledger Redis at "+a.address()+": CLUSTERDOWN") {
		t.Errorf("%v", got)
	}
	b.rdb.ClusterAddSlotsRange(ctx, 8001, 16383)
	a.rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(b.port))
	served(t, a)
	eventually(t, "each knows what the other has", func() bool {
		known, _ := a.rdb.Do(ctx, "CLUSTER", "SLOTS").Slice()
		back, _ := b.rdb.Do(ctx, "CLUSTER", "SLOTS").Slice()
		return len(known) == 2 && len(back) == 2
	})
	got = doctorOf(t, a.url())
	hasWords(t, got.stdout, "FAIL redis "+a.address()+" is a node of a cluster, and has only some of the jobs hint: redis+cluster://"+a.address())
	hasWords(t, doctorOf(t, "redis+cluster://"+a.address()).stdout, ", cluster of 2 masters, Redis ")
}

// A replica that has asked for everything, and waits for it.
func TestDoctorReplicaBehind(t *testing.T) {
	t.Parallel()
	r := newRedis(t, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "3600")
	replica, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	replica.Write([]byte("REPLCONF listening-port 7777 capa eof\r\n"))
	if _, err := io.ReadFull(replica, make([]byte, len("+OK\r\n"))); err != nil { // nothing more is taken before
		t.Fatal(err)
	}
	replica.Write([]byte("PSYNC ? -1\r\n"))
	eventually(t, "it is known", func() bool {
		return strings.Contains(r.rdb.Info(context.Background(), "replication").Val(), "state=wait_bgsave")
	})
	want := "warn replicas 0 in step, 1 not: 127.0.0.1:7777 (wait_bgsave) hint: a failover now would forget what they lack"
	if rows := rowsOf(doctorOf(t, r.url()).stdout, "replicas"); !slices.Equal(rows, []string{want}) {
		t.Errorf("%q, want %q", rows, want)
	}
}

// A replica that is not in step, as INFO writes it.
func TestDoctorReplica(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"ip=10.0.0.2,port=6379,state=online,offset=1,lag=1":     "",
		"ip=10.0.0.2,port=6379,state=online,offset=1,lag=40":    "10.0.0.2:6379 (40s behind)",
		"ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=": "10.0.0.2:6379 (wait_bgsave)",
	} {
		if got := outOfStep(says); got != want {
			t.Errorf("%s: %q, want %q", says, got, want)
		}
	}
}
