package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// What Redis says of itself, as far as this user may ask.

// A redisNode is one Redis, and what INFO says of it.
type redisNode struct {
	address string
	info    map[string]string // empty: refused
}

// nodes are the Redis that was met, or each master of a cluster, with what they say of themselves.
func (d *doctor) nodes(met *meeting) (nodes []redisNode, e *exit) {
	cluster, ok := d.rdb.(*redis.ClusterClient)
	if !ok {
		address := d.server.address
		if d.server.master != "" {
			address = met.address
		}
		return []redisNode{{address, d.info(d.rdb)}}, nil
	}
	var mu sync.Mutex
	var masters []*redis.Client
	e = d.server.persist(d.redisWait, func(ctx context.Context) error {
		masters = nil
		return cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, c)
			return nil
		})
	})
	for _, c := range masters {
		nodes = append(nodes, redisNode{c.Options().Addr, d.info(c)})
	}
	slices.SortFunc(nodes, func(a, b redisNode) int { return strings.Compare(a.address, b.address) })
	return nodes, e
}

// info is what INFO says, and CONFIG and ROLE where INFO is refused. What is refused, too, is told once.
func (d *doctor) info(rdb redis.UniversalClient) map[string]string {
	info := map[string]string{}
	answer, err := d.ask(rdb, "info")
	for l := range strings.SplitSeq(text(answer), "\r\n") {
		if name, value, ok := strings.Cut(l, ":"); ok {
			info[name] = value
		}
	}
	refused := []string{}
	if err != nil {
		refused = append(refused, "INFO")
		if role, err := d.ask(rdb, "role"); err == nil {
			info["role"], info["master_host"] = readRole(role)
		} else {
			refused = append(refused, "ROLE")
		}
	}
	for _, setting := range []string{"maxmemory-policy", "appendonly", "save"} {
		answer, err := d.ask(rdb, "config", "get", setting)
		pair, _ := answer.([]any)
		if err == nil && len(pair) == 2 {
			info[setting] = text(pair[1])
		} else if err != nil && !slices.Contains(refused, "CONFIG") {
			refused = append(refused, "CONFIG")
		}
	}
	if info["maxmemory_policy"] != "" {
		info["maxmemory-policy"] = info["maxmemory_policy"]
	}
	if on := info["aof_enabled"]; on != "" && info["appendonly"] == "" {
		info["appendonly"] = map[string]string{"0": "no", "1": "yes"}[on]
	}
	d.toldRefused(refused, info)
	return info
}

// toldRefused tells what was refused if something is not known for it, in one line.
func (d *doctor) toldRefused(refused []string, info map[string]string) {
	var lacks []string
	for _, k := range [][2]string{{"redis_version", "version"}, {"role", "role"}, {"maxmemory-policy", "memory policy"},
		{"appendonly", "persistence"}, {"connected_slaves", "replicas"}} {
		if info[k[0]] == "" {
			lacks = append(lacks, k[1])
		}
	}
	if len(lacks) > 0 && len(refused) > 0 {
		d.cannotRead("Redis's "+strings.Join(lacks, ", "), "user "+d.user()+" may not "+strings.Join(refused, ", "))
	}
}

func (d *doctor) user() string {
	if d.server.user == "" {
		return "default"
	}
	return d.server.user
}

// readRole reads ROLE's answer: its own role and, of a replica, the master.
func readRole(answer any) (role, master string) {
	words, _ := answer.([]any)
	if len(words) > 1 {
		role, master = text(words[0]), text(words[1])
	}
	return role, master
}

// A meeting remembers who was met: of a master that Sentinels know, the address.
type meeting struct {
	mu      sync.Mutex
	address string
}

func (m *meeting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err == nil {
			m.mu.Lock()
			m.address = c.RemoteAddr().String()
			m.mu.Unlock()
		}
		return c, err
	}
}

func (m *meeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (m *meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ask sends one command, which may be refused.
func (d *doctor) ask(rdb redis.UniversalClient, words ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return rdb.Do(ctx, words...).Result()
}
