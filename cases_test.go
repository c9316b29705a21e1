package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testdata/cases.txt names, for each situation from real users, the tests that hold it; each of these says so above itself.
func TestCasesTable(t *testing.T) {
	told := labelledTests(t)
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	number := ""
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "SH-"):
			if number = fields[0]; table[number] != nil || len(fields) < 2 {
				t.Errorf("%s: twice, or without a title", number)
			}
			table[number] = []string{}
		default:
			table[number] = append(table[number], fields...)
		}
	}
	for n := range 68 {
		number := fmt.Sprintf("SH-%02d", n+1)
		slices.Sort(table[number])
		if slices.Sort(told[number]); len(told[number]) == 0 || !slices.Equal(table[number], told[number]) {
			t.Errorf("%s: the table has %q, the tests that name it are %q", number, table[number], told[number])
		}
		delete(table, number)
	}
	if len(table) > 0 {
		t.Errorf("no such situations: %v", table)
	}
}

// labelledTests are the tests that name a situation above themselves, by its number.
func labelledTests(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests", err)
	}
	told, label := map[string][]string{}, regexp.MustCompile(`SH-\d\d`)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, number := range slices.Compact(slices.Sorted(slices.Values(label.FindAllString(f.Doc.Text(), -1)))) {
				told[number] = append(told[number], f.Name.Name)
			}
		}
	}
	return told
}
