package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Stories of errors in the middle of a script: a key of the wrong type, no memory, a right that is missing.

// TestLuaErrors: whatever fails, and wherever, nothing is left behind. A begin that fails holds no lease, unless the
// lease was a living run's; an end that fails gives none back; no lock is without expiry.
func TestLuaErrors(t *testing.T) {
	t.Parallel()
	for n, key := range []string{"lock", "fence", "ledger", "slots", "log", "meta", "hosts"} {
		t.Run("wrong type of "+key, func(t *testing.T) {
			t.Parallel()
			j, ctx := newLuaJob(t, shared.rdb), context.Background()
			wrong := j.keys(j.job)[n]
			spoil := func() {
				j.Del(ctx, wrong)
				j.LPush(ctx, wrong, "x")
			}
			heal := func() { j.Del(ctx, wrong) }
			spoil()
			if key == "hosts" { // the roll call never stands in the way
				j.tell("begin a.1 s1 -> run 1\ndone a.1 -> ok")
				return
			}
			if got := j.do([]string{"begin", "a.1", "s1"}); !strings.HasPrefix(got, "error WRONGTYPE") {
				t.Errorf("begin: %s", got)
			}
			if key == "lock" {
				return // whoever writes over the lock takes the lease away
			}
			heal()
			j.tell("lock -> -\nentry s1 -> -")
			j.tell("begin a.1 s1 -> run 1")
			held := j.Get(ctx, j.keys(j.job)[0]).Val()
			spoil()
			begin, end := j.do([]string{"copy", "a.1"}), j.do([]string{"done", "a.1"})
			failed := strings.HasPrefix(end, "error WRONGTYPE")
			if !failed && end != "ok" {
				t.Errorf("end: %s", end)
			}
			if is := j.Get(ctx, j.keys(j.job)[0]).Val(); failed && is != held {
				t.Errorf("begun again: %s; after the end failed the lock is %q, want %q", begin, is, held)
			}
			heal()
			if got := j.do([]string{"done", "a.1"}); failed && got != "ok" {
				t.Errorf("the end again: %s", got)
			}
			j.tell("lock -> -\nentry s1 -> done 1 a.1")
		})
	}
}

// TestLuaFull: a Redis that is full takes no run, and keeps the lease of one whose end it cannot write.
func TestLuaFull(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	j := newLuaJob(t, r.rdb)
	full := func(limit string) {
		if err := r.rdb.ConfigSet(ctx, "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(got string) {
		t.Helper()
		if !strings.HasPrefix(got, "error OOM") {
			t.Errorf("got %s, want an error OOM", got)
		}
	}
	full("1")
	want(j.do([]string{"begin", "a.1", "s1"}))
	j.tell("lock -> -\nentry s1 -> -\nfence ->")
	full("0")
	j.tell("wipe\nbegin a.1 s1 attempts=2 -> run 1")
	full("1")
	want(j.do([]string{"done", "a.1"}))
	j.tell("lock -> a\nentry s1 -> running 1 a.1")
	j.do([]string{"copy", "a.1"})
	j.tell("lock -> a\nrenew a -> ok")
	want(j.do([]string{"begin", "b.1", "s2"}))
	j.tell("lock -> a")
	full("0")
	j.tell("done a.1 -> ok\nlock -> -")
}

// luaCommands are what the scripts call.
var luaCommands = strings.Fields(`time get set del pexpire pttl getrange msetnx mset mget hget hgetall hset hsetnx hdel
	hexists hincrby zadd zcard zrange zrem xadd publish`)

// TestLuaRights takes one right away at a time.
func TestLuaRights(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), context.Background()
	for _, denied := range luaCommands {
		t.Run(denied, func(t *testing.T) {
			if err := r.rdb.ACLSetUser(ctx, denied, "on", ">p", "~*", "&*", "+@all", "-"+denied).Err(); err != nil {
				t.Fatal(err)
			}
			poor := redis.NewClient(&redis.Options{Addr: r.address(), Username: denied, Password: "p", Protocol: 2})
			defer poor.Close()
			// The entry at stake is the sixth of a ledger of five, with one before it: every command has its turn.
			rich := newLuaJob(t, r.rdb)
			for n := range 5 {
				rich.tell(fmt.Sprintf("begin z.%d s%d keep=5 -> run 1\ndone z.%d -> ok", n, n, n))
			}
			rich.ledger = &ledger{poor, rich.namespace}
			begun := rich.do([]string{"begin", "a.1", "s6", "keep=5"})
			rich.UniversalClient = r.rdb
			if begun == "run 1" && denied == "del" {
				t.Error("begun, and nobody could give the lease back")
			}
			if begun != "run 1" {
				if begun != "error "+luaDenied(denied) {
					t.Errorf("begin: %s", begun)
				}
				rich.tell("lock -> -\nentry s6 -> -\nbegin a.1 s6 keep=5 -> run 1")
			}
			rich.UniversalClient = poor
			ended := rich.do([]string{"done", "a.1"})
			rich.UniversalClient = r.rdb
			if ended == "ok" {
				rich.tell("lock -> -\nentry s6 -> done 1 a.1")
				return
			}
			if ended != "error "+luaDenied(denied) {
				t.Errorf("end: %s", ended)
			}
			rich.tell("lock -> a")
			if got := rich.do([]string{"done", "a.1"}); got != "ok" && got != "already" {
				t.Errorf("the end, with all rights: %s", got)
			}
			rich.tell("lock -> -\nentry s6 -> done 1 a.1")
		})
	}
}

func luaDenied(name string) string {
	return "The user executing the script can't run this command or subcommand"
}
