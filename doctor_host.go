package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is wrong with this host: its file of options, zone, path, mail and spool.

// checkConfig reads the options as run would. With a mistake in the file the rest goes on without it.
func (d *doctor) checkConfig() {
	options, err := readConfig(d.environ)
	if err == nil {
		d.settled, d.options = true, options
		d.remark(fine, "config", d.aboutConfig(), "")
	} else {
		d.failed("config", err)
		d.environ = instead(d.environ, "ONCEONLY_CONFIG", os.DevNull)
	}
	s, err := gather(doctorOptions, d.given, d.environ)
	if err != nil { // in the environment
		d.failed("config", err)
		return
	}
	d.settings = s
	if s.redis == "" && s.redisFile == "" && (!d.settled || d.offline) {
		return
	}
	if d.server, err = s.redisURL(); err != nil {
		d.failed("redis", err)
	}
}

// failed makes a finding of what would end run.
func (d *doctor) failed(subject string, err error) {
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{msg: err.Error()}
	}
	d.remark(failure, subject, e.msg, e.hint)
}

func (d *doctor) configFile() string { return configOf(d.environ) }

func configOf(environ func(string) (string, bool)) string {
	name, _ := environ("ONCEONLY_CONFIG")
	return cmp.Or(name, configFile)
}

// aboutConfig says what is in the file, and which of the users of crontabs may read it.
func (d *doctor) aboutConfig() string {
	name := d.configFile()
	if _, err := os.Stat(name); err != nil {
		return name + " is not there"
	}
	text := name + ", " + count(len(d.options), "option")
	if d.elsewhere() {
		return text
	}
	var may, mayNot []string
	for _, who := range d.users() {
		if mayRead(who, name) {
			may = append(may, who)
		} else {
			mayNot = append(mayNot, who)
		}
	}
	if len(may) > 0 {
		text += "; readable by " + strings.Join(may, ", ")
	}
	if len(mayNot) > 0 {
		text += "; not by " + strings.Join(mayNot, ", ")
	}
	return text
}

