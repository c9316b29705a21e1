package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fleet of machines, each with its own clock, lives through what fleets live through.

// A fleet of twenty machines with clocks up to 30 s apart lives through what fleets live through: commands shorter and
// longer than the slot, machines that join and that die in the middle of a run, and the line changed machine by machine, to
// another spelling and then to every other minute. Whatever happens, every due minute is done, failed, skipped or uncertain,
// or lies in the time of a slot of the other line; none ran twice, no two commands overlapped, tokens grew, and the ledger
// says what the effects say. Fifteen times as fast as life; ONCEONLY_TEST_FLEET=10m lives that long in real time.
// (SH-01, SH-04, SH-11, SH-19)
func TestFleet(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	now := time.Now()
	f := &fleet{t: t, job: "fleet", factor: 15, real: now, shown: now, log: filepath.Join(dir, "log"),
		lock: filepath.Join(dir, "lock"), command: self}
	life := 45 * time.Second
	if text := os.Getenv("ONCEONLY_TEST_FLEET"); text != "" {
		if life, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		f.factor = 1
	}
	kills := f.live(life)
	if t.Failed() {
		return
	}
	f.judge(kills)
}

const fleetSize = 20

// A fleet has one line in the crontabs of its machines.
type fleet struct {
	t         *testing.T
	job       string
	factor    int64
	real      time.Time // when its clocks, but for each one's own error, showed
	shown     time.Time // this
	log       string
	lock      string
	command   string
	mu        sync.Mutex
	asks      []*fleetAsk
	processes sync.WaitGroup
}

func (f *fleet) now() time.Time { return f.shown.Add(time.Since(f.real) * time.Duration(f.factor)) }

// live lets the fleet live, and returns when all its processes have ended. It returns how many machines were killed with
// the command running on them.
func (f *fleet) live(life time.Duration) (kills int) {
	var up []*fleetMachine
	offsets := rand.Perm(fleetSize - 1)
	offsets = append([]int{fleetSize - 1}, offsets...) // the first clock to show a minute is that of the first line to be changed
	boot := func(i int, step int64, line string) *fleetMachine {
		return f.boot(fmt.Sprintf("web-%d", i+1), time.Duration(offsets[i])*30*time.Second/(fleetSize-1)-15*time.Second, step, line)
	}
	for i := range fleetSize * 3 / 4 {
		up = append(up, boot(i, 1, "* * * * *"))
	}
	tick := life / 100
	for part := range 100 {
		time.Sleep(tick) // no whole part of a minute as the machines have it: each thing that follows meets another second of one
		switch {
		case part < 15 && part%3 == 2: // one joins
			up = append(up, boot(len(up), 1, "* * * * *"))
		case part >= 15 && part < 15+fleetSize:
			up[part-15].line.Store("*/1 * * * *")
		case part >= 38 && part < 38+2*fleetSize && part%2 == 1:
			m := up[(part-38)/2]
			m.line.Store("*/2 * * * *")
			m.step.Store(2)
		}
		if part%10 == 4 { // one dies, now and then in the middle of the command, and is booted again
			i, busy := rand.N(len(up)), false
			if part%20 != 4 {
				i, busy = f.victim(up)
			}
			if busy {
				kills++
			}
			old := up[i]
			old.down()
			number, _ := strconv.Atoi(strings.TrimPrefix(old.name, "web-"))
			up[i] = boot(number-1, old.step.Load(), old.line.Load().(string))
		}
	}
	for _, m := range up {
		m.stop()
	}
	f.processes.Wait()
	for _, m := range up {
		m.down()
	}
	return kills
}

// victim is the machine that runs the command now; any other if nothing runs for a while.
func (f *fleet) victim(up []*fleetMachine) (int, bool) {
	l := &ledger{shared.rdb, namespaceOf(f.t)}
	for deadline := time.Now().Add(30 * time.Second / time.Duration(f.factor)); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		all := fleetEffects(f.t, f.log)
		if len(all) == 0 || all[len(all)-1].word != "START" {
			continue
		}
		slot := all[len(all)-1].slot
		text, _ := shared.rdb.HGet(context.Background(), l.keys(f.job)[2], slot).Result()
		e, err := decode[entry](text)
		f.mu.Lock()
		dead := err != nil || slices.ContainsFunc(f.asks, func(a *fleetAsk) bool { return a.killed && a.machine == e.Host && minuteName(a.minute) == slot })
		f.mu.Unlock()
		if !dead {
			return slices.IndexFunc(up, func(m *fleetMachine) bool { return m.name == e.Host }), true
		}
	}
	return rand.N(len(up)), false
}
