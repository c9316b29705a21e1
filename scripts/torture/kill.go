//go:build linux

package main

import (
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// Killing, by KILL, a part of a run.

// kill kills and notes it.
func (t *traps) kill(step, target, run string, wrapper int, pids ...int) bool {
	k := &kill{step: step, target: target, wrapper: wrapper, run: run, at: bootNow()}
	k.guarded = !t.scene.starves() || guardOf(wrapper) != 0
	k.hit = send(unix.SIGKILL, pids...)
	t.scene.history.addKill(k)
	return k.hit
}

// killGuarded kills in a run that is old enough to have a guard; false if there is none.
func (t *traps) killGuarded(r *rand.Rand) bool {
	for _, l := range t.scene.history.living() {
		if since(l.began) > hasGuardAfter && guardOf(l.wrapper) != 0 {
			t.killOf(stepGuarded, r, l)
			return true
		}
	}
	return false
}

// killOf kills the wrapper, its guard, its command's group, or all of them.
func (t *traps) killOf(step string, r *rand.Rand, l *life) {
	t.scene.history.mu.Lock()
	a := t.scene.history.byPID[l.wrapper]
	over := a == nil || a.ended != never || l.exits != never
	t.scene.history.mu.Unlock()
	if over {
		return
	}
	guard := guardOf(l.wrapper)
	switch n := r.IntN(5); {
	case n < 2:
		t.kill(step, "wrapper", l.run, l.wrapper, l.wrapper)
	case n == 2 && guard != 0:
		t.kill(step, "guard", l.run, l.wrapper, guard)
	case n == 3:
		t.kill(step, "all", l.run, l.wrapper, l.wrapper, guard, -l.pid)
	default:
		t.kill(step, "command", l.run, l.wrapper, -l.pid)
	}
}
