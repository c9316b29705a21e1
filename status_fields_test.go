package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every field of the JSON has the type that is promised, is there whether it is known or not, and no other is.

// The interface's tables: what a field can be. A word in capitals is a table of its own; ? also null.
var statusFields = map[string]string{
	"JOB": `job string, namespace string, as_of time, state state?, slot string?, attention [ATTENTION], every string?, schedule string?,
		zone string?, day_start clock?, attempts_allowed integer?, lease_seconds number?, due_at time?, next_due_at time?,
		first_slot string?, oldest_slot string?, missed [string], paused PAUSED?, holder HOLDER?, token integer?,
		last_done LAST?, consecutive_failures integer, counts COUNTS, slots [SLOT], hosts [HOST]-`,
	"ATTENTION": `slot string, state state`,
	"PAUSED":    `since time, until time?, by string?, reason string?`,
	"HOLDER": `host string?, pid integer?, user string?, run_id string?, slot string?, attempt integer?, token integer?,
		started_at time?, renewed_at time?, lease_ends_at time?`,
	"LAST":   `slot string, ended_at time?`,
	"COUNTS": `done integer, failed integer, uncertain integer, skipped integer, merged integer, paused integer, missed integer`,
	"SLOT": `slot string, business_date date, state state?, due_at time?, started_at time?, ended_at time?, late_seconds number?,
		duration_seconds number?, attempt integer, attempts_left integer?, exit_status integer?, signal signal?, reason reason?,
		host string?, pid integer?, user string?, run_id string?, token integer?, by_hand boolean, key string,
		merged_into string?, resolved RESOLVED?, stale_reports integer, attempts [ATTEMPT]-`,
	"RESOLVED": `as string?, by string?, at time?, reason string?`,
	"ATTEMPT": `attempt integer, state attempted, host string?, pid integer?, user string?, run_id string?, token integer?,
		started_at time?, ended_at time?, duration_seconds number?, exit_status integer?, signal signal?, reason reason?,
		rerun_reason string?, version string?`,
	"HOST": `host string, asked_at time, slot string, answer answer, why why?, line string?, version string?`,
}

