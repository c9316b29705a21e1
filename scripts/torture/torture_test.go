//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	if status, ok := played(os.Args); ok {
		os.Exit(status)
	}
	if status, ok := inOwnWorld(); ok {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// TestShortRound has every nemesis once, and two controls. TORTURE_SEED repeats another round.
func TestShortRound(t *testing.T) {
	if raceEnabled {
		t.Skip("its processes would be too slow")
	}
	logging.Disable()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	seed := "short"
	if s := os.Getenv("TORTURE_SEED"); s != "" {
		seed = s
	}
	r, err := run(ctx, options{seed: seed, brief: true, controls: true, verbose: testing.Verbose()})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r.print(&text)
	if r.wrong() {
		t.Error(text.String())
	} else {
		t.Log(text.String())
	}
}
