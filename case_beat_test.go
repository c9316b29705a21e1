//go:build !race

// They run the binary, which has no race detector in it.

package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a command does is seen by its signs of life: it writes a line every few milliseconds.

var _ = caseHelper("fault:beat", helpBeat)

// helpBeat LOG INTERVAL LIFE [deaf] writes a line at its start, every INTERVAL, at TERM, and at its end after LIFE. Deaf,
// it goes on after TERM.
func helpBeat(args []string) int {
	log, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	interval, err1 := time.ParseDuration(args[1])
	life, err2 := time.ParseDuration(args[2])
	if err != nil || err1 != nil || err2 != nil {
		return 99
	}
	say := func(word string) {
		fmt.Fprintf(log, "%d %s %s %s %s %d\n", int64(bootNow()), os.Getenv("ONCEONLY_HOST"), os.Getenv("ONCEONLY_ATTEMPT"),
			os.Getenv("ONCEONLY_FENCING_TOKEN"), word, unix.Getpgrp())
	}
	say("begin")
	term := make(chan os.Signal, 10)
	signal.Notify(term, unix.SIGTERM)
	for began := time.Now(); time.Since(began) < life; {
		select {
		case <-term:
			say("term")
			if len(args) < 4 {
				return 3
			}
		case <-time.After(interval):
			say("tick")
		}
	}
	say("end")
	return 0
}

// A beat is one sign of life.
type beat struct {
	at      boot
	host    string
	attempt int
	token   int64
	word    string
	group   int
}

func beatsOf(log string) (all []beat) {
	for _, l := range lines(log) {
		var b beat
		if n, _ := fmt.Sscan(l, &b.at, &b.host, &b.attempt, &b.token, &b.word, &b.group); n == 6 {
			all = append(all, b)
		}
	}
	return all
}

// beatsBy are those of one host.
func beatsBy(log, host string) []beat {
	return slices.DeleteFunc(beatsOf(log), func(b beat) bool { return b.host != host })
}

// beatWords are the signs of life without the ticks.
func beatWords(log string) (words []string) {
	for _, b := range beatsOf(log) {
		if b.word != "tick" {
			words = append(words, b.host+" "+b.word)
		}
	}
	return words
}

// wantWhole fails the test unless a command ran once, on web-1, to its end, and was never told to stop.
func wantWhole(t *testing.T, log string) {
	t.Helper()
	if got := beatWords(log); !slices.Equal(got, []string{"web-1 begin", "web-1 end"}) {
		t.Errorf("%q", got)
	}
}

// beating is the command.
func beating(t *testing.T, log, interval, life string, more ...string) []string {
	return append([]string{caseSelf(t), "fault:beat", log, interval, life}, more...)
}

func beats(log, host string) func() bool { return func() bool { return len(beatsBy(log, host)) > 0 } }

// handover is how long the successor began after the last sign of life of the one before; it is an error if that is
// negative.
func handover(t *testing.T, log, first, second string) time.Duration {
	t.Helper()
	a, b := beatsBy(log, first), beatsBy(log, second)
	if len(a) == 0 || len(b) == 0 {
		t.Fatalf("%d signs of life on %s, %d on %s", len(a), first, len(b), second)
	}
	if b[0].token <= a[0].token {
		t.Errorf("the successor's token is %d, after %d", b[0].token, a[0].token)
	}
	return time.Duration(b[0].at - a[len(a)-1].at)
}
