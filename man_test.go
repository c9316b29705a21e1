package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-shellwords"
)

// The manual and the help are compared with the program: what one of them says, the other has.

const manualFile = "man/onceonly.1"

// TestManualLint is mandoc's own judgement. The rest reads what mandoc renders.
func TestManualLint(t *testing.T) {
	if out, found := mandoc(t, "-T", "lint", "-W", "warning", manualFile); !found {
		t.Skip("no mandoc here")
	} else if out != "" {
		t.Error(out)
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

var itemOption = regexp.MustCompile(`(?m)^\.It (?:Fl (\w) , )?Fl (-[a-z-]+|n)\b`)

// TestManualOptions wants every option in the manual and in the help, with its alias, and no other.
func TestManualOptions(t *testing.T) {
	inManual := map[string]string{} // name -> alias
	for _, m := range itemOption.FindAllStringSubmatch(manualSection(t, "OPTIONS"), -1) {
		inManual[strings.TrimPrefix(m[2], "-")] = m[1]
	}
	known := map[string]bool{"help": true, "version": true} // urfave/cli's
	for _, o := range slices.Concat(runOptions, statusOptions, stopOptions) {
		if o.bare {
			continue
		}
		known[o.name] = true
		if alias, ok := inManual[o.name]; !ok || alias != o.alias {
			t.Errorf("%s of the manual lacks --%s (alias %q): it has %v, alias %q", "OPTIONS", o.name, o.alias, ok, alias)
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
	helpKnows(t, known, "man/help.txt", "man/run.txt", "man/status.txt", "man/stop.txt")
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
			t.Errorf("%s and help.txt lack --%s (alias %q)", name, o.name, o.alias)
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
				t.Errorf("%s:%d: longer than 80 columns, a tab, or a blank at the end: %q", name, i+1, line)
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

// TestManualCrontab wants the binary to accept every crontab line of EXAMPLES and of the help, and to find nothing against
// running it.
func TestManualCrontab(t *testing.T) {
	cron := regexp.MustCompile(`(?m)^ *((?:[0-9*/,-]+ +){5})(.*)$`)
	h := newHost(t, "web-1")
	shown := cron.FindAllStringSubmatch(manualLiteral(manualSection(t, "EXAMPLES"))+manualRead(t, "man/help.txt"), -1)
	if len(shown) < 10 {
		t.Errorf("only %d crontab lines found", len(shown))
	}
	for i, m := range shown {
		fields, line := oneSpaced(m[1]), m[2]
		if _, err := parseSchedule(fields); err != nil {
			t.Errorf("%q: %v", m[0], err)
		}
		if strings.Contains(strings.ReplaceAll(line, `\%`, ""), "%") {
			t.Errorf("%q: cron ends the command at %%", m[0])
		}
		_, line, found := strings.Cut(" "+line, " onceonly run ")
		words, err := shellwords.Parse(line)
		if !found || err != nil {
			t.Errorf("%q: no onceonly run, or %v", m[0], err)
			continue
		}
		if at := slices.Index(words, "--schedule"); at >= 0 && words[at+1] != fields {
			t.Errorf("%q: --schedule says otherwise than the line", m[0])
		}
		namespace := fmt.Sprintf("%s.%d", namespaceOf(t), i)
		r := h.run(slices.Concat([]string{"explain", "--namespace", namespace}, words)...)
		if r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, ": would run, attempt 1 of ") {
			t.Errorf("%q: %v", m[0], r)
		}
	}
}

// manualLiteral is source of the manual as a reader sees it, where that is text to be typed.
func manualLiteral(source string) string {
	return strings.NewReplacer(`\(aq`, "'", `\(dq`, `"`, `\(ti`, "~", `\(ha`, "^", `\e`, `\`, `\&`, "").Replace(source)
}

// TestManualScripts wants sh to read the scripts of EXAMPLES.
func TestManualScripts(t *testing.T) {
	scripts := regexp.MustCompile(`(?ms)^#!/bin/sh\n.*?^\.Ed$`).FindAllString(manualLiteral(manualSection(t, "EXAMPLES")), -1)
	if len(scripts) == 0 {
		t.Error("no scripts found")
	}
	for _, s := range scripts {
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(strings.TrimSuffix(s, ".Ed"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, s)
		}
	}
}

// TestManualConfig wants the program to read the file that FILES shows, and its zone to decide.
func TestManualConfig(t *testing.T) {
	_, text, found := strings.Cut(manualSection(t, "FILES"), ".Bd -literal -offset indent\n")
	text, _, _ = strings.Cut(text, ".Ed\n")
	name := filepath.Join(t.TempDir(), "onceonly.conf")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil || !found {
		t.Fatal(err, found)
	}
	r := newHost(t, "web-1", "ONCEONLY_CONFIG="+name).run("explain", "--", "invoice")
	if r.status != 0 || !strings.Contains(r.stdout, "Asia/Seoul, from "+name) {
		t.Errorf("with the manual's file: %v", r)
	}
}

// manualRights are the words of the ACL rule in REDIS.
func manualRights(t *testing.T) []string {
	t.Helper()
	rule := regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(manualLiteral(manualSection(t, "REDIS")))
	if rule == "" {
		t.Fatal("REDIS has no line ACL SETUSER")
	}
	return strings.Fields(rule)
}

// TestManualRights gives a user of a Redis the rights in REDIS, and no others. Whatever onceonly does goes well, and the
// server's own log of refusals stays empty: also of those that onceonly could do without.
func TestManualRights(t *testing.T) {
	r := newRedis(t)
	var rule []any
	for _, word := range manualRights(t) {
		rule = append(rule, word)
	}
	if err := r.rdb.Do(context.Background(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(r.url(), "//", "//cron:PASSWORD@", 1)
	h := newHost(t, "web-1", "ONCEONLY_REDIS="+url, "ONCEONLY_NAMESPACE=onceonly")
	manualUse(t, h)
	refused, err := r.rdb.Do(context.Background(), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("refused: %v %v", refused, err)
	}
	if n := r.rdb.SCard(context.Background(), "onceonly:jobs").Val(); n < 5 {
		t.Errorf("%d jobs in the list", n)
	}
}

// manualUse does everything once for which onceonly asks Redis.
func manualUse(t *testing.T, h *host) {
	minute := func(ago int) string {
		return time.Now().UTC().Add(-time.Duration(ago) * time.Minute).Format("2006-01-02T15:04")
	}
	const every = "* * * * *"
	do := func(status int, words ...string) {
		t.Helper()
		if r := h.run(words...); r.status != status {
			t.Errorf("onceonly %q: %v, want status %d", words, r, status)
		}
	}
	do(0, "run", "--", "true")
	do(0, "explain", "--job", "other", "--", "true")
	do(1, "explain", "--", "true")
	do(3, "run", "--job", "retried", "--attempts", "2", "--retry-delay", "10ms", "--", "sh", "-c", "exit 3")
	do(75, "run", "--job", "retried", "--attempts", "2", "--", "sh", "-c", "exit 3")
	do(0, "run", "--job", "retried", "--date", "today", "--rerun", "--reason", "test", "--", "true")
	do(127, "run", "--job", "absent", "--", "/nonexistent")
	for _, catchUp := range []string{"each", "merge"} {
		do(0, "run", "--job", catchUp, "--schedule", every, "--date", minute(5), "--", "true")
		do(0, "run", "--job", catchUp, "--schedule", every, "--catch-up", catchUp, "--", "true")
	}
	do(78, "run", "--job", "each", "--", "true") // one shape at a time
	for ago := 30; ago > 15; ago-- {
		do(0, "run", "--job", "trimmed", "--every", "1m", "--keep", "10", "--date", minute(ago), "--", "true")
	}
	held := h.command("run", "--job", "waited", "--every", "1m", "--lease", "5s", "--date", minute(3), "--", "sleep", "1.5")
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is held", func() bool {
		return h.run("explain", "--job", "waited", "--every", "1m", "--", "sleep", "1.5").status == 1
	})
	do(0, "run", "--job", "waited", "--every", "1m", "--overlap", "skip", "--", "sleep", "1.5")
	do(0, "run", "--job", "waited", "--every", "1m", "--date", minute(2), "--overlap", "wait", "--wait-max", "1m", "--",
		"true")
	if err := held.Wait(); err != nil {
		t.Error(err)
	}
	do(0, "status")
	do(0, "status", "retried")
	do(0, "status", "retried", "--json")
}

// TestManualRightsAreUsed wants each right of the rule in use, and each command in the rule: those that a script calls,
// redislock's too, and those that the program sends itself.
func TestManualRightsAreUsed(t *testing.T) {
	used := map[string]bool{}
	scripts, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bsm/redislock").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"obtain", "refresh", "release"} {
		scripts = append(scripts, filepath.Join(strings.TrimSpace(string(out)), name+".lua"))
	}
	for _, name := range scripts {
		for _, m := range regexp.MustCompile(`redis\.p?call(?:\(|, )['"](\w+)['"]`).FindAllStringSubmatch(manualRead(t, name), -1) {
			used["+"+strings.ToLower(m[1])] = true
		}
	}
	for _, sent := range []string{"+eval", "+sadd", "+smembers", "+subscribe"} {
		used[sent] = true
	}
	rights := slices.DeleteFunc(manualRights(t), func(w string) bool { return w[0] != '+' })
	if want := slices.Sorted(maps.Keys(used)); !slices.Equal(slices.Sorted(slices.Values(rights)), want) {
		t.Errorf("the rule allows %q\nused are        %q", slices.Sorted(slices.Values(rights)), want)
	}
}

// TestManualMessages wants every message among the DIAGNOSTICS: the words of each string that can become part of one, in
// their order, in one paragraph.
func TestManualMessages(t *testing.T) {
	_, text, _ := strings.Cut(strings.Join(manual(t), "\n"), "\nDIAGNOSTICS")
	text, _, _ = strings.Cut(text, "\nCRON NOTES")
	shown := strings.Split(text, "\n")
	messages := collectMessages(t)
	if len(messages) < 100 {
		t.Errorf("only %d strings of messages found: %q", len(messages), messages)
	}
	for _, m := range messages {
		if !slices.Contains(neverSaid, m) && !slices.ContainsFunc(shown, func(p string) bool { return inOrder(p, m) }) {
			t.Errorf("the manual's DIAGNOSTICS lack %q", m)
		}
	}
}

// examples are words of the DIAGNOSTICS that stand for what a message holds, or are one-word messages.
var examples = strings.Fields("attempt clock days denied done empty hour interrupted minute permission php reboot skip stop wait")

// TestManualSaysNoMore wants every message of the DIAGNOSTICS to be made of words that the program has.
func TestManualSaysNoMore(t *testing.T) {
	messages := collectMessages(t)
	items := regexp.MustCompile(`(?m)^\.It (.*)$`).FindAllStringSubmatch(manualLiteral(manualSection(t, "DIAGNOSTICS")), -1)
	if len(items) < 80 {
		t.Errorf("only %d messages found", len(items))
	}
	option := regexp.MustCompile(`^--[a-z-]+ "|\bevery day\b`)
	for _, m := range items {
		item := option.ReplaceAllString(m[1], "")
		said := []byte(item)
		for _, message := range messages {
			if inOrder(item, message) {
				blot(said, item, message)
			}
		}
		for _, word := range regexp.MustCompile(`\b[a-z]{3,}\b`).FindAllString(string(said), -1) {
			if !slices.Contains(examples, word) {
				t.Errorf("the manual has %q; %q is in no message of the program", m[1], word)
			}
		}
	}
}

// blot makes blanks of what the message says in the text.
func blot(said []byte, text, message string) {
	at := 0
	for _, words := range fixedWords(message) {
		words = oneSpaced(words)
		from := at + strings.Index(text[at:], words)
		at = from + len(words)
		copy(said[from:at], strings.Repeat(" ", len(words)))
	}
}

// neverSaid are words of errors that nobody is told.
var neverSaid = []string{
	"%q is not a slot of a job that runs %s", // of an entry that another line has left: it is passed over
}

var verb = regexp.MustCompile(`%(\[\d\])?[a-zA-Z]`)

// fixedWords are the parts of a format that are always printed and say something. A single word is no message: it is
// the name of an option, a key, a month.
func fixedWords(format string) []string {
	if !strings.Contains(format, " ") {
		return nil
	}
	return slices.DeleteFunc(verb.Split(format, -1), func(s string) bool {
		return !regexp.MustCompile(`[a-zA-Z]{2}`).MatchString(s)
	})
}

func inOrder(text, format string) bool {
	for _, words := range fixedWords(format) {
		_, after, found := strings.Cut(text, oneSpaced(words))
		if !found {
			return false
		}
		text = after
	}
	return true
}

// A messageFinder collects the strings that can become part of a message. It goes by names, not by types: from the calls and
// the literals that make a message back to what stands in them, through local variables, parameters, and the results of
// the program's functions. That finds a few strings too many, and misses none for a type that it cannot see.
type messageFinder struct {
	functions map[string][]*ast.FuncDecl
	values    map[string]ast.Expr // of the package
	calls     map[string][]callIn
	found     map[string]bool
	followed  map[any]bool
}

// A callIn is a call, and the function that it stands in.
type callIn struct {
	*ast.CallExpr
	in *ast.FuncDecl
}

func collectMessages(t *testing.T) []string {
	m := &messageFinder{map[string][]*ast.FuncDecl{}, map[string]ast.Expr{}, map[string][]callIn{}, map[string]bool{}, map[any]bool{}}
	for _, f := range programFiles(t) {
		for _, d := range f.Decls {
			m.declare(d)
		}
	}
	for _, functions := range m.functions {
		for _, f := range functions {
			ast.Inspect(f, func(n ast.Node) bool { return m.source(n, f) })
		}
	}
	for _, v := range m.values {
		ast.Inspect(v, func(n ast.Node) bool { return m.source(n, nil) })
	}
	return slices.Sorted(maps.Keys(m.found))
}

// declare notes a declaration of the package, and the calls in it.
func (m *messageFinder) declare(d ast.Decl) {
	f, _ := d.(*ast.FuncDecl)
	if f != nil {
		m.functions[f.Name.Name] = append(m.functions[f.Name.Name], f)
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			m.calls[called(n)] = append(m.calls[called(n)], callIn{n, f})
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if f == nil && i < len(n.Values) {
					m.values[name.Name] = n.Values[i]
				}
			}
		}
		return true
	})
}

// called is the name of what is called, without its package or receiver.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// source follows what makes a message: what is said, an error, an exit, a usage error.
func (m *messageFinder) source(n ast.Node, in *ast.FuncDecl) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if slices.Contains([]string{"say", "normally", "hint", "usage", "New", "Errorf"}, called(n)) {
			m.follow(in, n.Args...)
		}
	case *ast.CompositeLit:
		if id, ok := n.Type.(*ast.Ident); ok && (id.Name == "exit" || id.Name == "usageError") {
			m.follow(in, n.Elts...)
		}
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && (s.Sel.Name == "msg" || s.Sel.Name == "hint") {
				m.follow(in, n.Rhs...)
			}
		}
	}
	return true
}

