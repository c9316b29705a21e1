package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Stories of verdicts: who runs, who does not and why, and that a question which only wants to know hears the same.

// TestLuaVerdicts holds begin.lua to the table of verdicts, row by row and in its order.
func TestLuaVerdicts(t *testing.T) {
	t.Parallel()
	tellLua(t, []luaStory{
		{"absent", `
			begin a.1 s1 -> run 1
			entry s1 -> running 1 a.1
			lock -> a
			done a.1 -> ok
			entry s1 -> done 1 a.1
			lock -> -
			log -> begin 1 end 1`},
		{"done", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 attempts=3 -> done
			entry s1 -> done 1 a.1
			lock -> -`},
		{"busy", `
			begin a.1 s1 attempts=2 -> run 1
			begin b.1 s1 attempts=2 -> busy
			begin c.1 s1 attempts=2 overlap=skip -> busy
			entry s1 -> running 1 a.1
			lock -> a`},
		{"busy between two attempts of one process", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 kept -> ok
			begin b.1 s1 attempts=2 -> busy
			entry s1 -> failed 1 a.1 kept
			begin a.2 s1 attempts=2 -> run 2
			entry s1 -> running 2 a.2 earlier=a.1+
			done a.2 -> ok
			lock -> -`},
		{"failed, told by one", `
			begin a.1 s1 -> run 1
			failed a.1 -> ok
			begin b.1 s1 -> failed told
			begin c.1 s1 -> failed
			begin b.1 s1 -> failed told
			entry s1 -> failed 1 a.1
			lock -> -`},
		{"failed, an attempt left", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			begin b.1 s1 attempts=2 -> run 2
			failed b.1 -> ok
			begin c.1 s1 attempts=2 -> failed told
			entry s1 -> failed 2 b.1 earlier=a.1+`},
		{"uncertain, told by one", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s1 -> uncertain told
			begin c.1 s1 -> uncertain
			entry s1 -> running 1 a.1
			lock -> -
			meta count_uncertain -> -`},
		{"uncertain, an attempt left", `
			begin a.1 s1 attempts=2 -> run 1
			lapse
			begin b.1 s1 attempts=2 -> run 2
			entry s1 -> running 2 b.1 earlier=a.1
			meta count_uncertain -> 1`},
		{"another's end after uncertain", `
			begin a.1 s1 -> run 1
			lapse
			begin b.1 s1 -> uncertain told
			done a.1 -> ok
			begin c.1 s1 -> done`},
		{"behind, waiting", `
			begin a.1 s1 -> run 1
			begin b.1 s2 -> behind
			entry s2 -> -
			hosts web-b -> waiting
			done a.1 -> ok
			begin b.1 s2 -> run 1`},
		{"behind, skipping", `
			begin a.1 s1 -> run 1
			begin b.1 s2 overlap=skip -> behind
			entry s2 -> skipped 0
			hosts web-b -> skipped
			done a.1 -> ok
			begin c.1 s2 -> run 1
			entry s2 -> running 1 c.1`},
		{"skipped is never written over an attempt", `
			begin a.1 s1 attempts=2 -> run 1
			failed a.1 -> ok
			begin b.1 s2 -> run 1
			begin c.1 s1 attempts=2 overlap=skip -> behind
			entry s1 -> failed 1 a.1`},
		{"paused", `
			set meta paused {}
			begin a.1 s1 -> paused
			entry s1 -> paused 0
			lock -> -
			unset meta paused
			begin a.1 s1 -> run 1
			set meta paused {}
			begin b.1 s1 -> busy
			done a.1 -> ok
			begin b.1 s1 -> done
			begin b.1 s2 rerun=why -> paused
			meta current -> s1`},
		{"paused until a time to come", `
			set meta paused {"until":9999999999999}
			begin a.1 s1 -> paused`},
		{"paused until a time that is past", `
			set meta paused {"until":1600000000000}
			begin a.1 s1 -> run 1`},
		{"clock", `
			begin a.1 s1 now=-59m -> run 1
			done a.1 -> ok
			begin b.1 s1 now=-61m -> clock
			begin b.1 s1 now=61m -> clock
			begin b.1 s1 now=59m -> done
			lock -> -
			entry s1 -> done 1 a.1`},
		{"zone", `
			begin a.1 s1 zone=Asia/Seoul -> run 1
			done a.1 -> ok
			begin b.1 s2 zone=UTC -> zone
			lock -> -
			entry s2 -> -
			hosts web-b -> refused zone
			begin b.1 s2 zone=UTC from=date -> run 1
			done b.1 -> ok
			meta zone -> Asia/Seoul
			begin c.1 s3 zone=UTC from=explicit -> run 1
			done c.1 -> ok
			meta zone -> UTC
			begin d.1 s4 zone=Asia/Seoul -> zone`},
		{"a country changes its time", `
			begin a.1 s1 zone=Mexico years=2021:x,2022:x -> run 1
			meta zone_year -> 2022
			done a.1 -> ok
			begin b.1 s2 zone=Alias years=2022:x,2023:y -> run 1
			done b.1 -> ok
			meta zone_year -> 2022
			begin c.1 s3 zone=Mexico years=2022:x,2023:y -> run 1
			done c.1 -> ok
			meta zone_year -> 2023
			meta offsets -> y
			meta zone_host -> web-a
			begin d.1 s4 zone=Other years=2022:x,2023:x -> zone
			begin e.1 s4 zone=Alias years=2022:x,2023:y -> run 1
			done e.1 -> ok
			begin f.1 s5 zone=Mexico years=2022:x,2023:z -> run 1
			done f.1 -> ok
			meta offsets -> z
			begin g.1 s6 zone=Other years=2024:x,2025:x -> run 1
			meta zone -> Other
			meta zone_host -> web-g`},
		{"a slot skipped right after the one before hides none", `
			begin a.1 s1 -> run 1
			begin b.1 s2 previous=s1 overlap=skip -> behind
			done a.1 -> ok
			begin c.1 s3 previous=s2 -> run 1
			begin d.1 s5 previous=s4 overlap=skip -> behind
			done c.1 -> ok
			begin e.1 s6 previous=s5 -> gap`},
		{"zones without a name are told apart", `
			begin a.1 s1 zone=Local years=2026:x -> run 1
			done a.1 -> ok
			begin b.1 s2 zone=Local years=2026:y -> zone`},
		{"a date sets no zone", `
			begin a.1 s1 zone=UTC from=date dated -> run 1
			meta zone -> -
			done a.1 -> ok
			begin b.1 s2 zone=Asia/Seoul -> run 1
			meta zone -> Asia/Seoul`},
		{"arguments", `
			begin a.1 s1 args=x -> run 1
			done a.1 -> ok
			begin b.1 s1 args=y -> args
			hosts web-b -> refused arguments
			begin c.1 s1 args=x -> done
			begin d.1 s1 -> done
			begin e.1 s2 args=y -> run 1
			done e.1 -> ok
			begin f.1 s1 args=y rerun=why -> run 2
			lock -> f`},
		{"two lines of one name", `
			begin a.1 s1 host=web-1 line=one -> run 1
			done a.1 -> ok
			begin b.1 s1 host=web-1 line=two -> line
			begin b.1 s1 host=web-1 line=two -> line
			begin c.1 s1 host=web-1 line=one -> done
			begin d.1 s1 host=web-1 line=two -> line
			begin e.1 s1 host=web-2 line=two -> done
			begin f.1 s1 host=web-1/m1 line=two -> done
			begin f.1 s2 host=web-1 line=two -> run 1
			done f.1 -> ok
			begin g.1 s1 host=web-1 line=two rerun=why -> run 2`},
		{"the second line is refused also where the first has not run", `
			begin a.1 s1 host=web-1 -> run 1
			begin b.1 s2 host=web-2 line=one -> behind
			begin c.1 s2 host=web-2 line=two -> line
			done a.1 -> ok
			begin c.1 s2 host=web-2 line=two -> line
			entry s2 -> -
			begin b.1 s2 host=web-2 line=one -> run 1`},
		{"the host that ran is known without its roll call", `
			begin a.1 s1 host=web-1 line=one -> run 1
			done a.1 -> ok
			unset hosts web-1
			begin b.1 s1 host=web-1 line=two -> line`},
		{"not daily", `
			begin a.1 s1 host=web-1 minute=02:00 -> run 1
			begin b.1 s1 host=web-1 minute=02:00 -> busy
			begin b.1 s1 host=web-1 minute=02:05 -> notdaily
			done a.1 -> ok
			begin c.1 s1 host=web-1 minute=02:00 -> done
			begin c.1 s1 host=web-1 minute=02:05 -> notdaily
			begin c.1 s1 host=web-1 minute=02:10 -> notdaily
			begin d.1 s1 host=web-2 minute=02:05 -> done
			begin e.1 s1 host=web-1 -> done
			begin f.1 s2 host=web-1 minute=02:05 -> run 1`},
		{"forced", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 rerun=why -> run 2
			begin c.1 s1 rerun=why -> busy
			lapse
			begin d.1 s1 rerun=why -> run 3
			failed d.1 -> ok
			begin e.1 s1 rerun=why -> run 4
			entry s1 -> running 4 e.1 earlier=a.1+,b.1,d.1+`},
		{"old", `
			set meta low 1796000300000
			begin a.1 s5 -> old
			begin a.1 s4 -> old
			lock -> -
			entry s5 -> -
			begin a.1 s6 -> run 1`},
		// Everything at once: what comes first in the table is what is said.
		{"order", `
			begin a.1 s1 args=x zone=UTC line=one host=web-1 minute=02:00 -> run 1
			done a.1 -> ok
			set meta paused {}
			begin b.1 s1 args=y zone=Asia/Seoul line=two host=web-1 minute=03:00 now=-2h -> clock
			begin b.1 s1 args=y zone=Asia/Seoul line=two host=web-1 minute=03:00 -> zone
			begin b.1 s1 args=y zone=UTC line=two host=web-1 minute=03:00 -> args
			begin b.1 s1 args=x zone=UTC line=two host=web-1 minute=03:00 -> line
			begin b.1 s1 args=x zone=UTC line=one host=web-1 minute=03:00 -> notdaily
			begin b.1 s1 args=x zone=UTC line=one host=web-1 minute=02:00 -> done
			begin b.1 s2 args=x zone=UTC line=one host=web-1 minute=02:00 -> paused`},
		{"the line is kept", `
			begin a.1 s1 every=day attempts=2 -> run 1
			done a.1 -> ok
			begin b.1 s2 every=hour dated -> run 1
			done b.1 -> ok
			meta every -> day
			begin c.1 s3 every=hour -> run 1
			meta every -> hour
			meta current -> s3`},
		// SH-19: the host's clock is set back after a run.
		{"the clock goes back", `
			begin a.1 s1 -> run 1
			done a.1 -> ok
			begin b.1 s1 host=web-a now=-10m -> done
			begin b.1 s1 host=web-a now=-7s -> done
			begin b.1 s0 host=web-a now=-10m -> run 1
			done b.1 -> ok
			begin c.1 s1 host=web-a -> done
			begin c.1 s0 host=web-a -> done`},
	})
}

// TestLuaDry: a question that only wants to know gets the same verdict as one that means it, and changes nothing.
func TestLuaDry(t *testing.T) {
	t.Parallel()
	for _, s := range []luaStory{
		{"absent", `begin d.1 s1 dry -> run 1`},
		{"done", "begin a.1 s1 -> run 1\ndone a.1 -> ok\nbegin d.1 s1 dry -> done"},
		{"busy", "begin a.1 s1 -> run 1\nbegin d.1 s1 dry -> busy"},
		{"failed", "begin a.1 s1 -> run 1\nfailed a.1 -> ok\nbegin d.1 s1 dry -> failed told"},
		{"uncertain", "begin a.1 s1 -> run 1\nlapse\nbegin d.1 s1 dry -> uncertain told"},
		{"attempt left", "begin a.1 s1 attempts=2 -> run 1\nfailed a.1 -> ok\nbegin d.1 s1 attempts=2 dry -> run 2"},
		{"behind", "begin a.1 s1 -> run 1\nbegin d.1 s2 overlap=skip dry -> behind"},
		{"paused", "set meta paused {}\nbegin d.1 s1 dry -> paused"},
		{"old", "set meta low 1796000300000\nbegin d.1 s1 dry -> old"},
		{"zone", "begin a.1 s1 -> run 1\nbegin d.1 s1 zone=Asia/Seoul dry -> zone"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			j := newLuaJob(t, shared.rdb)
			given, asked := "", s.text
			if cut := strings.LastIndex(s.text, "\n"); cut >= 0 {
				given, asked = s.text[:cut], s.text[cut:]
			}
			j.tell(given)
			was := j.dump()
			j.tell(asked)
			if is := j.dump(); is != was {
				t.Errorf("changed:\n%q\n%q", was, is)
			}
		})
	}
}

// dump is all that the job has in Redis.
func (j *luaJob) dump() string {
	ctx, all := context.Background(), ""
	for _, key := range j.keys(j.job) {
		all += key + "=" + j.Dump(ctx, key).Val() + "\n"
	}
	return all
}

// TestLuaAttemptStorm is SH-13: twenty hosts ask ten times each, and the command always fails at once.
func TestLuaAttemptStorm(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 3} {
		t.Run(strconv.Itoa(attempts), func(t *testing.T) {
			t.Parallel()
			j := newLuaJob(t, shared.rdb)
			runs, told, last := 0, 0, int64(0)
			for n := range 200 {
				a := fmt.Sprintf("a.%d", n)
				got := j.do(strings.Fields(fmt.Sprintf("begin %s s1 host=web-%d attempts=%d", a, n%20, attempts)))
				switch {
				case strings.HasPrefix(got, "run"):
					runs++
					if token := j.given[a].Token; token <= last {
						t.Errorf("token %d after %d", token, last)
					}
					last = j.given[a].Token
					j.tell("failed " + a + " -> ok")
					j.leases = map[string]*lease{}
				case got == "failed told":
					told++
				case got != "failed":
					t.Fatal(got)
				}
			}
			if runs != attempts || told != 1 {
				t.Errorf("%d runs, want %d; told %d times", runs, attempts, told)
			}
			if keys, _ := j.Keys(context.Background(), j.prefix(j.job)+"*").Result(); len(keys) > 6 {
				t.Errorf("keys: %v", keys)
			}
		})
	}
}
