package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMessagesAreTested wants a test that has the words of each message of the program, in their order, among its
// strings, or in its script: a message is held against its text.
func TestMessagesAreTested(t *testing.T) {
	shown := testTexts(t)
	for _, m := range collectMessages(t) {
		if !slices.Contains(neverSaid, m) && !slices.ContainsFunc(shown, func(text string) bool { return inOrder(text, m) }) {
			t.Errorf("no test has the message %q: it belongs, word by word, into case_messages_test.go", m)
		}
	}
}

// testTexts are the strings of the tests, but for those that only look at the manual or at the source, and the scripts.
func testTexts(t *testing.T) (texts []string) {
	t.Helper()
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "man_") || name == "messages_test.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls { // a text may be put together of several strings
			var words []string
			ast.Inspect(d, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					words = append(words, plain(s))
				}
				return true
			})
			texts = append(texts, strings.Join(words, " "))
		}
	}
	scripts, _ := filepath.Glob("testdata/*/*.txtar")
	for _, name := range scripts {
		texts = append(texts, plain(manualRead(t, name)))
	}
	return texts
}

// plain is a pattern as the text that it stands for.
func plain(pattern string) string {
	return oneSpaced(strings.NewReplacer(`\(`, "(", `\)`, ")", `\|`, "|", `\.`, ".", `\*`, "*", `\?`, "?", `\[`, "[", `\]`, "]").Replace(pattern))
}
