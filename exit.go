package main

import (
	"io"
	"syscall"
)

// Exit statuses. The command's own is passed on; these are onceonly's.
const (
	exitNo         = 1 // the answer: would not run, no such job, cannot become done, something fails; never of run
	exitUsage      = 64
	exitAway       = 69 // Redis not reached, or not able to serve; nothing ran
	exitBug        = 70
	exitUnrecorded = 74 // the command succeeded, the ledger does not know; of status, explain and doctor: cannot be printed
	exitNotDone    = 75 // the slot is not done, and this call did not run it to its end
	exitDenied     = 77 // Redis refuses the credentials, or a right is missing
	exitDisagree   = 78 // hosts or lines disagree, or a configuration cannot be read
	exitTimeout    = 124
	exitCannotExec = 126
	exitNotFound   = 127
	exitSignal     = 128 // plus the signal's number
)

// An exit is an error that knows the exit status, and what is said about it.
type exit struct {
	status int
	msg    string // "" says nothing
	hint   string
	normal bool           // said only with --verbose or on a terminal
	typed  syscall.Signal // ended the command, and ends onceonly too
}

func (e *exit) Error() string { return e.msg }

// usage is a mistake in what the user typed.
func usage(msg, hint string) *exit { return &exit{status: exitUsage, msg: msg, hint: hint} }

// A usageError is what is wrong with one value; whoever knows where the value came from says so in front.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

// show prints what status and explain are asked for.
func show(w io.Writer, who, text string) *exit {
	if _, err := io.WriteString(w, text); err != nil {
		return &exit{status: exitUnrecorded, msg: who + ": " + cause(err)}
	}
	return nil
}
