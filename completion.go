package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// Completion of what is typed in a shell. The shells' scripts only ask: `onceonly complete WORDS`, the last of which is being
// typed, answers with a line that says of what kind the candidates are, and a line for each:
//
//	words       these
//	files       names of files; none follows
//	command N   WORDS from the N-th on are another command and its arguments; none follows

// completionWait is how long Redis is waited for: somebody has pressed a key.
const completionWait = 500 * time.Millisecond

//go:embed man/completion.txt
var completionText string

//go:embed scripts/complete.bash
var completeBash string

//go:embed scripts/complete.zsh
var completeZsh string

//go:embed scripts/complete.fish
var completeFish string

var shells = map[string]string{"bash": completeBash, "zsh": completeZsh, "fish": completeFish}

// completionCommand prints a shell's script. It reads no file and no variable: it is called at every login.
func completionCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{Name: "completion", CustomHelpTemplate: completionText, HideHelpCommand: true, OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			switch {
			case len(args) == 0:
				return usage("completion: no shell", "onceonly completion bash, zsh or fish")
			case len(args) > 1:
				return usage(fmt.Sprintf("completion: %q left over", args[1]), "")
			case shells[args[0]] == "":
				return usage(fmt.Sprintf("completion: %q is not bash, zsh or fish", args[0]), "")
			}
			return orNil(show(stdout, "completion", shells[args[0]]))
		}}
}

// A completer finds the candidates for the word that is being typed.
type completer struct {
	command *cli.Command
	options []*option
	given   map[string]string // options before the word
	words   int               // arguments before it that are no options
	dashed  bool              // after --
	cur     string
	kind    string
	found   []string
}

// complete answers a shell. Nothing is said about what is wrong: somebody is in the middle of a line.
func complete(commands []*cli.Command, words []string, stdout io.Writer) {
	if len(words) == 0 {
		return
	}
	c := &completer{given: map[string]string{}, cur: words[len(words)-1], kind: "words"}
	if before := words[:len(words)-1]; len(before) == 0 {
		for _, known := range commands {
			c.found = append(c.found, known.Name)
		}
		c.found = append(c.found, "--help", "--version")
	} else if at := slices.IndexFunc(commands, func(k *cli.Command) bool { return k.Name == before[0] }); at >= 0 {
		c.command, c.options = commands[at], optionsOf(before[0])
		c.walk(before)
	}
	var b strings.Builder
	b.WriteString(c.kind + "\n")
	for _, f := range c.found {
		if strings.HasPrefix(f, c.cur) {
			b.WriteString(f + "\n")
		}
	}
	io.WriteString(stdout, b.String())
}

func optionsOf(command string) []*option {
	if command == "run" || command == "explain" {
		return runOptions
	}
	return interspersed[command]
}

// walk goes over the words before the one that is being typed, and finds what that one can be.
func (c *completer) walk(before []string) {
	for i := 1; i < len(before); i++ {
		word := before[i]
		name, value, whole := strings.Cut(strings.TrimLeft(word, "-"), "=")
		o := c.option(name)
		switch {
		case c.dashed || word == "-" || word == "" || word[0] != '-':
			if c.wraps() {
				c.kind = fmt.Sprint("command ", i)
				return
			}
			c.words++
		case word == "--":
			c.dashed = true
		case o == nil || o.flag:
		case whole:
			c.given[o.name] = value
		case i == len(before)-1:
			c.value(o, "")
			return
		default:
			i++
			c.given[o.name] = before[i]
		}
	}
	c.word(len(before))
}

func (c *completer) option(name string) *option {
	for _, o := range c.options {
		if !o.bare && (o.name == name || o.alias == name) {
			return o
		}
	}
	return nil
}

// word finds what a word can be that is no option's value.
func (c *completer) word(at int) {
	name, _, whole := strings.Cut(strings.TrimLeft(c.cur, "-"), "=")
	switch o := c.option(name); {
	case !c.dashed && whole && o != nil && strings.HasPrefix(c.cur, "--"):
		c.value(o, "--"+name+"=")
	case !c.dashed && strings.HasPrefix(c.cur, "-"):
		for _, o := range c.options {
			if !o.bare {
				c.found = append(c.found, dashes(o.name))
			}
		}
		c.found = append(c.found, "--help")
	case c.wraps():
		c.kind = fmt.Sprint("command ", at)
	case c.words > 0:
	case c.command.Name == "completion":
		c.found = []string{"bash", "zsh", "fish"}
	case strings.Contains(c.usage(), "file"):
		c.kind = "files"
	case strings.Contains(c.usage(), "job"):
		c.found = c.jobs()
	}
}

// usage is the line that says how the command is called, without its name.
func (c *completer) usage() string {
	line, _, _ := strings.Cut(c.command.CustomHelpTemplate, "\n")
	return strings.TrimPrefix(line, "Usage: onceonly "+c.command.Name)
}

// wraps says whether a command follows.
func (c *completer) wraps() bool { return c.command.Name == "run" || c.command.Name == "explain" }

// value finds what an option's value can be.
func (c *completer) value(o *option, prefix string) {
	switch {
	case o.file:
		c.kind = "files"
	case o.name == "job":
		c.found = c.jobs()
	default:
		c.found = slices.Clone(o.words)
	}
	for i := range c.found {
		c.found[i] = prefix + c.found[i]
	}
}

// jobs are the names in the ledger; none where it cannot be read at once.
func (c *completer) jobs() []string {
	given := func(name string) (string, bool) { v, ok := c.given[name]; return v, ok }
	s, err := gather(commonOptions, given, os.LookupEnv)
	if err != nil {
		return nil
	}
	server, err := s.redisURL()
	if err != nil {
		return nil
	}
	r := &reader{ledger: &ledger{server.connect(), s.namespace}, server: server, wait: completionWait}
	defer r.ledger.Close()
	names, _ := r.names()
	return names
}
