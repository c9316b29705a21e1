package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Options, variables and exit statuses: the manual and the help have those of the program, and no others.

var itemOption = regexp.MustCompile(`(?m)^\.It (?:Fl (\w) , )?Fl (-[a-z-]+|n)\b`)

// TestManualOptions wants every option in the manual and in the help, with its alias, and no other.
func TestManualOptions(t *testing.T) {
	inManual := map[string]string{} // name -> alias
	for _, m := range itemOption.FindAllStringSubmatch(manualSection(t, "OPTIONS"), -1) {
		inManual[strings.TrimPrefix(m[2], "-")] = m[1]
	}
	known := map[string]bool{"help": true, "version": true} // urfave/cli's
	for _, o := range slices.Concat(runOptions, statusOptions, stopOptions, pauseOptions, resolveOptions, waitOptions,
		checkOptions, doctorOptions) {
		if o.bare {
			continue
		}
		known[o.name] = true
		if alias, ok := inManual[o.name]; !ok || alias != o.alias {
			t.Errorf("man/onceonly.1, OPTIONS: wants an item .It Fl -%s with the alias %q; found %v, with %q", o.name, o.alias, ok, alias)
		}
	}
	for name := range inManual {
		if !known[name] {
			t.Errorf("the manual has the option --%s, the program does not", name)
		}
	}
	helpHas(t, "man/run.txt", runOptions)
	helpHas(t, "man/status.txt", statusOptions)
	helpHas(t, "man/stop.txt", stopOptions)
	helpHas(t, "man/doctor.txt", doctorOptions)
	helpHas(t, "man/pause.txt", pauseOptions)
	helpHas(t, "man/resume.txt", resumeOptions)
	helpHas(t, "man/resolve.txt", resolveOptions)
	helpHas(t, "man/wait.txt", waitOptions)
	helpHas(t, "man/check.txt", checkOptions)
	helpKnows(t, known, "man/help.txt", "man/run.txt", "man/status.txt", "man/stop.txt", "man/pause.txt",
		"man/resume.txt", "man/resolve.txt", "man/wait.txt", "man/check.txt", "man/doctor.txt", "man/completion.txt")
}

// helpHas wants each option in a help text, or in the general one.
func helpHas(t *testing.T, name string, options []*option) {
	t.Helper()
	text := manualRead(t, name) + manualRead(t, "man/help.txt")
	for _, o := range options {
		if o.bare {
			continue
		}
		want := "(?m)(^|[ ,])--" + o.name + "\\b"
		switch {
		case len(o.name) == 1:
			want = "(?m)^ +-" + o.name + " "
		case o.alias != "":
			want = "(?m)^ +-" + o.alias + ", --" + o.name + "\\b"
		}
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("neither %s nor man/help.txt has a line for --%s (alias %q)", name, o.name, o.alias)
		}
	}
}

// helpKnows wants the help texts to name no option that the program lacks, and to fit any terminal.
func helpKnows(t *testing.T, known map[string]bool, names ...string) {
	t.Helper()
	for _, name := range names {
		text := manualRead(t, name)
		for _, m := range regexp.MustCompile(`(?:^|[^a-z-])--([a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s has --%s, the program does not", name, m[1])
			}
		}
		for i, line := range strings.Split(text, "\n") {
			if len(line) > 80 || strings.Contains(line, "\t") || line != strings.TrimRight(line, " ") {
				t.Errorf("%s:%d: %d columns, at most 80; no tab, no blank at the end: %q", name, i+1, len(line), line)
			}
		}
	}
}

// TestManualVariables wants every variable that the program reads or sets, and no other of its own.
func TestManualVariables(t *testing.T) {
	known := map[string]bool{}
	for _, o := range inFile() {
		known[o.variable()] = true
	}
	for _, literal := range programStrings(t) {
		for _, name := range regexp.MustCompile(`ONCEONLY_[A-Z_]+`).FindAllString(literal, -1) {
			known[name] = true
		}
	}
	environment := manualSection(t, "ENVIRONMENT")
	for _, o := range inFile() {
		if !regexp.MustCompile(`\b` + o.variable() + `\b`).MatchString(environment) {
			t.Errorf("man/onceonly.1, ENVIRONMENT: lacks %s", o.variable())
		}
	}
	text := strings.Join(manual(t), "\n")
	shown := map[string]bool{}
	for _, name := range regexp.MustCompile(`ONCEONLY_[A-Z_]*[A-Z]`).FindAllString(text, -1) {
		shown[name] = true
	}
	for name := range known {
		if name = strings.TrimSuffix(name, "_"); name != "ONCEONLY" && !shown[name] {
			t.Errorf("the manual lacks %s", name)
		}
	}
	for name := range shown {
		if !known[name] {
			t.Errorf("the manual has %s, the program does not", name)
		}
	}
}

// TestManualExitStatus wants every exit status of exit.go, in the manual and in the help of run.
func TestManualExitStatus(t *testing.T) {
	inManual := manualSection(t, "EXIT STATUS")
	help := manualRead(t, "man/run.txt")
	constants := 0
	for _, d := range programFiles(t)["exit.go"].Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			name, value := s.(*ast.ValueSpec).Names[0].Name, s.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value
			if constants++; name == "exitSignal" {
				value += "+n"
			}
			if !regexp.MustCompile(`(?m)^\.It .*\b` + regexp.QuoteMeta(value)).MatchString(inManual) {
				t.Errorf("EXIT STATUS lacks %s (%s)", value, name)
			}
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value)).MatchString(help) {
				t.Errorf("run.txt lacks %s (%s)", value, name)
			}
		}
	}
	if constants < 10 {
		t.Errorf("only %d exit statuses found in exit.go", constants)
	}
}

// TestManualParameters wants every parameter of an address.
func TestManualParameters(t *testing.T) {
	text := manualSection(t, "REDIS")
	for scheme, names := range parameters {
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `= ?`).MatchString(text) {
				t.Errorf("REDIS lacks %s of %s://", name, scheme)
			}
		}
	}
}
