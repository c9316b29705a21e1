package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestZones(t *testing.T) {
	for _, name := range []string{"UTC", "Asia/Seoul", "America/Argentina/Buenos_Aires", "Etc/GMT+9", "America/Port-au-Prince"} {
		if zone, err := parseZone(name); err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{
		"", "Asia/Soul", "Local", "localtime", "/etc/localtime", "../zoneinfo/UTC", "Asia/../UTC", "Asia", "KST-9", ":UTC",
		" UTC", "right/UTC", "posix/Europe/Berlin", "posixrules", "Factory", "leapseconds", "zone.tab", "Asia/Seoul\n", "Europe//Berlin",
	} {
		want := fmt.Sprintf("--tz %q: no such zone / names such as Asia/Seoul; on a small image install tzdata", name)
		if zone, err := parseZone(name); complaint(err) != want {
			t.Errorf("%q: %v, %s", name, zone, complaint(err))
		}
	}
}

func TestOffsets(t *testing.T) {
	for zone, want := range map[string]string{
		"Asia/Seoul": "32400,32400", "Asia/Tokyo": "32400,32400", "Europe/Berlin": "3600,7200",
		"Australia/Lord_Howe": "39600,37800", "America/New_York": "-18000,-14400", "UTC": "0,0",
	} {
		if got := (line{zone: must(parseZone(zone))(t)}).offsets(2026); got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
}

// A zone whose file is a copy goes by the name that the host has for it, unless that is another zone's.
func TestZoneByItsName(t *testing.T) {
	for name, want := range map[string]string{"Asia/Seoul\n": "Asia/Seoul", "Asia/Tokyo": "Asia/Tokyo", "Europe/Berlin\n": "Local", "Nowhere/X": "Local", "": "Local"} {
		if got := byItsName(time.FixedZone("Local", 9*3600), name).String(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// A country that changes its time between two years is the same zone to a host that asks in the new one: it knows the
// offsets of the year before.
func TestOffsetsOfAYearBefore(t *testing.T) {
	for zone, years := range map[string][2]int{"America/Mexico_City": {2022, 2023}, "Asia/Almaty": {2024, 2025}, "America/Asuncion": {2024, 2025}} {
		of := func(year int) terms {
			c, err := newCallAt(t, time.Date(year, time.January, 2, 12, 0, 0, 0, time.UTC), map[string]string{"tz": zone}, "invoice")
			if err != nil {
				t.Fatal(err)
			}
			return c.terms()
		}
		before, after := of(years[0]), of(years[1])
		if kept := before.Offsets[before.ZoneYear]; kept == "" || kept == after.Offsets[after.ZoneYear] || kept != after.Offsets[before.ZoneYear] {
			t.Errorf("%s: kept %q, asked %v in %s", zone, kept, after.Offsets, after.ZoneYear)
		}
	}
}

// Every zone that this machine has, walked change by change, must agree with what the clock shows in between.
func TestSpansAgreeWithTheClock(t *testing.T) {
	for _, name := range zoneNames(t) {
		zone := must(time.LoadLocation(name))(t)
		end := time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		s := spanAt(zone, time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
		for s.to < end {
			next := s.after(zone)
			if next.from != s.to || next.to <= s.to || next.before(zone).offset != s.offset {
				t.Fatalf("%s: after %s a span from %s to %s", name, at(s.to), at(next.from), at(next.to))
			}
			for _, probe := range []int64{next.from, (next.from + next.to) / 2, next.to - 1} {
				if next.to < end && (offsetAt(zone, probe) != next.offset || !spanAt(zone, probe).contains(probe)) {
					t.Fatalf("%s: a span from %s to %s, but not at %s", name, at(next.from), at(next.to), at(probe))
				}
			}
			s = next
		}
	}
}

// A zone in a slim file, compiled by zic from
//
//	Rule U 2007 max - Mar Sun>=8 2:00 1:00 D
//	Rule U 2007 max - Nov Sun>=1 2:00 0 S
//	Zone Moved -6:00 - CST 2022 Nov 30 6:00u
//	           -7:00 U M%sT
//
// It went back an hour at midnight, 06:00Z, between two changes of the rule that it has kept since.
const movedZone = "VFppZjIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAEAAAAAAAAAVFppZjIAAAAAAAAAAAAAAAAAAAAAAAAA" +
	"AAAAAAAAAAAAAAABAAAAAgAAAAgAAAAAY4bxYAH//6ugAAD//52QAARDU1QATVNUAApNU1Q3TURULE0zLjIuMCxNMTEuMS4wCg=="

func TestRuleThatBeginsBetweenItsChanges(t *testing.T) {
	data := must(base64.StdEncoding.DecodeString(movedZone))(t)
	zone := must(time.LoadLocationFromTZData("Moved", data))(t)
	if got := at(spanAt(zone, instantOf(t, "2022-12-15T00:00:00Z").Unix()).from); got != "2022-11-30T06:00:00Z" {
		t.Error(got)
	}
	for _, c := range []struct{ line, now, name string }{
		{"*/5 9 29 * *", "2022-12-15T00:00:00Z", "2022-11-29T09:55-06:00"},
		{"every hour", "2022-11-30T05:30:00Z", "2022-11-29T23:00-06:00"},
		{"every hour", "2022-11-30T06:30:00Z", "2022-11-29T23:00-07:00"},
		{"30 23 * * *", "2022-11-30T06:10:00Z", "2022-11-29"},
	} {
		l := lineOf(t, c.line, "UTC")
		l.zone = zone
		if s := must(l.at(instantOf(t, c.now)))(t); s.name != c.name {
			t.Errorf("%s at %s: %s, want %s", c.line, c.now, s.name, c.name)
		}
	}
}

func at(unix int64) string { return utc(time.Unix(unix, 0)) }

func zoneNames(t testing.TB) []string {
	t.Helper()
	lines := strings.Split(string(must(os.ReadFile("/usr/share/zoneinfo/zone1970.tab"))(t)), "\n")
	var names []string
	for _, l := range lines {
		if columns := strings.Split(l, "\t"); len(columns) > 2 && !strings.HasPrefix(l, "#") {
			names = append(names, columns[2])
		}
	}
	slices.Sort(names)
	return names
}
