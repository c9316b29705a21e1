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

// A comment says the thing itself: no number of a ruling or a section that stands elsewhere, and no document that is not here.
func TestCommentsSayItThemselves(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "scripts/*.lua", "scripts/*/*.go", "testdata/script/*.txtar", "testdata/cases.txt", "Makefile", "*.md"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	elsewhere := regexp.MustCompile(`\x{a7}|[^$]\((?:[A-Z]{5,}|R\d+)[,)]|[Rr]uling[s ]+\d|\b[A-Z]{4,}\.md\b`)
	for _, name := range files {
		for n, line := range strings.Split(manualRead(t, name), "\n") {
			for _, m := range elsewhere.FindAllString(line, -1) {
				if _, err := os.Stat(m); err != nil {
					t.Errorf("%s:%d: %s points at what is not in this repository: say the thing itself", name, n+1, m)
				}
			}
		}
	}
}
