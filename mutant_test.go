package main

import (
	"strings"
	"testing"
	"time"
)

const (
	mutantLife  = 2 * time.Minute // a mutant that lives longer has survived; most are caught in a second
	mutantRound = 2 * time.Second
)

// A mutant is one script with one thing wrong.
type mutant struct {
	name     string
	script   *string
	old, new string
}

// mutants are the guards of the protocol, one taken away at a time. A guard whose mutant survives is not needed, or the
// fuzz is blind.
var mutants = []mutant{
	{"begin takes any lock for its own", &beginLua, "local mine = string.sub(held, 1, 32) == q.run_id or", "local mine = true or"},
	{"token from the clock alone", &beginLua, "\nlocal token = int(math.max(fence + 1, ms))", "\nlocal token = int(ms)"},
	{"token not kept", &beginLua, "redis.call('SET', FENCE, token)", ""},
	{"earlier attempts forgotten", &entryLua, "local t, stands = tag(run, try), nil\n", "do return end local t, stands\n"},
	{"earlier attempts not listed", &beginLua, "if e and e.run_id then new.earlier = ", "if false then new.earlier = "},
	{"fence not compared", &beginLua, "or fence ~= tonumber(e.token)", ""},
	{"ended attempt begun again", &beginLua, "if e.state ~= 'running' then return reply('ended') end", ""},
	{"done not looked at", &beginLua, "if said and (said.state == 'done' or said.state == 'merged') and q.rerun == ''", "if false"},
	{"attempts not counted", &beginLua, "(n >= allowed or into)", "false"},
	{"refusal keeps the lease", &beginLua, "redis.call('DEL', LOCK)", ""},
	{"refused next try stays kept", &beginLua, "(e.kept and q.try <= e.try)", "e.kept"},
	{"late copy takes a living lease", &beginLua, "local alive = own and ", "local alive = false and "},
	{"spent token keeps the lease", &beginLua, "and fence == tonumber(e.token) and (", "and ("},
	{"error takes a living lease", &obtainLua, "if got and before ~= ARGV[1] then", "if got then"},
	{"error keeps the lease", &obtainLua, "if got and before ~= ARGV[1] then", "if false then"},
	{"released before the end is written", &releaseLua, "local answer = ours(KEYS, { question })\nreturn { lease({ KEYS[1] }, ARGV), answer }",
		"local got = lease({ KEYS[1] }, ARGV)\nreturn { got, ours(KEYS, { question }) }"},
	{"released though the end is not written", &releaseLua, "local answer = ours(KEYS, { question })\n",
		"local fine, answer = pcall(ours, KEYS, { question })\nif not fine then lease({ KEYS[1] }, ARGV) return redis.error_reply(type(answer) == 'table' and answer.err or answer) end\n"},
	{"not released", &releaseLua, "lease({ KEYS[1] }, ARGV), answer", "'OK', answer"},
	{"stale end written over the newer one", &finishLua, "if is(e, q.run_id, q.try) then\n  told(", "if e and e.run_id then\n  told("},
	{"stale end told twice", &finishLua, "if k and ended(e, k) then return reply('already') end", ""},
	{"end told twice", &finishLua, "if is(e, q.run_id, q.try) and e.state ~= 'running' then", "if false then"},
	{"unstarted leaves no mark on a slot without entry", &finishLua, "if not unstarted then\n    told('end')",
		"if unstarted then return reply('ok') end\n  if true then\n    told('end')"},
	{"unstarted leaves no mark on another's entry", &finishLua, "if unstarted then\n  ", "if unstarted then\n  if not k then return reply('ok') end\n  "},
	{"unstarted keeps the lease", &finishLua, "if unstarted and holder() == q.run_id then", "if false then"},
	{"unstarted next try stays kept", &finishLua, "if e.run_id == q.run_id then e.kept = nil end", ""},
	{"mark makes the holder's slot forgotten", &entryLua, "rank(redis.call('HGET', META, 'current'))", "rank(q.slot)"},
	{"next try refused behind another stays kept", &beginLua, "    if own and e.kept then", "    if own and e.kept and mine then"},
	{"unstarted uses up an attempt", &finishLua, "if unstarted then e.attempt, e.reopened = e.attempt - 1, e.reopening end", ""},
	{"settled while a lease is held", &resolveLua, "if held ~= '' then", "if false then"},
	{"settled though something has begun since", &resolveLua, "if fence ~= q.fence then return reply('changed') end", ""},
	{"settled without raising the token", &resolveLua, "redis.call('SET', FENCE, token)", ""},
	{"settled under the older attempt's name", &resolveLua, "new.run_id, new.try, new.token, new.noted = q.run_id, q.try, token, true", ""},
	{"settled, and the older attempt forgotten", &resolveLua, "if new.run_id then new.earlier = ", "if false then new.earlier = "},
	{"late pause", &pauseLua, "if (p.n or 0) ~= q.seen then return reply('changed') end", ""},
	{"pause not looked at", &beginLua, "if pause and not (", "if false and not ("},
	{"late stop", &stopLua, "if run_of(held) ~= q.run_id then return reply('changed') end", ""},
	{"stopped without raising the token", &stopLua, "redis.call('SET', FENCE, fence)", ""},
	{"stopped, and nothing keeps the others away", &stopLua, "'PX', math.max(ttl, 1))", "'PX', 1)"},
}

// TestMutants lets the fuzz loose on each mutant until it is caught. The scripts are the package's: nothing else that
// uses them may run at the same time, so this test is not parallel.
func TestMutants(t *testing.T) {
	if raceEnabled {
		t.Skip("mutants try the fuzz, which runs under the race detector by itself; there it is too slow to meet them all")
	}
	seed := fuzzSeed(t)
	r := newRedis(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			whole := *m.script
			defer func() { *m.script = whole }()
			if *m.script = strings.Replace(whole, m.old, m.new, 1); *m.script == whole {
				t.Fatalf("not in the script: %q", m.old)
			}
			f, began := newFuzz(r, seed), time.Now()
			for len(f.faults) == 0 && time.Since(began) < mutantLife {
				f.round(mutantRound)
			}
			if len(f.faults) == 0 {
				t.Fatalf("survived %v, seed %d: %s", time.Since(began).Round(time.Second), seed, f)
			}
			t.Logf("caught in %v: %s", time.Since(began).Round(time.Millisecond), f.faults[0])
		})
	}
}
