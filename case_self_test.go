package main

import (
	"os"
	"testing"
)

// Programs that the tests need as a command: the test binary itself is each of them.

// The tests' helper programs are the test binary itself: with such a first argument it does that, and no test.
var caseHelpers = map[string]func(args []string) int{}

func caseHelper(name string, f func(args []string) int) bool {
	caseHelpers[name] = f
	return true
}

func init() {
	if len(os.Args) > 1 && caseHelpers[os.Args[1]] != nil {
		os.Exit(caseHelpers[os.Args[1]](os.Args[2:]))
	}
}

func caseSelf(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}
