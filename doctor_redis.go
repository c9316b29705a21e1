package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is wrong with Redis. Each request may be refused to this user; then what it would have said is told as not read.

const (
	clockTold    = time.Minute // from here on run tells how far a clock is off
	clockRefused = time.Hour   // from here on it refuses
	nearlyFull   = 0.9         // of maxmemory
	lagging      = 10          // seconds since a replica was last heard of
	probes       = 3           // questions, of which the fastest counts
)

//go:embed scripts/time.lua
var timeLua string

// checkRedis makes all checks that need an answer of Redis.
func (d *doctor) checkRedis() {
	if d.server == nil {
		return
	}
	if d.from["redis-wait"] == "" {
		d.redisWait = statusWait
	}
	rdb, met := d.server.connect(), &meeting{}
	rdb.AddHook(met)
	d.rdb, d.ledger = rdb, &ledger{rdb, d.namespace}
	ahead, took, e := d.probe()
	nodes, away := []redisNode(nil), e
	if e == nil || e.hint == rightsHint {
		nodes, away = d.nodes(met)
	}
	if away != nil {
		d.ledger = nil
		d.remark(failure, "redis", strings.TrimPrefix(away.msg, "Redis at "), away.hint)
		return
	}
	d.checkRole(nodes, took)
	d.checkLedger(nodes)
	d.checkRights(e)
	d.checkMemory(nodes)
	d.checkDisk(nodes)
	d.checkReplicas(nodes)
	if e == nil {
		d.checkClock(ahead)
	}
}

// probe asks for the time, and says how far this host's clock is ahead and how long the fastest answer took.
func (d *doctor) probe() (ahead, took time.Duration, e *exit) {
	for range probes + 1 { // the first one connects
		e = d.server.persist(d.redisWait, func(ctx context.Context) error {
			began := time.Now()
			cmd := redis.NewSliceCmd(ctx, "eval", bare(timeLua), 0)
			err := d.ledger.Process(ctx, onceCmd{cmd})
			if err != nil {
				return noNil(err)
			}
			if t := time.Since(began); took == 0 || t < took {
				took, ahead = t, began.Add(t/2).Sub(redisTime(cmd.Val()))
			}
			return nil
		})
		if e != nil {
			break
		}
	}
	return ahead, took, e
}

// redisTime reads TIME's answer: seconds and microseconds.
func redisTime(answer []any) time.Time {
	if len(answer) != 2 {
		return time.Time{}
	}
	return time.Unix(number(text(answer[0])), number(text(answer[1]))*1000)
}

// checkRole tells who was met. A replica takes no writes, and of a cluster a plain client sees one part.
func (d *doctor) checkRole(nodes []redisNode, took time.Duration) {
	n := nodes[0]
	url := "redis+cluster://" + n.address
	switch info := n.info; {
	case info["role"] == "slave":
		master := net.JoinHostPort(info["master_host"], info["master_port"])
		d.remark(failure, "redis", n.address+" is a replica of "+strings.TrimSuffix(master, ":")+", and takes no writes",
			replicaHint)
	case info["cluster_enabled"] == "1" && d.server.hosts == nil && !d.alone():
		d.remark(failure, "redis", n.address+" is a node of a cluster, and has only some of the jobs", url)
	default:
		d.remark(fine, "redis", strings.Join(d.aboutRedis(nodes, took), ", "), "")
	}
}

// alone says whether a cluster has one node only.
func (d *doctor) alone() bool {
	answer, err := d.ask(d.rdb, "cluster", "info")
	return err == nil && strings.Contains(text(answer), "cluster_known_nodes:1\r\n")
}

func (d *doctor) aboutRedis(nodes []redisNode, took time.Duration) []string {
	n, about := nodes[0], []string{nodes[0].address}
	switch {
	case d.server.master != "":
		about = append(about, "master by Sentinel "+d.server.master)
	case d.server.hosts != nil:
		about = []string{d.server.address, "cluster of " + count(len(nodes), "master")}
	case n.info["role"] != "":
		about = append(about, n.info["role"])
	}
	if db := d.server.options.DB; db > 0 {
		about = append(about, fmt.Sprintf("database %d", db))
	}
	if v := n.info["valkey_version"]; v != "" {
		about = append(about, "Valkey "+v)
	} else if v := n.info["redis_version"]; v != "" {
		about = append(about, "Redis "+v)
	}
	if took > 0 {
		about = append(about, strconv.FormatFloat(max(took.Seconds()*1000, 0.01), 'f', decimals(took), 64)+" ms")
	}
	return about
}

// decimals are more where there is less to show.
func decimals(d time.Duration) int {
	if d < 100*time.Microsecond {
		return 2
	}
	return 1
}

// checkLedger counts what is in it. A ledger on this very host is one for it alone.
func (d *doctor) checkLedger(nodes []redisNode) {
	r := &reader{ledger: d.ledger, server: d.server, wait: d.redisWait}
	jobs, err := r.all(&statusAsk{namespace: d.namespace, hosts: true})
	if err != nil {
		d.ledger = nil
		var e *exit
		if errors.As(err, &e) && e.status == exitDenied {
			d.cannotRead("the ledger "+d.namespace, e.msg)
		} else {
			d.failed("ledger", err)
		}
		return
	}
	for _, j := range jobs {
		for _, h := range j.hosts {
			d.seen[h.Host] = true
		}
	}
	about := fmt.Sprintf("%s, %s, %s", d.namespace, count(len(jobs), "job"), count(len(d.seen), "host"))
	if len(d.seen) < 2 && slices.ContainsFunc(nodes, func(n redisNode) bool { return loopback(n.address) }) {
		d.remark(warning, "ledger", about+"; "+nodes[0].address+" is reached by this host alone: every other one would run the jobs, too",
			"an address that all hosts reach, the same on each")
		return
	}
	d.remark(fine, "ledger", about, "")
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || (ip != nil && ip.IsLoopback())
}