// notSaid are functions of whose arguments nothing but the first becomes part of a text.
var notSaid = []string{"TrimPrefix", "TrimSuffix", "TrimRight", "Cut", "ReplaceAll", "HasPrefix", "Getenv", "Format", "As"}

// follow goes through expressions that become part of a message.
func (m *messageFinder) follow(in *ast.FuncDecl, expressions ...ast.Expr) {
	for _, e := range expressions {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(fixedWords(s)) > 0 {
					m.found[s] = true
				}
			case *ast.CallExpr:
				if slices.Contains(notSaid, called(n)) {
					return false
				}
				m.results(called(n))
			case *ast.Ident:
				m.variable(n.Name, in)
			case *ast.SelectorExpr:
				_, field := n.X.(*ast.Ident) // what stands in a field was followed where it was put there
				return !field
			case *ast.KeyValueExpr:
				m.follow(in, n.Value)
				return false
			case *ast.IndexExpr:
				m.follow(in, n.X)
				return false
			case *ast.FuncLit:
				return false
			}
			return true
		})
	}
}

// once says whether this has not been followed yet.
func (m *messageFinder) once(what any) bool {
	before := m.followed[what]
	m.followed[what] = true
	return !before
}

// results follows what the program's functions of that name return.
func (m *messageFinder) results(name string) {
	for _, f := range m.functions[name] {
		if !m.once(f) {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				m.follow(f, r.Results...)
			}
			return true
		})
	}
}

