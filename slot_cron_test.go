package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A watched line is what the oracle saw of one line in one zone from one instant to another.
type watched struct {
	text     string
	line     line
	from, to int64
	fired    []firing
	name     func(firing) string
}

func clockWatch(t testing.TB, text, zone string, from, to int64) watched {
	w := watched{text: text + " in " + zone, line: lineOf(t, text, zone), from: from, to: to}
	period, isPeriod := strings.CutPrefix(text, "every ")
	period, start, _ := strings.Cut(period, " from ")
	dayStart := int64(0)
	if start != "" {
		dayStart = int64(must(strconv.Atoi(start[:2]))(t)*60 + must(strconv.Atoi(start[3:]))(t))
	}
	date := func(layout string) func(firing) string {
		return func(f firing) string { return time.Unix((f.wall-dayStart)*60, 0).UTC().Format(layout) }
	}
	withOffset := func(f firing) string {
		sign, offset := "+", f.offset
		if offset < 0 {
			sign, offset = "-", -offset
		}
		return date("2006-01-02T15:04")(f) + fmt.Sprintf("%s%02d:%02d", sign, offset/60, offset%60)
	}
	switch c := (cronEntry{}); {
	case !isPeriod:
		w.fired = crond(text, w.line.zone, from, to)
		c = spellOut(text)
		w.name = date("2006-01-02T15:04")
		if c.wild {
			w.name = withOffset
		} else if members(c.minute) == 1 && members(c.hour) == 1 {
			w.name = date("2006-01-02")
		}
	case period == "day" || period == "month":
		w.fired = watchDays(startsOf(period), dayStart, w.line.zone, from, to)
		w.name = date(map[string]string{"day": "2006-01-02", "month": "2006-01"}[period])
	case period == "week":
		w.fired = watchDays(startsOf(period), dayStart, w.line.zone, from, to)
		w.name = func(f firing) string {
			// The ISO week is that of its Thursday.
			thursday := time.Unix((f.wall-dayStart)*60, 0).UTC().AddDate(0, 0, 3)
			return fmt.Sprintf("%d-W%02d", thursday.Year(), (thursday.YearDay()-1)/7+1)
		}
	default:
		length := must(time.ParseDuration(period))(t)
		dayStart = 0
		w.fired = watchPart(int64(length/time.Minute), w.line.zone, from, to)
		w.name = withOffset
	}
	return w
}

func members(set map[int]bool) int {
	n := 0
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// check compares what the line says of a moment with what was seen.
func (w watched) check(t testing.TB, moment time.Time) {
	now := moment.Unix()
	i, _ := slices.BinarySearchFunc(w.fired, now, func(f firing, now int64) int {
		if f.at*60 <= now {
			return -1
		}
		return 1
	})
	s, err := w.line.at(moment)
	if err != nil {
		if len(w.fired) > i {
			t.Errorf("%s at %s: %v, but due at %s", w.text, utc(moment), err, at(w.fired[i].at*60))
		}
		return
	}
	w.compare(t, "current", moment, s, i-1)
	next, err := w.line.next(s)
	if err != nil {
		t.Errorf("%s after %s: %v", w.text, s.name, err)
		return
	}
	w.compare(t, "next", moment, next, i)
	before, err := w.line.preceding(s.tick)
	if err != nil {
		if i > 1 {
			t.Errorf("%s before %s: %v", w.text, s.name, err)
		}
		return
	}
	if i > 1 {
		w.compare(t, "before", moment, must(w.line.slot(before))(t), i-2)
	}
}

func (w watched) compare(t testing.TB, which string, moment time.Time, got slot, i int) {
	switch {
	case i < 0:
		if got.begins.Unix() >= w.from*60 {
			t.Errorf("%s at %s: %s %s begins %s, seen none", w.text, utc(moment), which, got.name, utc(got.begins))
		}
	case i >= len(w.fired):
		if got.begins.Unix() < w.to*60 {
			t.Errorf("%s at %s: %s %s begins %s, seen none", w.text, utc(moment), which, got.name, utc(got.begins))
		}
	default:
		f := w.fired[i]
		if got.name != w.name(f) || got.begins.Unix() != f.at*60 {
			t.Errorf("%s at %s: %s\n got %s, begins %s\nseen %s, begins %s",
				w.text, utc(moment), which, got.name, utc(got.begins), w.name(f), at(f.at*60))
		}
	}
}

// changesIn lists the instants at which the clock was changed.
func changesIn(zone *time.Location, from, to int64) []int64 {
	var changes []int64
	_, before := clockAt(zone, from)
	for at := from; at < to; at += 15 {
		if _, offset := clockAt(zone, at); offset != before {
			changes, before = append(changes, at), offset
		}
	}
	return changes
}

// momentNear is a random second: where the clock is changed, two of three within two days of that, and of the rest half on
// the edge of a slot.
func (w watched) momentNear(r *rand.Rand, changes []int64) time.Time {
	second := w.from*60 + r.Int64N((w.to-w.from)*60)
	switch n := r.IntN(6); {
	case n < 4 && len(changes) > 0:
		second = changes[r.IntN(len(changes))]*60 + r.Int64N(4*86400) - 2*86400
	case n == 4 && len(w.fired) > 0:
		second = w.fired[r.IntN(len(w.fired))].at*60 + r.Int64N(3) - 1
	}
	second = min(max(second, w.from*60), w.to*60-1)
	return time.Unix(second, r.Int64N(1e9))
}

// Zones in which something unusual happened, or keeps happening.
var oddZones = strings.Fields(`America/New_York Europe/Berlin Europe/London Europe/Dublin Australia/Lord_Howe Asia/Kathmandu
	Pacific/Apia Africa/Cairo Asia/Seoul America/Asuncion America/Sao_Paulo America/Havana America/St_Johns Asia/Gaza
	Africa/Casablanca Antarctica/Casey Antarctica/Troll America/Caracas Asia/Pyongyang Pacific/Kiritimati Pacific/Kwajalein
	Asia/Tehran Asia/Amman Asia/Beirut Atlantic/Azores Pacific/Chatham America/Nuuk Africa/Juba Asia/Dhaka UTC`)

const momentsEach = 250

// TestSlotsAgainstCron compares line.at, next and preceding with the oracle on ONCEONLY_TRIPLES triples of line, zone and
// moment, half of which lie within two days of a change of the clock. ONCEONLY_SEED makes a run of its own.
func TestSlotsAgainstCron(t *testing.T) {
	triples, seed := 30_000, uint64(1)
	if s := os.Getenv("ONCEONLY_TRIPLES"); s != "" {
		triples = must(strconv.Atoi(s))(t)
	}
	if s := os.Getenv("ONCEONLY_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))(t)
	}
	zones := zoneNames(t)
	const shards = 2
	var near, all atomic.Int64
	t.Run("shards", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for n := shard; n*momentsEach < triples && !t.Failed(); n += shards {
					near.Add(compareOne(t, rand.New(rand.NewPCG(seed, uint64(n))), zones))
					all.Add(momentsEach)
				}
			})
		}
	})
	if 2*near.Load() < all.Load() {
		t.Errorf("of %d moments only %d lie within two days of a change", all.Load(), near.Load())
	}
}

