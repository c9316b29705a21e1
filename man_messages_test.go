package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The manual's DIAGNOSTICS have every message of the program, and no other.

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
var examples = strings.Fields("attempt clock days denied done empty hour interrupted jobs minute permission php reboot skip stop wait")

// TestManualSaysNoMore wants every message of the DIAGNOSTICS to be made of words that the program has.
func TestManualSaysNoMore(t *testing.T) {
	messages := collectMessages(t)
	items := regexp.MustCompile(`(?m)^\.It (.*)$`).FindAllStringSubmatch(manualLiteral(manualSection(t, "DIAGNOSTICS")), -1)
	if len(items) < 80 {
		t.Errorf("only %d messages found", len(items))
	}
	option := regexp.MustCompile(`^--[a-z-]+ "|\bevery day\b|^(?:line 4|file|` + strings.Join(subjects, "|") + `): `)
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
	"flag needs an argument: ",               // urfave/cli's words; what is wrong is said in ours
	"flag provided but not defined: ",
	"-c onceonly.resource=", " -c onceonly.token=", " -c onceonly.run_id=", // of PGOPTIONS
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