// variable follows what is assigned to a name: in its function, by its callers, or in the package.
func (m *messageFinder) variable(name string, in *ast.FuncDecl) {
	if in == nil || !m.once([2]any{in, name}) {
		return
	}
	if v, ok := m.values[name]; ok {
		m.follow(nil, v)
	}
	ast.Inspect(in.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			m.assigned(name, in, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if id.Name == name && i < len(n.Values) {
					m.follow(in, n.Values[i])
				}
			}
		case *ast.RangeStmt:
			m.assigned(name, in, []ast.Expr{n.Key, n.Value}, []ast.Expr{n.X})
		}
		return true
	})
	at := 0
	for _, p := range in.Type.Params.List {
		for _, id := range p.Names {
			if id.Name == name {
				m.argument(in.Name.Name, at)
			}
			at++
		}
	}
}

func (m *messageFinder) assigned(name string, in *ast.FuncDecl, left, right []ast.Expr) {
	for i, l := range left {
		if id, ok := l.(*ast.Ident); ok && id != nil && id.Name == name {
			m.follow(in, right[min(i, len(right)-1)])
		}
	}
}

// argument follows what callers give.
func (m *messageFinder) argument(function string, at int) {
	for _, c := range m.calls[function] {
		if at < len(c.Args) {
			m.follow(c.in, c.Args[at])
		}
	}
}
