package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cases of real users about zones: hosts of one fleet must agree about them.

// Hosts whose zones differ do not agree about today: the first one's zone is kept, and the others are refused and told
// what to write. With --tz all agree. The command's own TZ is left alone. (SH-18)
func TestHostsInDifferentZones(t *testing.T) {
	t.Parallel()
	in := func(name, zone string) *host { return newHost(t, name, "TZ="+zone) }
	run := []string{"run", "--job", "invoice", "--every", "day", "--", "sh", "-c", "echo $TZ"}
	since := time.Now()
	in("web-1", "Asia/Tokyo").run(run...).wantOut(t, "Asia/Tokyo\n")
	for name, zone := range map[string]string{"web-2": "UTC", "web-3": "America/Los_Angeles", "web-4": "Etc/UTC"} {
		in(name, zone).run(run...).wantLike(t, exitDisagree, fmt.Sprintf(
			`onceonly: invoice: not run: this host's zone is %s \(TZ\), the job's is Asia/Tokyo \(web-1, since \d{4}-\d\d-\d\d\)`+"\n"+
				`onceonly: hint: [^\n]*ONCEONLY_TZ=Asia/Tokyo[^\n]*--tz Asia/Tokyo[^\n]*`+"\n", zone))
	}
	in("web-5", "Asia/Seoul").run(run...).wantOut(t, "")                               // spelled otherwise, and the same
	newHost(t, "web-2", "TZ=UTC", "ONCEONLY_TZ=Asia/Tokyo").run(run...).wantOut(t, "") // who does as told is no other
	bare := []string{"run", "--job", "bare", "--", "true"}
	in("web-1", "Asia/Tokyo").run(bare...).want(t, 0, "")
	in("web-2", "UTC").run(bare...).wantLike(t, exitDisagree, "onceonly: bare: not run: this host's zone is UTC [^\n]*\n[^\n]*\n")
	newHost(t, "web-2", "TZ=UTC", "ONCEONLY_TZ=Asia/Tokyo").run(bare...).want(t, 0, "") // the minute of another zone is not the line's

	tokyo := time.FixedZone("", 9*3600)
	day := since.In(tokyo).Format(time.DateOnly)
	run = []string{"run", "--job", "report", "--every", "day", "--tz", "Asia/Tokyo", "--", "sh", "-c", "echo $ONCEONLY_BUSINESS_DATE $TZ"}
	r := in("web-2", "UTC").run(run...)
	if later := time.Now().In(tokyo).Format(time.DateOnly); later != day && r.stdout != day+" UTC\n" {
		day = later
	}
	r.wantOut(t, day+" UTC\n")
	in("web-1", "Asia/Tokyo").run(run...).wantOut(t, "")
	in("web-3", "America/Los_Angeles").run(run...).wantOut(t, "")
	newHost(t, "web-4", "TZ=", "ONCEONLY_TZ=Asia/Tokyo").run("run", "--job", "report", "--every", "day", "--", "false").wantOut(t, "")
	h := newHost(t, "web-5")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return v == "TZ=UTC" }) // the machine's zone, whatever it is
	h.run(run...).wantOut(t, "")

	for _, zone := range []string{"Asia/Soul", ""} {
		r := in("web-6", "UTC").run("run", "--job", "report", "--every", "day", "--tz", zone, "--", "false")
		r.wantLike(t, exitUsage, `onceonly: --tz "`+zone+`": .*`)
	}
	in("web-6", "Mars/Olympus").run("run", "--job", "report", "--every", "day", "--", "false").wantLike(t, exitUsage, `onceonly: TZ "Mars/Olympus": .*`)
}

// One instant under two zones is one shape too many; zones that are the same by another name are one.
func TestOneInstantTwoZones(t *testing.T) {
	t.Parallel()
	const at = "2025-06-10T05:00:00Z"
	for i, a := range []struct{ job, zone, line, date, want string }{
		{"hour", "Asia/Tokyo", "hour", at, "2025-06-10T14:00+09:00"},
		{"hour", "UTC", "hour", at, "!"},
		{"hour", "Asia/Seoul", "hour", at, ""},
		{"hour", "UTC", "hour", "2025-06-10T06:00:00Z", "2025-06-10T06:00+00:00"},
		{"hour", "Asia/Tokyo", "hour", "2025-06-10T06:00:00Z", "!"},
		{"day", "Asia/Tokyo", "day", at, "2025-06-10"},
		{"day", "UTC", "day", at, ""},                      // it has the same name: done
		{"day", "UTC", "day", "2025-06-09T20:00:00Z", "!"}, // in Tokyo that is the 10th
		{"day", "UTC", "day", "2025-06-11T20:00:00Z", "2025-06-11"},
		{"day", "Asia/Tokyo", "day", "2025-06-11T20:00:00Z", "!"}, // the 12th there
		{"twice", "Asia/Tokyo", "0 2,14 * * *", at, "2025-06-10T14:00"},
		{"twice", "UTC", "0 2,14 * * *", "2025-06-10T03:00:00Z", "!"}, // 02:00 to 14:00 there, 14:00 to 02:00 here
	} {
		option := "--every"
		if strings.Contains(a.line, " ") {
			option = "--schedule"
		}
		r := newHost(t, fmt.Sprintf("web-%d", i)).run("run", "--job", a.job, "--tz", a.zone, option, a.line, "--date", a.date, "--", "sh", "-c", "echo $ONCEONLY_SLOT")
		switch a.want {
		case "":
			r.wantOut(t, "")
		case "!":
			r.wantLike(t, exitDisagree, `onceonly: `+a.job+`: not run: .* their slots overlap.*`)
		default:
			r.wantOut(t, a.want+"\n")
		}
	}
}
