package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-shellwords"
)

// What a crontab line runs, and what the job is called: the same on every host, or the line is refused.

const longestName = 200 // bytes

// runners run other programs, so that their name says nothing about the job.
var runners = strings.Fields(`ash bash busybox bundle chroot chronic chrt csh dash deno doas docker env fish flock
	ionice java kubectl ksh make nice node nodejs nohup npm npx nsenter onceonly perl php podman python ruby
	runuser setpriv setsid sh ssh stdbuf strace su sudo systemd-cat systemd-run taskset tcsh time timeout uv unshare
	xargs zsh`)

// checkName is the rule for the names of jobs, hosts and namespaces.
func checkName(s string) error {
	if s == "" || len(s) > longestName || s[0] == '-' || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &usageError{msg: `a name is 1 to 200 bytes of printable UTF-8 and does not begin with "-"`}
	}
	return nil
}

// A command is what follows the options, and the name that it gives the job.
type command struct {
	argv    []string
	job     string
	derived bool // the name comes from the command, so the arguments must agree
}

// parseCommand reads the command. A single word that holds blanks is split as a shell would, without a shell, unless it
// stood behind "--" or is a file.
func parseCommand(args []string, dashed bool, name string, isFile func(string) bool) (*command, error) {
	if len(args) == 1 && !dashed && strings.ContainsAny(args[0], " \t\n") && !isFile(args[0]) {
		words, err := splitWords(args[0])
		if err != nil {
			return nil, err
		}
		args = words
	}
	if len(args) == 0 || args[0] == "" {
		return nil, usage("no command", "onceonly run [options] -- command")
	}
	c := &command{argv: args, job: name}
	if name != "" {
		return c, nil
	}
	c.job, c.derived = filepath.Base(args[0]), true
	if runsOthers(c.job) {
		return nil, usage(fmt.Sprintf("%q"+namesNothing, c.job),
			"onceonly run --job NAME -- "+quoteWords(args))
	}
	if err := checkName(c.job); err != nil {
		return nil, usage(fmt.Sprintf("%q cannot name the job: %v", c.job, err),
			"onceonly run --job NAME -- "+quoteWords(args))
	}
	return c, nil
}

const namesNothing = " runs other programs, so it cannot name the job"

// runsOthers also knows a runner by its version: python3.11, php8.2.
func runsOthers(name string) bool {
	return slices.Contains(runners, name) || slices.Contains(runners, strings.TrimRight(name, "0123456789.-"))
}

// splitWords splits with go-shellwords, which stops without a word at an operator of the shell: what follows it would be
// lost, so it is refused, and so is what only looks as if it would be run.
func splitWords(s string) ([]string, error) {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return nil, usage("the command is not valid UTF-8 text", "onceonly run [options] -- command argument...")
	}
	if word, at := substitution(s); at >= 0 {
		return nil, needsShell(s, word, at)
	}
	p := shellwords.NewParser()
	p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
	words, err := p.Parse(s)
	if err != nil {
		return nil, usage(fmt.Sprintf("%q: unbalanced quote, or a backslash at the end", s),
			"onceonly run [options] -- command argument...")
	}
	if at := p.Position; at >= 0 {
		runes := []rune(s)
		for unicode.IsDigit(runes[at]) && at+1 < len(runes) { // 2>file: the parser names the descriptor
			at++
		}
		return nil, needsShell(s, string(runes[at]), at)
	}
	return words, nil
}

// substitution finds the first backtick, bracket, "$(" or line's end that a shell would act upon, as a character's index.
func substitution(s string) (string, int) {
	single, double, r := false, false, []rune(s)
	for i := 0; i < len(r); i++ {
		switch {
		case r[i] == '\\' && !single:
			i++
		case r[i] == '\'' && !double:
			single = !single
		case r[i] == '"' && !single:
			double = !double
		case r[i] == '`' && !single:
			return "`", i
		case r[i] == '$' && !single && i+1 < len(r) && r[i+1] == '(':
			return "$(", i
		case (r[i] == '(' || r[i] == '\n') && !single && !double:
			return string(r[i]), i
		}
	}
	return "", -1
}

func needsShell(s, word string, at int) error {
	return usage(fmt.Sprintf("%q: %q at character %d needs a shell", s, word, at+1),
		"onceonly run --job NAME -- "+quoteWords([]string{"sh", "-c", s}))
}

// quoteWord writes a word so that a shell reads it back as it is.
func quoteWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("@%+=:,./-_", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteWords writes a command line; what does not go into one line is COMMAND.
func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if strings.ContainsFunc(w, unicode.IsControl) {
			return "COMMAND"
		}
		quoted[i] = quoteWord(w)
	}
	return strings.Join(quoted, " ")
}

// hashWords tells two command lines apart; where a word ends counts.
func hashWords(words []string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d:%s", len(w), w)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// lineHash names the whole command line; one host has one line a name.
func (c *command) lineHash() string { return hashWords(c.argv) }

// argsHash names the arguments where the name comes from the command: hosts may differ in its path, not in them.
func (c *command) argsHash() string {
	if !c.derived {
		return ""
	}
	return hashWords(c.argv[1:])
}

// expand fills in what a command is told, for those whose environment does not reach it (sudo).
func (c *command) expand(values map[string]string) []string {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	argv := slices.Clone(c.argv)
	for i := range argv[1:] {
		argv[i+1] = r.Replace(argv[i+1])
	}
	return argv
}
