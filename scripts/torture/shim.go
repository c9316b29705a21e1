//go:build linux

package main

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A shim gives a redis-server a clock of its own: the machine's, and an offset that can be changed while it runs.

//go:embed shim/clock.c
var shimSource []byte

type shim struct{ library, offset string }

// newShim compiles it; without a compiler there is none.
func newShim(dir string) (*shim, error) {
	s := &shim{filepath.Join(dir, "shim.so"), filepath.Join(dir, "offset")}
	source := filepath.Join(dir, "shim.c")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		return nil, err
	}
	if err := s.set(0); err != nil {
		return nil, err
	}
	out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", s.library, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("gcc: %w %s", err, out)
	}
	return s, nil
}

// another has an offset of its own.
func (s *shim) another(dir string) (*shim, error) {
	a := &shim{s.library, filepath.Join(dir, "offset")}
	return a, a.set(0)
}

func (s *shim) environment() []string {
	return []string{"LD_PRELOAD=" + s.library, "TORTURE_OFFSET=" + s.offset}
}

// set moves the clock. The file is written in place: the servers have it mapped.
func (s *shim) set(d time.Duration) error {
	f, err := os.OpenFile(s.offset, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return binary.Write(f, binary.NativeEndian, d.Microseconds())
}