// The words and forms that a string can be.
var statusForms = map[string]*regexp.Regexp{
	"string": regexp.MustCompile(`(?s).`), // never empty: what is unknown is null
	"time":   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?[+-]\d\d:\d\d$`),
	"date":   regexp.MustCompile(`^\d{4}-\d\d-\d\d$`), "clock": regexp.MustCompile(`^\d\d:\d\d$`),
	"signal":    regexp.MustCompile(`^[A-Z]+[0-9+]*$`),
	"state":     regexp.MustCompile(`^(done|running|retrying|failed|uncertain|skipped|merged|paused|missed|late|pending)$`),
	"attempted": regexp.MustCompile(`^(done|running|retrying|failed|uncertain|stale)$`),
	"reason":    regexp.MustCompile(`^(timeout|lease_lost|interrupted|stopped|not_started)$`),
	"answer":    regexp.MustCompile(`^(ran|busy|done|failed|uncertain|paused|skipped|waiting|refused)$`),
	"why":       regexp.MustCompile(`^(clock|zone|shape|arguments|not_daily|old)$`),
}

// A validator holds JSON against the tables, and keeps which fields it has seen with a value and with null.
type validator struct {
	t    *testing.T
	seen map[string]bool
}

// object walks one object of a table.
func (v *validator) object(table, where string, value any) {
	got, ok := value.(map[string]any)
	if !ok {
		v.t.Errorf("%s is no object: %v", where, value)
		return
	}
	left := maps.Clone(got)
	for field := range strings.SplitSeq(strings.Join(strings.Fields(statusFields[table]), " "), ", ") {
		name, kind, _ := strings.Cut(field, " ")
		one, there := got[name]
		if delete(left, name); there {
			v.value(kind, where+"."+name, table+"."+name, one)
		} else if !strings.HasSuffix(kind, "-") {
			v.t.Errorf("%s lacks %s", where, name)
		}
	}
	for name := range left {
		v.t.Errorf("%s has %s, which no table has", where, name)
	}
}

// value holds one value against its type.
func (v *validator) value(kind, where, field string, value any) {
	bare := strings.TrimRight(kind, "?-")
	v.seen[fmt.Sprint(field, " null ", value == nil)] = true
	if value == nil {
		if bare == kind || kind[len(kind)-1] == '-' {
			v.t.Errorf("%s is null", where)
		}
		return
	}
	list, isList := value.([]any)
	text, isText := value.(string)
	number, isNumber := value.(json.Number)
	_, isBoolean := value.(bool)
	switch {
	case bare[0] == '[':
		if !isList {
			v.t.Errorf("%s is no list: %v", where, value)
		}
		for i, one := range list {
			v.value(strings.Trim(bare, "[]"), fmt.Sprint(where, "[", i, "]"), field, one)
		}
	case statusFields[bare] != "":
		v.object(bare, where, value)
	case bare == "integer" || bare == "number":
		if !isNumber || (bare == "integer" && strings.Contains(number.String(), ".")) || strings.ContainsAny(number.String(), "eE") {
			v.t.Errorf("%s is no %s: %v", where, bare, value)
		}
	case bare == "boolean":
		if !isBoolean {
			v.t.Errorf("%s is no boolean: %v", where, value)
		}
	case !isText || !statusForms[bare].MatchString(text):
		v.t.Errorf("%s is no %s: %v", where, bare, value)
	case bare == "time":
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			v.t.Errorf("%s: %v", where, err)
		}
	}
}

// jobs validates an answer.
func (v *validator) jobs(text string) {
	v.t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var list []any
	if err := d.Decode(&list); err != nil || d.More() {
		v.t.Fatalf("not one list of JSON: %v\n%s", err, text)
	}
	for i, j := range list {
		v.object("JOB", fmt.Sprint("[", i, "]"), j)
	}
}

// Every field, of every view and of ledgers that have everything, and hardly anything. (SH-63)
func TestStatusFields(t *testing.T) {
	t.Parallel()
	seedFleet(t)
	seedOdd(t)
	v := &validator{t, map[string]bool{}}
	v.jobs(view(t, statusAsk{json: true, hosts: true}, seoulNow, time.Minute))
	v.jobs(view(t, statusAsk{json: true, problems: true}, seoulNow, time.Minute))
	for _, j := range viewJobs(t, statusAsk{json: true}, seoulNow, time.Minute) {
		v.jobs(view(t, statusAsk{job: j.job, json: true, n: 0}, seoulNow, time.Minute))
		for _, s := range viewJobs(t, statusAsk{job: j.job, n: 0}, seoulNow, time.Minute)[0].slots {
			if s.entry != nil {
				v.jobs(view(t, statusAsk{job: j.job, json: true, hosts: true, date: s.name}, seoulNow, time.Minute))
			}
		}
	}
	v.jobs(view(t, statusAsk{job: "backup", json: true, date: "2026-10-01"}, seoulNow, 0)) // nobody has asked for it
	for table, fields := range statusFields {
		for field := range strings.SplitSeq(strings.Join(strings.Fields(fields), " "), ", ") {
			name, kind, _ := strings.Cut(field, " ")
			if !v.seen[table+"."+name+" null false"] {
				t.Errorf("no ledger here has %s.%s", table, name)
			}
			if strings.HasSuffix(kind, "?") && !v.seen[table+"."+name+" null true"] && !slices.Contains(alwaysKnown, table+"."+name) {
				t.Errorf("in no ledger here %s.%s is unknown", table, name)
			}
		}
	}
}

// alwaysKnown can be null only where Redis has lost a part of what a run writes in one step.
var alwaysKnown = []string{"HOLDER.run_id", "HOLDER.host", "HOLDER.pid", "HOLDER.lease_ends_at", "HOLDER.user", "HOLDER.slot",
	"HOLDER.attempt", "HOLDER.token", "HOLDER.started_at", "HOLDER.renewed_at", "RESOLVED.as", "RESOLVED.by", "RESOLVED.at",
	"ATTEMPT.host", "ATTEMPT.pid", "ATTEMPT.run_id", "ATTEMPT.token", "ATTEMPT.started_at", "ATTEMPT.version", "ATTEMPT.user",
	"HOST.line", "HOST.version", "LAST.ended_at", "PAUSED.by", "JOB.slot", "JOB.state", "JOB.oldest_slot"}

// seedOdd writes what is rare: a job of which only --date is known, one that is paused for a time, and slots of every kind.
func seedOdd(t *testing.T) {
	bare := newSeed(t, "bare").ran("2026-11-28", "2026-11-28T00:00:00+09:00", "2026-11-28T02:00:00+09:00", "web-1", time.Second, "")
	bare.do("del", bare.l.keys("bare")[5])
	newSeed(t, "held", "paused", fmt.Sprintf(`{"since":%d,"until":%d,"by":"kim@web-1","reason":"bank"}`, msOf(t, seoulNow)-1000,
		msOf(t, seoulNow)+1000), "first", "2026-11-20").days("2026-11-20", 1, "02:00:00")
	newSeed(t, "kept", "paused", fmt.Sprintf(`{"since":%d,"by":"kim@web-1"}`, msOf(t, seoulNow)-1000)).days("2026-11-20", 1, "02:00:00")
	s := newSeed(t, "odd", "schedule", "0 2 * * *", "attempts", "3", "first", "2026-11-20")
	day := func(n, more string) {
		s.ran("2026-11-"+n, "2026-11-"+n+"T02:00:00+09:00", "2026-11-"+n+"T02:00:00.007+09:00", "web-1", time.Second, more)
	}
	day("20", `"state":"failed","reason":"lease_lost","signal":"TERM","exit":null,"stale":2,"by_hand":true`)
	day("21", `"state":"failed","reason":"not_started","exit":127,"attempt":0`)
	day("22", `"resolved":{"as":"done","by":"kim@web-1","at":1795885453200,"reason":"bank"}`)
	day("23", `"state":"failed","resolved":{"as":"reopened","by":"kim@web-1","at":1795885453200}`)
	day("24", `"rerun":"bank"`)
	s.entry("2026-11-25", "2026-11-25T02:00:00+09:00", `"state":"merged","attempt":0,"host":"web-1","began":1,"into":"2026-11-26"`)
	day("26", "")
	s.event("2026-11-24T02:00:00.007+09:00", "event", "begin", "slot", "2026-11-24", "attempt", "1", "token", "7", "host", "web-9:1",
		"user", "app", "run_id", backupRuns, "version", "1.0.0", "rerun", "bank asked")
	s.event("2026-11-24T02:01:00+09:00", "event", "end", "slot", "2026-11-24", "attempt", "1", "token", "7", "host", "web-9:1",
		"user", "app", "state", "failed", "exit", "", "signal", "KILL", "reason", "timeout", "kept", "", "took", "59993")
	s.do("set", s.l.keys("odd")[1], "1795885201093")
	for host, answer := range map[string]string{"web-1": `"ran"`, "web-2": `"refused","why":"not_daily"`} {
		s.do("hset", s.l.keys("odd")[6], host, fmt.Sprintf(`{"asked":%d,"slot":"2026-11-26","answer":%s,"line":"9c1e0a0b","version":"1.0.0"}`,
			msOf(t, seoulNow), answer))
	}
}

// The reason of a --rerun stands with the attempt that it was for, also when another came after it.
func TestStatusRerunReason(t *testing.T) {
	t.Parallel()
	seedOdd(t)
	var jobs []jobJSON
	if err := json.Unmarshal([]byte(view(t, statusAsk{job: "odd", date: "2026-11-24", json: true}, seoulNow, 0)), &jobs); err != nil {
		t.Fatal(err)
	}
	all := *jobs[0].Slots[0].Attempts
	if len(all) != 2 || all[0].RerunReason == nil || *all[0].RerunReason != "bank asked" || *all[1].RerunReason != "bank" {
		t.Errorf("%+v", all)
	}
}
