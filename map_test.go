package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The package comment of main.go is a map of the files: each is named there, by itself, by its family (doctor*.go) or behind
// the file that it belongs to, and what is named is there.
func TestMapOfFiles(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(text), "\npackage main")
	patterns := regexp.MustCompile(`\w+\*?\.go`).FindAllString(comment, -1)
	for _, list := range regexp.MustCompile(`\(([a-z]+(?:, [a-z]+)*)\)`).FindAllStringSubmatch(comment, -1) {
		for name := range strings.SplitSeq(list[1], ", ") { // (schedule, period, wall, date)
			patterns = append(patterns, name+".go")
		}
	}
	var files []string
	all, _ := filepath.Glob("*.go")
	for _, name := range all {
		if !strings.HasSuffix(name, "_test.go") && name != "main.go" {
			files = append(files, name)
		}
	}
	named := func(pattern, name string) bool { ok, _ := filepath.Match(pattern, name); return ok }
	for _, name := range files {
		if !slices.ContainsFunc(patterns, func(p string) bool { return named(p, name) }) {
			t.Errorf("main.go, package comment: does not name %s", name)
		}
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(files, func(name string) bool { return named(p, name) }) {
			t.Errorf("main.go, package comment: there is no %s", p)
		}
	}
}
