//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"onceonly/scripts/ports"
)

// A topology is where the ledger of a scene lives.
type topology struct {
	kind      string
	nodes     []*node // the first is the master, at the beginning
	sentinels []*node
}

// The kinds of topology.
const (
	alone    = "alone"    // no persistence
	appended = "appended" // append-only, every write on disk before it is acknowledged
	sentinel = "sentinel" // master and replica, three Sentinels
	cluster  = "cluster"  // of one
)

var kinds = []string{alone, appended, sentinel, cluster}

// build starts the servers of one kind below dir.
func build(kind, dir string, clock *shim) (*topology, error) {
	t := &topology{kind: kind}
	var err error
	switch kind {
	case alone:
		err = t.add(dir, "master", clock, "appendonly no\n")
	case appended:
		err = t.add(dir, "master", clock, "appendonly yes\nappendfsync always\n")
	case cluster:
		if err = t.add(dir, "master", clock, "appendonly no\ncluster-enabled yes\n"); err == nil {
			err = t.joinCluster()
		}
	case sentinel:
		err = t.buildSentinel(dir)
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t *topology) add(dir, name string, clock *shim, config string) error {
	port, err := ports.Free()
	if err != nil {
		return err
	}
	n, err := newNode(dir, name, port, false, config)
	if err != nil {
		return err
	}
	n.clock = clock
	t.nodes = append(t.nodes, n)
	return n.start()
}

func (t *topology) joinCluster() error {
	n := t.nodes[0]
	if err := n.do("cluster addslotsrange 0 16383"); err != nil {
		return err
	}
	return await("cluster", 10*time.Second, func() bool {
		text, _ := n.admin.ClusterInfo(context.Background()).Result()
		return strings.Contains(text, "cluster_state:ok")
	})
}

// Names of the master among Sentinels, and how soon they think it gone: less than a lease.
const (
	masterName = "ledger"
	downAfter  = 1000 // ms
)

const watching = `sentinel monitor %s 127.0.0.1 %d 2
sentinel down-after-milliseconds %[1]s %[3]d
sentinel failover-timeout %[1]s 2000
sentinel auth-user %[1]s inner
sentinel auth-pass %[1]s inner
sentinel sentinel-user inner
sentinel sentinel-pass inner
`

func (t *topology) buildSentinel(dir string) error {
	const inner = "appendonly no\nmasteruser inner\nmasterauth inner\nrepl-diskless-sync yes\n" +
		"repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"
	if err := t.add(dir, "master", nil, inner); err != nil {
		return err
	}
	if err := t.add(dir, "replica", nil, inner+fmt.Sprintf("replicaof 127.0.0.1 %d\n", t.nodes[0].port)); err != nil {
		return err
	}
	for i := range 3 {
		port, err := ports.Free()
		if err != nil {
			return err
		}
		n, err := newNode(dir, "sentinel"+strconv.Itoa(i), port, true, fmt.Sprintf(watching, masterName, t.nodes[0].port, downAfter))
		if err != nil {
			return err
		}
		t.sentinels = append(t.sentinels, n)
		if err := n.start(); err != nil {
			return err
		}
	}
	return await("Sentinels", 20*time.Second, t.whole)
}

// whole says whether there is one master with a replica that follows it, and all Sentinels see it so.
func (t *topology) whole() bool {
	if t.kind != sentinel {
		return t.nodes[0].info("role") == "master"
	}
	m := t.master()
	if m == nil || m.info("role") != "master" || m.info("connected_slaves") != "1" ||
		!strings.Contains(m.info("slave0"), "state=online") {
		return false
	}
	for _, s := range t.sentinels {
		said, err := s.admin.Do(context.Background(), "sentinel", "master", masterName).StringSlice()
		if err != nil {
			return false
		}
		about := map[string]string{}
		for i := 0; i+1 < len(said); i += 2 {
			about[said[i]] = said[i+1]
		}
		if about["port"] != strconv.Itoa(m.port) || about["flags"] != "master" || about["num-slaves"] != "1" ||
			about["num-other-sentinels"] != "2" {
			return false
		}
	}
	return true
}

// moved says whether the Sentinels have ever made another master.
func (t *topology) moved() bool { return t.epoch() != "0" }

// epoch is another one with each master that the Sentinels make; "" if that cannot be told.
func (t *topology) epoch() string {
	said, _ := t.sentinels[0].admin.Do(context.Background(), "sentinel", "master", masterName).StringSlice()
	i := slices.Index(said, "config-epoch")
	if i < 0 {
		return ""
	}
	return said[i+1]
}

// master is the node that the Sentinels name, nil while they disagree.
func (t *topology) master() *node {
	if t.kind != sentinel {
		return t.nodes[0]
	}
	votes := map[string]int{}
	for _, s := range t.sentinels {
		said, err := s.admin.Do(context.Background(), "sentinel", "get-master-addr-by-name", masterName).StringSlice()
		if err == nil && len(said) == 2 {
			votes[said[1]]++
		}
	}
	for _, n := range t.nodes {
		if votes[strconv.Itoa(n.port)] >= 2 {
			return n
		}
	}
	return nil
}

// url is the address that a host uses: all of it leads through its own proxies.
func (t *topology) url(n *network) (string, error) {
	for _, s := range t.nodes {
		if _, err := n.reach(s.port); err != nil {
			return "", err
		}
	}
	var hosts []string
	for _, s := range t.sentinels {
		port, err := n.reach(s.port)
		if err != nil {
			return "", err
		}
		hosts = append(hosts, "127.0.0.1:"+strconv.Itoa(port))
	}
	port, err := n.reach(t.nodes[0].port)
	first := "127.0.0.1:" + strconv.Itoa(port)
	switch t.kind {
	case sentinel:
		return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + masterName + "/0", err
	case cluster:
		return "redis+cluster://" + first, err
	}
	return "redis://" + first + "/0", err
}

func (t *topology) stop() {
	for _, n := range append(t.sentinels, t.nodes...) {
		n.end()
	}
}
