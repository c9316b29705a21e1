package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo checks itself: it ends with 0 only if all happens that it says. It is run with the Redis inside it and with
// a real one, and leaves nothing behind: no file, no key.
func TestDemo(t *testing.T) {
	t.Parallel()
	demo := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", demo, "./scripts/demo").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for name, env := range map[string]string{"embedded": "", "server": shared.url()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := runDemo(t, demo, binary, env); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if keys := shared.rdb.Keys(context.Background(), "demo-*").Val(); env != "" && len(keys) > 0 {
				t.Errorf("left in Redis: %q", keys)
			}
		})
	}
	t.Run("nobody reads on", func(t *testing.T) { // demo | head -4
		t.Parallel()
		dir := t.TempDir()
		cmd := exec.Command("sh", "-c", `"$0" "$1" | head -n 4`, demo, binary)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "ONCEONLY_REDIS=")
		out, err := cmd.CombinedOutput()
		if left, _ := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v, left in the temporary folder: %v\n%s", err, left, out)
		}
	})
	t.Run("untrue", func(t *testing.T) { // an onceonly that does nothing, and says so to nobody
		t.Parallel()
		lazy := filepath.Join(t.TempDir(), "lazy")
		writeProgram(t, lazy, "#!/bin/sh\n")
		out, err := runDemo(t, demo, lazy, "")
		if err == nil || !strings.Contains(out, "0 hosts ran the command, want 1") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// runDemo runs the demo in a temporary folder of its own, and wants that empty afterwards.
func runDemo(t *testing.T, demo, onceonly, redis string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(demo, onceonly)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "ONCEONLY_REDIS="+redis)
	out, err := cmd.CombinedOutput()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left in the temporary folder: %v", left)
	}
	return string(out), err
}