// compareOne compares one line in one zone at random moments, and returns how many of them are near a change of the clock.
func compareOne(t *testing.T, r *rand.Rand, zones []string) (near int64) {
	zone, from, days, changes := window(t, r, zones)
	for r.IntN(10) > 0 && len(changes) == 0 { // only one in ten may be without
		zone, from, days, changes = window(t, r, zones)
	}
	location := must(parseZone(zone))(t)
	// Half of the lines are about an hour that is skipped or repeated, where there is one.
	hour := r.IntN(24)
	if len(changes) > 0 && r.IntN(2) == 0 {
		shown, _ := clockAt(location, changes[r.IntN(len(changes))]-int64(r.IntN(2)))
		hour = int(shown%1440/60+int64(r.IntN(3))+23) % 24
	}
	w := clockWatch(t, randomLine(r, hour), zone, from, from+days*1440)
	for range momentsEach {
		moment := w.momentNear(r, changes)
		w.check(t, moment)
		if slices.ContainsFunc(changes, func(at int64) bool { return moment.Sub(time.Unix(at*60, 0)).Abs() <= 48*time.Hour }) {
			near++
		}
	}
	return near
}

// window draws a zone and a stretch of time, in minutes, and finds the changes of the clock in it.
func window(t *testing.T, r *rand.Rand, zones []string) (zone string, from, days int64, changes []int64) {
	zone = zones[r.IntN(len(zones))]
	if r.IntN(2) == 0 {
		zone = oddZones[r.IntN(len(oddZones))]
	}
	// Before 1973 offsets had seconds, which a watch in minutes does not see.
	from = time.Date(1973+r.IntN(85), time.January, 1, 0, 0, 0, 0, time.UTC).Unix() / 60
	days = 400
	if r.IntN(15) == 0 {
		days = 9 * 366
	}
	return zone, from, days, changesIn(must(parseZone(zone))(t), from, from+days*1440)
}

func randomLine(r *rand.Rand, hour int) string {
	pick := func(s string) string {
		options := strings.Split(s, "|")
		return options[r.IntN(len(options))]
	}
	if r.IntN(4) == 0 {
		return pick("every 1m|every 5m|every 15m|every 30m|every 1h|every 2h|every 3h|every 6h|every 12h|every day|every day|" +
			"every week|every month|every day from 02:30|every day from 00:30|every day from 04:00|every week from 01:30|every month from 23:00")
	}
	hours := strconv.Itoa(hour)
	for {
		expr := strings.Join([]string{
			pick("0|0|30|59|1|15|" + strconv.Itoa(r.IntN(60)) + "|0,30|15,45|0-59|10-40/10|*|*/5|*/15|*/7|*/60|5,*"),
			pick(hours + "|" + hours + "|" + hours + "|" + hours + "," + strconv.Itoa(r.IntN(24)) +
				"|0|23|1,2|2,3|0-3|0,12|1,13|22-23|0-23|*|*|*/2|*/6|*/5|3,*/24"),
			pick("*|*|*|*|*|*|1|15|29|31|1,15|*/2|*/10|8-14|25-31|1-7"),
			pick("*|*|*|*|*|*|3,10|3-4|10-11|2|*/3|12"),
			pick("*|*|*|*|*|*|0|7|1-5|6,7|5|*/2|*/7|1|0-7/3"),
		}, " ")
		if _, err := parseSchedule(expr); err == nil {
			return expr
		}
	}
}
