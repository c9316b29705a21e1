package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestManualFaults wants a test for each row of WHAT HAPPENS WHEN, that names it, and a row for each name.
func TestManualFaults(t *testing.T) {
	var rows, tests []string
	for _, m := range regexp.MustCompile(`(?m)^\.It (.*)$`).FindAllStringSubmatch(manualSection(t, "WHAT HAPPENS WHEN"), -1) {
		rows = append(rows, m[1])
	}
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, m := range regexp.MustCompile(`(?m)^// Manual: (.*)\nfunc Test`).FindAllStringSubmatch(manualRead(t, name), -1) {
			tests = append(tests, m[1])
		}
	}
	slices.Sort(rows)
	slices.Sort(tests)
	if tests = slices.Compact(tests); len(rows) < 7 || !slices.Equal(rows, tests) {
		t.Errorf("the manual has %q\ntests have   %q", rows, tests)
	}
}
