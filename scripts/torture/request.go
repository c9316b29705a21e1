//go:build linux

package main

import (
	"encoding/json"
	"strconv"
	"strings"
)

// A request is one question of onceonly to the ledger, as a proxy saw it pass. Its kinds:
//
//	begin   may the slot run here       renew   a lease is kept       regain  a lapsed lease is taken back
//	finish  how an attempt ended        other   anything else
type request struct {
	kind    string
	host    string
	job     string
	slot    string
	run     string
	try     int
	pid     int
	state   string // finish: done, failed, unstarted
	kept    bool   // finish: the lease is
	release bool   // finish: the lease is given back in the same step
	lease   int64  // ms; begin and regain
	raw     []byte
	link    *relay
	prey    int // process to be killed once it has the answer

	received  boot // by the proxy
	executed  boot // the server has answered; never, if it has not
	delivered boot // its answer was handed to onceonly; never, if it was not
	failed    string
	verdict   string
	token     int64
	attempt   int
}

// parseRequest sees by the form of its last argument what an EVAL is: scripts change, what they are asked does not.
func parseRequest(words []string) *request {
	r := &request{kind: "other", executed: never, delivered: never}
	if len(words) < 4 || !strings.EqualFold(words[0], "eval") {
		return r
	}
	keys, _ := strconv.Atoi(words[2])
	if keys < 2 || len(words) < 4+keys {
		return r
	}
	_, rest, _ := strings.Cut(words[3], "{")
	r.job, _, _ = strings.Cut(rest, "}")
	args := words[3+keys:]
	last := args[len(args)-1]
	if last == "" && len(args[0]) > 32 {
		r.kind, r.run = "renew", args[0][:32]
		return r
	}
	r.read(last)
	r.release = r.kind == "finish" && len(args) > 1
	return r
}

// read takes in the question's JSON.
func (r *request) read(text string) {
	var q struct {
		RunID   string `json:"run_id"`
		Try     int
		PID     int
		Slot    string
		State   *string
		Overlap *string
		Kept    bool
		Lease   int64
		Token   json.Number
		Attempt int
	}
	if json.Unmarshal([]byte(text), &q) != nil || q.RunID == "" {
		return
	}
	r.run, r.try, r.pid, r.slot, r.lease = q.RunID, q.Try, q.PID, q.Slot, q.Lease
	switch {
	case q.Overlap != nil:
		r.kind = "begin"
	case q.State != nil && *q.State == "":
		r.kind = "regain"
	case q.State != nil:
		r.kind, r.state, r.kept = "finish", *q.State, q.Kept
	default:
		return
	}
	if r.kind != "begin" { // as begin gave them
		r.token, _ = q.Token.Int64()
		r.attempt = q.Attempt
	}
}

// answer takes in what the server said.
func (r *request) answer(raw []byte, words []string) {
	if raw[0] == '-' {
		r.failed = words[0]
		return
	}
	if r.kind == "renew" {
		r.verdict = "renewed"
		if len(words) == 0 || words[0] == "\x00" {
			r.verdict = "lost"
		}
		return
	}
	var said struct {
		Verdict string
		Token   json.Number
		Attempt int
	}
	if len(words) == 0 || json.Unmarshal([]byte(words[len(words)-1]), &said) != nil {
		return
	}
	r.verdict = said.Verdict
	if r.kind == "begin" {
		r.token, _ = said.Token.Int64()
		r.attempt = said.Attempt
	}
}

// extends says whether it left the lease to its run for a whole lease more.
func (r *request) extends() bool {
	switch r.kind {
	case "begin":
		return r.verdict == "run"
	case "renew":
		return r.verdict == "renewed"
	case "regain":
		return r.verdict == "held" || r.verdict == "regained"
	}
	return false
}

// when is an instant not before its execution; where nobody knows whether it was executed, not after.
func (r *request) when() boot {
	if r.executed == never {
		return r.received
	}
	return r.executed
}
