package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The manual and the help are compared with the program: what one of them says, the other has. Here: how they are read.

const (
	manualFile  = "man/onceonly.1"
	fencingFile = "man/onceonly-fencing.7"
)

// TestManualLint is mandoc's own judgement. The rest reads what mandoc renders.
func TestManualLint(t *testing.T) {
	if out, found := mandoc(t, "-T", "lint", "-W", "warning", manualFile, fencingFile); !found {
		absent(t, "mandoc")
	} else if out != "" {
		t.Error(out)
	}
}

// TestManualSynopsis wants each command on a line of its own: mandoc sets it behind the one before where .Nm lacks.
func TestManualSynopsis(t *testing.T) {
	before := ""
	for line := range strings.Lines(manualSection(t, "SYNOPSIS")) {
		name, is := strings.CutPrefix(strings.TrimSpace(line), ".Cm ")
		if is && before != ".Nm" && strings.Contains(helpText, "\n  "+name+" ") {
			t.Errorf("%s stands behind %s", name, before)
		}
		before = strings.TrimSpace(line)
	}
}

// mandoc runs it. Where CI does not have it that is a failure.
func mandoc(t *testing.T, args ...string) (out string, found bool) {
	t.Helper()
	if _, err := exec.LookPath("mandoc"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs mandoc (scripts/setup installs it)")
		}
		return "", false
	}
	text, err := exec.Command("mandoc", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("mandoc %q: %v\n%s", args, err, text)
	}
	return string(text), true
}

// manual is the text, a paragraph each: as mandoc renders it, with nothing broken or struck over; without mandoc, the
// source without its macros.
func manual(t *testing.T) []string {
	t.Helper()
	if text, found := mandoc(t, "-T", "ascii", "-O", "width=1000", manualFile); found {
		return paragraphs(regexp.MustCompile(`.\x08`).ReplaceAllString(text, ""))
	}
	text := regexp.MustCompile(`(?m)^\.(It|Pp|Sh|Ss)`).ReplaceAllString(manualRead(t, manualFile), "\n$0")
	return paragraphs(manualLiteral(regexp.MustCompile(`(?m)^\.[A-Z]\w+( [A-Z][a-z]\b)*`).ReplaceAllString(text, "")))
}

func paragraphs(text string) []string {
	var all []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = oneSpaced(p); p != "" {
			all = append(all, p)
		}
	}
	return all
}

func oneSpaced(s string) string { return strings.Join(strings.Fields(s), " ") }

// manualSection is a part of the manual's source, from one .Sh to the next.
func manualSection(t *testing.T, name string) string {
	t.Helper()
	text := manualRead(t, manualFile)
	_, after, found := strings.Cut(text, "\n.Sh "+name+"\n")
	if !found {
		t.Fatalf("%s has no section %s", manualFile, name)
	}
	before, _, _ := strings.Cut(after, "\n.Sh ")
	return before
}

func manualRead(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manualLiteral is source of the manual as a reader sees it, where that is text to be typed.
func manualLiteral(source string) string {
	return strings.NewReplacer(`\(aq`, "'", `\(dq`, `"`, `\(ti`, "~", `\(ha`, "^", `\e`, `\`, `\&`, "").Replace(source)
}

// programFiles are the program's own, parsed.
func programFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// programStrings are all strings of the program.
func programStrings(t *testing.T) []string {
	var all []string
	for _, f := range programFiles(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				all = append(all, s)
			}
			return true
		})
	}
	return all
}
