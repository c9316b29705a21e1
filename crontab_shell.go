package main

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-shellwords"
)

// A crontab's command belongs to a shell: here it is taken apart as far as is needed to find onceonly in it, and what
// follows onceonly.

var errShell = errors.New("more of a shell than is read here")

// A simple is a simple command of a shell: its words, the operator behind it, and all that stands after that.
type simple struct {
	words []string
	op    string // && || ; | &, "" at the end
	rest  string
}

var operators = []string{"&>>", "<<<", "<<-", "&&", "||", ";;", "|&", "&>", ">>", ">&", ">|", "<<", "<&", "<>", ";", "|", "&", ">", "<"}

// simpleCommands splits at the operators. Redirections are left out.
func simpleCommands(s string) ([]simple, error) {
	var all []simple
	current := simple{}
	for rest := []rune(s); ; {
		p := shellwords.NewParser()
		p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, true
		words, err := p.Parse(string(rest))
		if err != nil {
			return nil, errShell
		}
		current.words = append(current.words, words...)
		if p.Position < 0 {
			return append(all, current), nil
		}
		rest = rest[p.Position:]
		for unicode.IsDigit(rest[0]) && len(rest) > 1 { // 2>file: the parser names the descriptor
			rest = rest[1:]
		}
		op := operators[slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(string(rest), o) })]
		rest = rest[len(op):]
		if strings.Contains(op, "<<") && op != "<<<" {
			return nil, errShell
		}
		if strings.ContainsAny(op, "<>") {
			rest = afterWord(rest)
			continue
		}
		current.op, current.rest = op, strings.TrimSpace(string(rest))
		all, current = append(all, current), simple{}
	}
}

// afterWord is what follows the first word.
func afterWord(r []rune) []rune {
	i, quote := 0, rune(0)
	for i < len(r) && unicode.IsSpace(r[i]) {
		i++
	}
	for ; i < len(r); i++ {
		switch c := r[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			i++
		case unicode.IsSpace(c) || strings.ContainsRune(";|&<>", c):
			return r[i:]
		}
	}
	return r[min(i, len(r)):]
}

// A use is onceonly in a command of a shell.
type use struct {
	args  []string          // from onceonly on
	env   map[string]string // set for it alone
	op    string            // what follows it on every host, and by which operator; "" if nothing does
	after string
	next  bool // what follows is onceonly again
}

var shellAssignment = pattern(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// uses finds onceonly in a command.
func uses(command string) ([]use, error) {
	all, err := simpleCommands(command)
	if err != nil {
		return nil, err
	}
	var found []use
	for i, s := range all {
		u, inside := s.use()
		switch {
		case inside != "":
			more, err := uses(inside)
			if err != nil {
				return nil, err
			}
			if last := len(more) - 1; last >= 0 && more[last].op == "" {
				more[last].follow(all[i:])
			}
			found = append(found, more...)
		case u != nil:
			u.follow(all[i:])
			found = append(found, *u)
		}
	}
	return found, nil
}

// keywords are words of the shell that a command may follow.
var keywords = strings.Fields("{ ! if then else elif while until do exec command")

// use is onceonly, if this command is that, or a program that runs it. Inside is what a shell is to run.
func (s simple) use() (u *use, inside string) {
	env, wrapped := map[string]string{}, false
	for i, word := range s.words {
		m := shellAssignment().FindStringSubmatch(word)
		switch {
		case m != nil:
			env[m[1]] = m[2]
		case base(word) == "onceonly":
			return &use{args: s.words[i:], env: env}, ""
		case wrapped && s.words[i-1] == "-c" && strings.Contains(word, "onceonly"):
			return nil, word
		case runsOthers(base(word)):
			wrapped = true
		case !wrapped && !slices.Contains(keywords, word):
			return nil, ""
		}
	}
	return nil, ""
}

func base(word string) string { return word[strings.LastIndex(word, "/")+1:] }

// endings are words of a shell after which nothing has happened, and programs that do nothing but pass on what onceonly
// prints.
var endings = strings.Fields("true : exit fi done } esac then do wait logger systemd-cat cat tee ts chronic")

// follow finds what runs after onceonly wherever onceonly did nothing. After || it is what runs where onceonly failed.
func (u *use) follow(all []simple) {
	for i := range len(all) - 1 {
		next := all[i+1]
		if all[i].op == "||" || len(next.words) == 0 || slices.Contains(endings, base(next.words[0])) {
			continue
		}
		again, _ := next.use()
		u.op, u.after, u.next = all[i].op, all[i].rest, again != nil
		return
	}
}
