package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The recipe for files.

// gate is a program in place of one that the script calls. The n-th call is frozen until it is let go; fsync is not what
// these tests are about.
const gate = `#!/bin/sh
read n <"$GATE/n" || n=0
echo $((n += 1)) >"$GATE/n"
if [ $n = "$FREEZE" ]; then
	: >"$GATE/frozen"
	until test -e "$GATE/go" || ! test -e "$GATE"; do sleep 0.002; done
fi
[ "${0##*/}" = sync ] || PATH=${PATH#*:} exec "${0##*/}" "$@"
`

// A publisher is the script of the page, for one target.
type publisher struct {
	t                   *testing.T
	dir, script, target string
}

func newPublisher(t *testing.T, text string) *publisher {
	p := &publisher{t: t, dir: t.TempDir()}
	p.script, p.target = newScript(t, p.dir, "publish", text), filepath.Join(p.dir, "out", "report")
	for _, name := range []string{"out", "gate", "bin"} {
		os.Mkdir(filepath.Join(p.dir, name), 0o755)
	}
	for _, name := range []string{"flock", "sync", "mv", "cp"} {
		newScript(t, filepath.Join(p.dir, "bin"), name, gate)
	}
	return p
}

// start lets a writer publish its token, frozen at its n-th step; 0 is never.
func (p *publisher) start(w writer, freeze int) *publishing {
	p.t.Helper()
	own := filepath.Join(p.dir, "gate", w.run)
	os.RemoveAll(own)
	os.Mkdir(own, 0o755)
	file := filepath.Join(own, "file")
	caseTouch(p.t, file, fmt.Sprintln(w.token))
	caseTouch(p.t, filepath.Join(own, "n"), "0\n")
	cmd := exec.Command(p.script, file, p.target)
	return publish(p.t, cmd, append(w.env(), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"), "GATE="+own,
		fmt.Sprint("FREEZE=", freeze)))
}

func (p *publisher) there(w writer, what string) bool {
	_, err := os.Stat(filepath.Join(p.dir, "gate", w.run, what))
	return err == nil
}

// TestFencingFiles: a reader never sees an older file after a newer one; without the lock it does.
func TestFencingFiles(t *testing.T) {
	t.Parallel()
	right := fencingText(t, "publish")
	wrong := changed(t, right, "flock -w 30 9 || exit 75\n", "")
	for name, text := range map[string]string{"as shown": right, "wrong: no lock": wrong} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublisher(t, text)
			const steps = 7 // programs that the script calls
			refused, stale := 0, 0
			for i := range roundsOf(text == wrong) {
				a, b := meet(i)
				freeze := i % (steps + 1)
				older := p.start(a, freeze)
				if freeze > 0 {
					eventually(t, "the older one is frozen, or has ended", func() bool { return older.over() || p.there(a, "frozen") })
				}
				newer := p.start(b, 0)
				if freeze < 2 || text == wrong { // nothing keeps the newer one out
					<-newer.ended
				}
				caseTouch(t, filepath.Join(p.dir, "gate", a.run, "go"), "")
				<-newer.ended
				<-older.ended
				if older.status() > 0 {
					refused++
				}
				if text == right {
					newer.want(t, 0)
					older.want(t, min(older.status(), 1))
				}
				if got, _ := os.ReadFile(p.target); string(got) != fmt.Sprintln(b.token) {
					stale++
				}
			}
			t.Logf("%d rounds: the older was refused %d times, stood in the newer one's place %d times", roundsOf(text == wrong), refused, stale)
			if (text == wrong) != (stale > 0) || text == right && refused == 0 {
				t.Errorf("refused %d, stale %d", refused, stale)
			}
		})
	}
}

// TestFencingFilesAsShown: one writer after the other.
func TestFencingFilesAsShown(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, fencingText(t, "publish"))
	a, b := meet(0)
	for i, w := range []writer{a, a, b, a, {b.token, a.run}, b} {
		published := p.start(w, 0)
		<-published.ended
		published.want(t, []int{0, 0, 0, 1, 1, 0}[i])
	}
	if got := manualRead(t, p.target); got != fmt.Sprintln(b.token) {
		t.Errorf("published %s", got)
	}
}
