package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// Hosts whose clocks are not the machine's. The test binary itself is what runs on such a host: with
// ONCEONLY_TEST_CLOCK it is onceonly, handed that clock, and so it can be killed like a host; the binary that people
// get has no such input. Called as test-effect it is the command of a fleet.

const testClock = "ONCEONLY_TEST_CLOCK" // "REAL SHOWN FACTOR": shows SHOWN at REAL (both ns), and goes so many times faster

func init() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "test-effect":
		os.Exit(fleetEffect(os.Args[2], os.Args[3]))
	case os.Getenv(testClock) != "":
		os.Exit(clocked(os.Args))
	}
}

// clocked is `onceonly run` with another clock.
func clocked(args []string) int {
	var real, shown, factor int64
	if _, err := fmt.Sscan(os.Getenv(testClock), &real, &shown, &factor); err != nil {
		return fatal(err)
	}
	os.Unsetenv(testClock)
	wall := func() time.Time { return time.Unix(0, shown+(time.Now().UnixNano()-real)*factor) }
	v := &voice{w: os.Stderr}
	run := func(c *cli.Context, s *settings) error {
		words := c.Args().Slice()
		call, err := newCall(words, dashed(args, len(words)), s, wall)
		if err != nil {
			return err
		}
		v.verbose = s.verbose
		if e := call.execute(v); e != nil {
			return e
		}
		return nil
	}
	err := (&cli.App{Commands: []*cli.Command{newCommand("run", "", runOptions, run)},
		ExitErrHandler: func(*cli.Context, error) {}}).Run(args)
	var e *exit
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &e):
		return fatal(err)
	}
	v.leave(e)
	return e.status
}

// commandAt is onceonly on that host at another time, not yet started. More than an hour from now the host is refused.
func (h *host) commandAt(at time.Time, args ...string) *exec.Cmd {
	return h.commandClock(fmt.Sprint(time.Now().UnixNano(), at.UnixNano(), 1), args...)
}

func (h *host) commandClock(clock string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(slices.Clone(h.env), testClock+"="+clock)
	return cmd
}

// runAt runs onceonly on that host at another time.
func (h *host) runAt(at time.Time, args ...string) result {
	h.t.Helper()
	var out, err strings.Builder
	cmd := h.commandAt(at, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	return result{exitStatus(h.t, cmd.Run()), out.String(), err.String()}
}