// saying groups nodes by what they say, and gives the answers in order.
func saying(nodes []redisNode, says func(map[string]string) string) map[string][]string {
	all := map[string][]string{}
	for _, n := range nodes {
		if s := says(n.info); s != "" {
			all[s] = append(all[s], n.address)
		}
	}
	return all
}

// but names the nodes, if not all are meant.
func but(some []string, nodes []redisNode) string {
	if len(some) == len(nodes) {
		return ""
	}
	return " (" + strings.Join(some, ", ") + ")"
}

func (d *doctor) checkMemory(nodes []redisNode) {
	said := saying(nodes, func(info map[string]string) string { return info["maxmemory-policy"] })
	for _, policy := range slices.Sorted(maps.Keys(said)) {
		lost := "ledger entries, and a dropped slot runs again"
		if strings.HasPrefix(policy, "volatile-") {
			lost = "leases, and two runs may overlap"
		}
		if policy != "noeviction" {
			d.remark(failure, "memory", fmt.Sprintf("maxmemory-policy %s%s: Redis may drop %s", policy, but(said[policy], nodes), lost),
				"CONFIG SET maxmemory-policy noeviction, or a Redis apart")
		}
	}
	full := saying(nodes, func(info map[string]string) string {
		used, _ := strconv.ParseFloat(info["used_memory"], 64)
		most, _ := strconv.ParseFloat(info["maxmemory"], 64)
		if most == 0 || used < nearlyFull*most {
			return ""
		}
		return fmt.Sprintf("%.0f", 100*used/most)
	})
	for _, percent := range slices.Sorted(maps.Keys(full)) {
		d.remark(warning, "memory", percent+" % of maxmemory is used"+but(full[percent], nodes)+": when it is full no job starts", "CONFIG SET maxmemory")
	}
	if len(said["noeviction"]) == len(nodes) && len(full) == 0 {
		d.remark(fine, "memory", "maxmemory-policy noeviction", "")
	}
}

func (d *doctor) checkDisk(nodes []redisNode) {
	broken := saying(nodes, func(info map[string]string) string {
		if info["rdb_last_bgsave_status"] == "err" || info["aof_last_write_status"] == "err" {
			return "err"
		}
		return ""
	})["err"]
	if len(broken) > 0 {
		d.remark(failure, "disk", "Redis cannot save"+but(broken, nodes)+", and then takes no writes", "see its log")
	}
	said := saying(nodes, func(info map[string]string) string { return info["appendonly"] })
	if none := said["no"]; len(none) > 0 {
		forgets := "since the last snapshot"
		if save, known := nodes[0].info["save"]; known && save == "" {
			forgets = "everything"
		}
		d.remark(warning, "disk", "appendonly no"+but(none, nodes)+": a restart of Redis forgets "+forgets,
			"CONFIG SET appendonly yes")
	} else if len(said["yes"]) > 0 {
		d.remark(fine, "disk", "appendonly yes", "")
	}
}

func (d *doctor) checkReplicas(nodes []redisNode) {
	inStep, known, behind := 0, false, []string{}
	for _, n := range nodes {
		known = known || n.info["connected_slaves"] != ""
		for i := 0; ; i++ {
			replica, ok := n.info["slave"+strconv.Itoa(i)]
			if !ok {
				break
			}
			if late := outOfStep(replica); late != "" {
				behind = append(behind, late)
			} else {
				inStep++
			}
		}
	}
	switch {
	case !known || nodes[0].info["role"] == "slave":
	case len(behind) > 0:
		d.remark(warning, "replicas", fmt.Sprintf("%d in step, %d not: %s", inStep, len(behind), strings.Join(behind, ", ")),
			"a failover now would forget what they lack")
	case inStep == 0 && d.server.master != "":
		d.remark(warning, "replicas", "none: there is nothing that Sentinel could make the master", "")
	case inStep == 0:
		d.remark(fine, "replicas", "none", "")
	default:
		d.remark(fine, "replicas", strconv.Itoa(inStep)+" in step", "")
	}
}

// outOfStep names a replica that is not in step; "" if it is. INFO writes ip=…,port=…,state=online,offset=…,lag=1.
func outOfStep(replica string) string {
	says := map[string]string{}
	for pair := range strings.SplitSeq(replica, ",") {
		name, value, _ := strings.Cut(pair, "=")
		says[name] = value
	}
	lag, _ := strconv.Atoi(says["lag"])
	switch address := net.JoinHostPort(says["ip"], says["port"]); {
	case says["state"] != "online":
		return address + " (" + says["state"] + ")"
	case lag > lagging:
		return fmt.Sprintf("%s (%ds behind)", address, lag)
	}
	return ""
}

// checkClock compares this host's clock with Redis's.
func (d *doctor) checkClock(ahead time.Duration) {
	off, where := ahead, "ahead of"
	if off < 0 {
		off, where = -off, "behind"
	}
	text := fmt.Sprintf("%d ms %s Redis", off.Milliseconds(), where)
	if off >= time.Second {
		text = brief(off) + " " + where + " Redis"
	}
	switch {
	case off > clockRefused:
		d.remark(failure, "clock", text+": no job runs here", "timedatectl status")
	case off > clockTold:
		d.remark(warning, "clock", text, "timedatectl status")
	default:
		d.remark(fine, "clock", text, "")
	}
}
