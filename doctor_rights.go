package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Which commands the user lacks. Redis can be asked without calling them: from a script, which needs nothing that run
// does not need, or by ACL DRYRUN. An older one is asked what only reads.

//go:embed scripts/rights.lua
var rightsLua string

// needed are the commands of all scripts, and those sent besides, each as it might be called. K is a key of a job, J the
// list of jobs, C a channel.
var needed = []string{
	"eval:X:1:K", "sadd:J:m", "smembers:J", "subscribe:C", "publish:C:m", "time", "get:K", "set:K:v", "del:K",
	"pttl:K", "pexpire:K:1", "mget:K", "mset:K:v", "msetnx:K:v", "getrange:K:0:1", "hget:K:f", "hset:K:f:v",
	"hsetnx:K:f:v", "hdel:K:f", "hgetall:K", "hincrby:K:f:1", "hexists:K:f", "zadd:K:0:m", "zrem:K:m",
	"zcard:K", "zrange:K:0:1", "zrangebyscore:K:0:1", "zrevrange:K:0:1", "zrevrangebyscore:K:1:0", "zscore:K:m",
	"xadd:K:*:f:v", "xrange:K:-:+",
}

// reading are those that an older Redis is asked in earnest.
var reading = []string{"smembers", "time", "get", "pttl", "mget", "getrange", "hget", "hgetall",
	"hexists", "zcard", "zrange", "zrangebyscore", "zrevrange", "zrevrangebyscore", "zscore", "xrange"}

// spared are those without which jobs still run: see onceonly(1), REDIS.
var spared = []string{"SUBSCRIBE", "PUBLISH", "SADD"}

// checkRights takes what the first question was refused with, if it was.
func (d *doctor) checkRights(e *exit) {
	lacks, known := d.lacking()
	if e != nil && (len(lacks) == 0 || strings.HasSuffix(e.msg, " may not SELECT")) { // without a database nothing else is asked
		d.remark(failure, "rights", e.msg, e.hint)
		return
	}
	if e != nil && !slices.Contains(lacks, "EVAL") {
		if name, ok := strings.CutPrefix(e.msg, "user "+d.user()+" may not "); ok && !slices.Contains(lacks, name) {
			lacks = append([]string{name}, lacks...)
		}
	}
	switch {
	case !known:
	case len(lacks) == 0:
		d.remark(fine, "rights", "user "+d.user()+" may do all that is needed", "")
	case d.keysClosed(lacks):
		d.remark(failure, "rights", "user "+d.user()+" may not use the keys "+d.namespace+":*", rightsHint)
	default:
		level := warning
		if slices.ContainsFunc(lacks, func(name string) bool { return !slices.Contains(spared, name) }) {
			level = failure
		}
		d.remark(level, "rights", "user "+d.user()+" may not "+strings.Join(lacks, ", "), rightsHint)
	}
}

// keysClosed says whether it is the keys and not the commands: none that takes one is allowed.
func (d *doctor) keysClosed(lacks []string) bool {
	return !slices.ContainsFunc(needed, func(command string) bool {
		name, rest, _ := strings.Cut(strings.ToUpper(command), ":")
		return name != "EVAL" && strings.ContainsAny(rest, "KJ") && !slices.Contains(lacks, name)
	})
}

// neededWords are the commands as they are sent for this namespace.
func (d *doctor) neededWords() (all [][]string) {
	l := &ledger{namespace: d.namespace}
	const nobody = "doctor"
	as := map[string]string{"X": "return", "K": l.keys(nobody)[5], "J": l.jobsKey(), "C": l.channel(nobody)}
	for _, command := range needed {
		words := strings.Split(command, ":")
		for i, w := range words {
			if real, ok := as[w]; ok {
				words[i] = real
			}
		}
		words[0] = strings.ToUpper(words[0])
		all = append(all, words)
	}
	return all
}

// lacking finds the commands that are refused, in the best of three ways.
func (d *doctor) lacking() (lacks []string, known bool) {
	words, _ := json.Marshal(d.neededWords())
	if answer, err := d.ask(d.rdb, "eval", bare(rightsLua), 0, string(words)); err == nil {
		names, _ := answer.([]any)
		for _, n := range names {
			lacks = append(lacks, text(n))
		}
		return lacks, true
	}
	if _, err := d.ask(d.rdb, "acl", "dryrun", d.user(), "ping"); err == nil {
		return d.try(d.neededWords(), func(words []string) []any {
			return append([]any{"acl", "dryrun", d.user()}, anys(words)...)
		}), true
	}
	few := slices.DeleteFunc(d.neededWords(), func(w []string) bool { return !slices.Contains(reading, strings.ToLower(w[0])) })
	lacks = d.try(few, anys)
	return lacks, len(lacks) > 0
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

// try sends each command in its form, and gives those that are refused.
func (d *doctor) try(commands [][]string, form func([]string) []any) (lacks []string) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	for _, words := range commands {
		answer, err := d.rdb.Do(ctx, form(words)...).Result()
		refused := err != nil && err != redis.Nil && strings.HasPrefix(err.Error(), "NOPERM")
		if said, ok := answer.(string); refused || ok && strings.Contains(said, "no permissions") {
			lacks = append(lacks, words[0])
		}
	}
	return lacks
}
