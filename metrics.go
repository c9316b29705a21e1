package main

import (
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The status as Prometheus reads it: its text format 0.0.4, for the textfile collector of the node exporter.

// A machine is what this host knows of itself, and of its way to the ledger.
type machine struct {
	up    bool // the ledger could be read
	took  time.Duration
	ahead *int64 // ms, this host's clock before Redis's; nil: not known
	dir   string // where ends are kept
}

// put writes one sample: its value, and its labels as name, value, name, value.
type put func(value float64, labels ...string)

// A metric is one that every job has, or has where it is known.
type metric struct {
	name, kind, help string
	of               func(*jobState, put)
}

var jobMetrics = []metric{
	{"onceonly_job_attention_slots", "gauge", "Slots that wait for a person.",
		func(j *jobState, put put) { put(float64(len(j.attention()))) }},
	{"onceonly_job_consecutive_failures", "gauge", "Slots in a row, newest first, that failed or are uncertain.",
		func(j *jobState, put put) { put(float64(j.failures())) }},
	{"onceonly_job_slots", "gauge", "Slots in the ledger.", (*jobState).putSlots},
	{"onceonly_job_running", "gauge", "Whether the lease is held.", func(j *jobState, put put) { put(binary01(j.running())) }},
	{"onceonly_job_paused", "gauge", "Whether the job is paused.", func(j *jobState, put put) { put(binary01(j.pause != nil)) }},
	{"onceonly_job_due_timestamp_seconds", "gauge", "When the newest slot was due.",
		func(j *jobState, put put) { put.ifKnown(j.due(j.newest())) }},
	{"onceonly_job_next_due_timestamp_seconds", "gauge", "When the next slot is due.",
		func(j *jobState, put put) { put.ifKnown(j.nextDue()) }},
	{"onceonly_job_last_start_timestamp_seconds", "gauge", "When the last attempt began.",
		func(j *jobState, put put) { put(inSeconds(j.last().began)) }},
	{"onceonly_job_last_end_timestamp_seconds", "gauge", "When the last attempt ended.",
		func(j *jobState, put put) { put(inSeconds(j.last().ended)) }},
	{"onceonly_job_last_success_timestamp_seconds", "gauge", "When the last attempt that was done ended.",
		func(j *jobState, put put) { put(inSeconds(j.last().done)) }},
	{"onceonly_job_last_duration_seconds", "gauge", "How long the attempt took that ended last.", (*jobState).putDuration},
	{"onceonly_job_last_exit_status", "gauge", "Exit status of the attempt that ended last; 128+n for signal n.",
		(*jobState).putExit},
	{"onceonly_job_lease_expiry_timestamp_seconds", "gauge", "When the lease ends; 0 if nobody has it.",
		func(j *jobState, put put) { put(inSeconds(j.leaseEnd())) }},
	{"onceonly_job_hosts", "gauge", "Hosts that asked since the previous due time.", (*jobState).putHosts},
	{"onceonly_job_attempts_total", "counter", "Attempts by how they ended.", (*jobState).putAttempts},
	{"onceonly_job_info", "gauge", "The line of the job.", func(j *jobState, put put) {
		put(1, "schedule", j.meta["schedule"], "every", j.everyLabel(), "timezone", j.meta["zone"])
	}},
}

func (p put) ifKnown(ms int64) {
	if ms > 0 {
		p(inSeconds(ms))
	}
}

func inSeconds(ms int64) float64 { return float64(ms) / 1000 }

func binary01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// newest is the newest slot, nil if there is none.
func (j *jobState) newest() *slotState {
	if len(j.slots) == 0 {
		return nil
	}
	return j.slots[0]
}

// putSlots counts the slots by what the ledger, or the line, says of them.
func (j *jobState) putSlots(put put) {
	n := map[string]int{}
	for _, s := range j.slots {
		n[s.state]++
	}
	for _, g := range glyphs {
		if g.state != "helped" { // a way to be done
			put(float64(n[g.state]), "state", g.state)
		}
	}
}

// lastRuns are the instants (ms, 0: never) that alerts on age go by, whichever slots they belong to.
type lastRuns struct {
	began, ended, done int64
	slot               *slotState // whose attempt ended last
}

func (j *jobState) last() (l lastRuns) {
	for _, s := range j.slots {
		switch s.state {
		case "done", "failed", "running", "retrying", "uncertain":
		default:
			continue
		}
		l.began = max(l.began, s.began)
		if s.ended > l.ended {
			l.ended, l.slot = s.ended, s
		}
		if s.state == "done" {
			l.done = max(l.done, s.ended)
		}
	}
	return l
}

func (j *jobState) putDuration(put put) {
	if s := j.last().slot; s != nil && s.took() >= 0 {
		put(s.took().Seconds())
	}
}

func (j *jobState) putExit(put put) {
	s := j.last().slot
	if s == nil || s.entry == nil {
		return
	}
	if n := unix.SignalNum("SIG" + s.entry.Signal); n > 0 {
		put(float64(exitSignal + int(n)))
	} else if s.entry.Exit != nil {
		put(float64(*s.entry.Exit))
	}
}

// leaseEnd is when the lease ends, 0 if nobody has it.
func (j *jobState) leaseEnd() int64 {
	if !j.running() || j.ttl < 0 {
		return 0
	}
	return j.now + j.ttl
}

// putHosts counts who asked since the time before the newest due one: since the newest itself some may not have, yet.
func (j *jobState) putHosts(put put) {
	if j.line == nil {
		return
	}
	t, err := j.line.latest(j.now / 1000)
	if err == nil {
		t, err = j.line.preceding(t)
	}
	if err != nil {
		return
	}
	n := 0
	for _, h := range j.hosts {
		if h.Asked >= t.at*1000 {
			n++
		}
	}
	put(float64(n))
}

func (j *jobState) putAttempts(put put) {
	for _, end := range []string{"done", "failed", "uncertain", "stale"} {
		put(float64(number(j.meta["count_"+end])), "outcome", end)
	}
}

// everyLabel is the period, where no schedule stands in its place.
func (j *jobState) everyLabel() string {
	if j.meta["schedule"] != "" {
		return ""
	}
	return j.meta["every"]
}

// A metricsText is the text, as far as it is written.
type metricsText struct{ strings.Builder }

func (t *metricsText) family(name, kind, help string, samples func(put)) {
	head := "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n"
	samples(func(value float64, labels ...string) {
		t.WriteString(head + name)
		head = ""
		between := "{"
		for i := 0; i < len(labels); i += 2 {
			t.WriteString(between + labels[i] + `="` + labelEscaper.Replace(labels[i+1]) + `"`)
			between = ","
		}
		if len(labels) > 0 {
			t.WriteString("}")
		}
		t.WriteString(" " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
	})
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// metricsOf is the whole text.
func (a *statusAsk) metricsOf(jobs []*jobState, m *machine) string {
	t := &metricsText{}
	for _, metric := range jobMetrics {
		t.family(metric.name, metric.kind, metric.help, func(p put) {
			for _, j := range jobs {
				metric.of(j, func(value float64, labels ...string) {
					p(value, append([]string{"ledger", a.namespace, "job_name", j.job}, labels...)...)
				})
			}
		})
	}
	t.family("onceonly_up", "gauge", "Whether the ledger could be read.",
		func(p put) { p(binary01(m.up), "ledger", a.namespace) })
	t.machine(m)
	return t.String()
}

// machine writes what is this host's own.
func (t *metricsText) machine(m *machine) {
	t.family("onceonly_read_duration_seconds", "gauge", "How long reading the ledger took.",
		func(p put) { p(math.Round(m.took.Seconds()*1e6) / 1e6) })
	t.family("onceonly_clock_offset_seconds", "gauge", "How far this host's clock is ahead of Redis's.", func(p put) {
		if m.ahead != nil {
			p(inSeconds(*m.ahead))
		}
	})
	files, oldest, err := keptEnds(m.dir)
	t.family("onceonly_spool_files", "gauge", "Ends kept on this host's disk.", func(p put) {
		if err == nil {
			p(float64(files))
		}
	})
	t.family("onceonly_spool_oldest_timestamp_seconds", "gauge", "When the oldest of them was written.", func(p put) {
		if files > 0 {
			p(inSeconds(oldest))
		}
	})
	t.family("onceonly_build_info", "gauge", "The version of onceonly.",
		func(p put) { p(1, "version", version, "goversion", runtime.Version()) })
}
