//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Building onceonly: as it is, with one guard taken out, and of an earlier version.

// repository is the directory that holds the module.
func repository() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("not within the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildFrom builds the product from a tree.
func buildFrom(tree, program string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-tags=urfave_cli_no_docs,urfave_cli_no_suggest", "-o", program, ".")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// copyTree copies what the product is built of.
func copyTree(from, to string) error {
	for _, pattern := range []string{"*.go", "go.mod", "go.sum", "man/*", "scripts/*.*"} {
		names, _ := filepath.Glob(filepath.Join(from, pattern))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			rest, _ := filepath.Rel(from, name)
			target := filepath.Join(to, rest)
			text, err := os.ReadFile(name)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(target), 0o777)
			}
			if err == nil {
				err = os.WriteFile(target, text, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// An edit replaces a text that must be there exactly once.
type edit struct{ file, old, new string }

func (e edit) apply(tree string) error {
	name := filepath.Join(tree, e.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), e.old); n != 1 {
		return fmt.Errorf("%s: %q is there %d times, and must be there once", e.file, e.old, n)
	}
	return os.WriteFile(name, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o644)
}

// buildEdited builds the product with some edits.
func buildEdited(root, dir, name string, edits []edit) (string, error) {
	tree, program := filepath.Join(dir, "tree-"+name), filepath.Join(dir, "onceonly-"+name)
	defer os.RemoveAll(tree)
	if err := copyTree(root, tree); err != nil {
		return "", err
	}
	for _, e := range edits {
		if err := e.apply(tree); err != nil {
			return "", fmt.Errorf("control %q: %w", name, err)
		}
	}
	if err := buildFrom(tree, program); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return program, nil
}

// buildOld builds the version before this one, and says which that is: the newest commit whose product differs. Where
// there is no history, it is the same source with another version text.
func buildOld(root, dir string) (program, what string, err error) {
	if commit := oldCommit(root); commit != "" {
		tree := filepath.Join(dir, "tree-old")
		defer os.RemoveAll(tree)
		if os.MkdirAll(tree, 0o777) == nil {
			program = filepath.Join(dir, "onceonly-old")
			unpack := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", root, commit, tree)
			if unpack.Run() == nil && buildFrom(tree, program) == nil {
				return program, "commit " + commit, nil
			}
		}
	}
	program, err = buildEdited(root, dir, "old", []edit{{"main.go", `var version = "`, `var version = "old-`}})
	return program, "the same source with another version text", err
}

// oldCommit is $TORTURE_OLD, or the parent of the commit that last changed the product.
func oldCommit(root string) string {
	if commit := os.Getenv("TORTURE_OLD"); commit != "" {
		return commit
	}
	out, err := exec.Command("git", "-C", root, "log", "-n", "1", "--format=%h %p", "--", "*.lua", ":(glob)*.go",
		":(exclude,glob)*_test.go", ":(exclude)scripts/torture").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		return ""
	}
	return words[1]
}

// commit is what the report calls this version.
func commit(root string) string {
	out, err := exec.Command("git", "-C", root, "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