// users are those of all crontabs, and root.
func (d *doctor) users() []string {
	all := map[string]bool{"root": true}
	for _, c := range d.crontabs {
		for _, l := range c.lines {
			if _, err := user.Lookup(l.user); err == nil {
				all[l.user] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// mayRead says whether a user may open a file, by the modes of the file and of the folders above it. What cannot be
// found out counts as yes.
func mayRead(who, name string) bool {
	u, err := user.Lookup(who)
	if err != nil || u.Uid == "0" {
		return true
	}
	groups, _ := u.GroupIds()
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if !allowed(u.Uid, groups, dir, 1) {
			return false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return allowed(u.Uid, groups, name, 4)
}

// allowed looks at one file's mode: its owner's part, its group's or that of all others.
func allowed(uid string, groups []string, name string, bit fs.FileMode) bool {
	info, err := os.Stat(name)
	if err != nil {
		return true
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case uid == strconv.Itoa(int(owner.Uid)):
		bit <<= 6
	case slices.Contains(groups, strconv.Itoa(int(owner.Gid))):
		bit <<= 3
	}
	return info.Mode()&bit != 0
}

// zone is what decides the dates of a line that says nothing of it, and the words for it and where it comes from. A
// shell's TZ is not cron's.
func (d *doctor) zone() (*time.Location, string, error) {
	from := d.from["tz"]
	if from == "" {
		zone, err := systemZone()
		return zone, fmt.Sprintf("%s, from %s", zone, systemZoneFrom()), err
	}
	zone, err := parseZone(d.tz)
	if file, name, ok := strings.Cut(from, ": "); ok {
		return zone, fmt.Sprintf("%s, from %s in %s", zone, name, file[:strings.LastIndex(file, ":")]), err
	}
	return zone, fmt.Sprintf("%s, from %s", zone, from), err
}

func (d *doctor) checkZone() {
	zone, text, err := d.zone()
	if err != nil {
		d.failed("zone", err)
		return
	}
	cron, err := systemZone()
	if err != nil || sameZone(zone, cron, d.now) {
		d.remark(fine, "zone", text, "")
		return
	}
	d.remark(warning, "zone", fmt.Sprintf("%s; cron fires by %s, from %s", text, cron, localtime),
		fmt.Sprintf("timedatectl set-timezone %s, and restart cron", zone))
}

// sameZone compares as the ledger does.
func sameZone(a, b *time.Location, now time.Time) bool {
	year := now.UTC().Year()
	return line{zone: a}.offsets(year) == line{zone: b}.offsets(year)
}

// checkBorrowed tells of lines that have no Redis but that which this process was told.
func (d *doctor) checkBorrowed() {
	level := warning
	if d.here() {
		level = failure
	}
	if d.borrowed {
		d.remark(level, "config", "crontab lines have no Redis: "+d.from["redis"]+" does not reach them", "ONCEONLY_REDIS in "+d.configFile())
	}
}

func (d *doctor) checkPath() {
	if at := d.lookPath("onceonly", cronPath); at != "" {
		d.remark(fine, "path", at+" is in cron's PATH", "")
		return
	}
	level := warning
	if d.usesPath && d.here() {
		level = failure
	}
	d.remark(level, "path", "onceonly is not in cron's PATH, "+cronPath, "install it in /usr/bin, or name it in full in the crontabs")
}

// lookPath finds a program in a PATH.
func (d *doctor) lookPath(name, path string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if at := filepath.Join(dir, name); filepath.IsAbs(at) && d.executable(at) {
			return at
		}
	}
	return ""
}

func (d *doctor) executable(name string) bool {
	info, err := os.Stat(d.path(name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// mailers are the places where crons look for one.
var mailers = []string{"/usr/sbin/sendmail", "/usr/lib/sendmail", "/usr/bin/sendmail"}

func (d *doctor) checkMail() {
	for _, m := range mailers {
		if d.executable(m) {
			d.remark(fine, "mail", m, "")
			return
		}
	}
	if log := d.value("ONCEONLY_LOG"); log == "syslog" || log == "both" {
		d.remark(fine, "mail", "no MTA; what onceonly says is in syslog", "")
		return
	}
	d.remark(warning, "mail", "no MTA: what a job prints is thrown away by cron", "ONCEONLY_LOG=both")
}

// value is a variable of the environment or the file.
func (d *doctor) value(name string) string {
	if v, ok := d.environ(name); ok {
		return v
	}
	return d.options[name].value
}

// checkSpool looks at the state directory of whoever asks.
func (d *doctor) checkSpool() {
	dir := stateDir(d.stateDir, d.environ)
	for at := dir; ; at = filepath.Dir(at) {
		err := unix.Access(at, unix.W_OK|unix.X_OK)
		if err == unix.ENOENT && at != filepath.Dir(at) {
			continue // it is made when it is needed
		}
		if err != nil {
			d.remark(warning, "spool", dir+", not writable: an end that Redis cannot be told is lost, and its slot uncertain",
				"let the job's user write into it, or ONCEONLY_STATE_DIR=DIRECTORY")
			return
		}
		break
	}
	kept, _, _ := keptEnds(dir)
	aside, _, _ := keptEnds(filepath.Join(dir, setAsideName))
	if kept+aside == 0 {
		d.remark(fine, "spool", dir+", writable, empty", "")
		return
	}
	text, hint := dir+", writable", ""
	if kept > 0 {
		text += "; the ledger has not been told: " + count(kept, "end")
		hint = "the next onceonly run here delivers them"
	}
	if aside > 0 {
		text += "; set aside in " + setAsideName + ": " + count(aside, "end")
		hint = "read them, and settle their slots by hand"
	}
	d.remark(warning, "spool", text, hint)
}
