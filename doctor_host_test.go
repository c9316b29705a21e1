package main

import (
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This host and its crontabs, as doctor finds them below another root. The users are this machine's: root and nobody.

// A clinic is a host of files, examined without Redis.
type clinic struct {
	t    *testing.T
	root string
	env  map[string]string
}

func newClinic(t *testing.T) *clinic {
	root, err := os.MkdirTemp("", "clinic") // not t.TempDir, which other users cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	c := &clinic{t, root, map[string]string{"ONCEONLY_STATE_DIR": filepath.Join(t.TempDir(), "state")}}
	if err := os.Chmod(c.root, 0o755); err != nil {
		t.Fatal(err)
	}
	c.env["ONCEONLY_CONFIG"] = c.put("/etc/onceonly.conf", 0o644, "# nothing\n")
	return c
}

// put makes a file of that host.
func (c *clinic) put(name string, mode os.FileMode, text string) string {
	c.t.Helper()
	full := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), mode); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Chmod(full, mode); err != nil {
		c.t.Fatal(err)
	}
	return full
}

// examine gives what is printed, and the exit status.
func (c *clinic) examine() (string, int) {
	c.t.Helper()
	environ := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
	d, err := newDoctor(nil, func(name string) (string, bool) { return "yes", name == "offline" }, environ)
	if err != nil {
		c.t.Fatal(err)
	}
	d.root = c.root
	d.examine()
	var out strings.Builder
	status := 0
	if e := d.print(&out); e != nil {
		status = e.status
	}
	checkWidth(c.t, out.String())
	return out.String(), status
}

// has wants lines in what is printed.
func has(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(nextTime.ReplaceAllString(out, "next TIME"), l+"\n") {
			t.Errorf("lacks %q in\n%s", l, out)
		}
	}
}

// hasWords wants words, wherever lines are broken.
func hasWords(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(oneSpaced(out), w) {
			t.Errorf("lacks %q in\n%s", w, out)
		}
	}
}

// hasNot wants words not to be there.
func hasNot(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(out, w) {
			t.Errorf("has %q in\n%s", w, out)
		}
	}
}

// A host that is well: all lines of the three places, users, programs, mail. What an editor has left in /etc/cron.d does not
// take names from lines that cron reads.
func TestDoctorHost(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.put("/usr/bin/onceonly", 0o755, "")
	c.put("/usr/bin/invoice", 0o755, "")
	c.put("/usr/sbin/sendmail", 0o755, "")
	c.put("/etc/crontab", 0o644, "PATH=/opt/bin:/usr/bin\n0 2 * * * root onceonly run -- invoice\n")
	c.put("/etc/cron.d/shop", 0o644, "0 3 * * * nobody onceonly run --job b -- invoice --late\n")
	c.put("/etc/cron.d/.shop.swp", 0o644, "0 3 * * * nobody onceonly run --job b -- invoice --early\n")
	c.put("/etc/cron.d/other", 0o644, "0 3 * * * root something\n")
	c.put("/var/spool/cron/crontabs/nobody", 0o600, "@daily onceonly run --job c -- /usr/bin/invoice\n")
	out, status := c.examine()
	has(t, out, "ok    path     /usr/bin/onceonly is in cron's PATH", "ok    mail     /usr/sbin/sendmail",
		"\n/etc/crontab\nok    line 2   invoice  0 2 * * *  day  next TIME",
		"\n/etc/cron.d/shop\nok    line 1   b  0 3 * * *  day  next TIME",
		"\n/var/spool/cron/crontabs/nobody\nok    line 1   c  @daily  day  next TIME", "\n0 failures, 0 warnings")
	hasNot(t, out, ".shop.swp", "/etc/cron.d/other", "FAIL", "warn ")
	hasWords(t, out, ", 0 options; readable by nobody, root")
	if status != 0 {
		t.Errorf("status %d", status)
	}
}

// A host on which nothing is as it should be.
func TestDoctorIll(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.env["ONCEONLY_CONFIG"] = c.put("/etc/onceonly.conf", 0o640, "ONCEONLY_TZ=Pacific/Kiritimati\n")
	c.put("/etc/crontab", 0o644, "0 2 * * * nobody onceonly run -- invoice\n0 3 * * * nosuchuser onceonly run -- /usr/bin/absent\n"+
		"0 4 * * * onceonly run -- /usr/bin/absent\n")
	c.put("/etc/cron.d/shop.cron", 0o644, "0 3 * * * root onceonly run --job b -- true")
	c.put("/etc/cron.d/shop.dpkg-old", 0o644, "0 3 * * * root onceonly run --job b -- true\n")
	c.put("/etc/cron.d/wide", 0o666, "0 3 * * * root onceonly run --job d -- true\n")
	c.put("/var/spool/cron/crontabs/root", 0o600, "0 5 * * * root onceonly run -- x\nTZ=Pacific/Kiritimati\n0 6 * * * onceonly run --job e -- true\n")
	c.put("/bin/true", 0o755, "")
	if os.Getuid() == 0 {
		os.Chown(c.put("/etc/cron.d/given", 0o644, "0 3 * * * root onceonly run --job f -- true\n"), 65534, -1)
	} else {
		c.put("/etc/cron.d/given", 0o644, "0 3 * * * root onceonly run --job f -- true\n")
	}
	out, status := c.examine()
	cron, err := systemZone()
	if err != nil {
		t.Fatal(err)
	}
	hasWords(t, out,
		"1 option; readable by root; not by nobody",
		"warn zone Pacific/Kiritimati, from ONCEONLY_TZ in "+c.env["ONCEONLY_CONFIG"]+"; cron fires by "+cron.String()+", from /etc/localtime "+
			"hint: timedatectl set-timezone Pacific/Kiritimati, and restart cron",
		"FAIL path onceonly is not in cron's PATH, /usr/bin:/bin hint: install it in /usr/bin, or name it in full in the crontabs",
		"FAIL file not owned by root: cron ignores the file hint: chown root /etc/cron.d/given",
		"warn mail no MTA: what a job prints is thrown away by cron hint: ONCEONLY_LOG=both",
		"FAIL line 1 invoice 0 2 * * * day invoice is not in this line's PATH, /usr/bin:/bin hint: name it in full, or set PATH in the crontab",
		"user nobody cannot read "+c.env["ONCEONLY_CONFIG"]+" hint: chgrp onceonly, chmod 640",
		`no user "nosuchuser" on this host: cron ignores the line`,
		"/usr/bin/absent is not there, or not executable",
		"no user: in this file the word after the fields is one hint: 0 4 * * * root onceonly run -- /usr/bin/absent",
		"FAIL file no newline at the end: cron ignores the file",
		"FAIL file only letters, digits, - and _ may be in its name: Debian's cron ignores the file hint: mv /etc/cron.d/shop.cron /etc/cron.d/shop-cron",
		"FAIL file others than root may write to it: cron ignores the file hint: chmod 644 /etc/cron.d/wide",
		`"root" would be the command: only /etc/crontab and /etc/cron.d name users`,
		"TZ=Pacific/Kiritimati: Debian's cron hands it to the command and fires by "+cron.String()+
			" hint: the hours in "+cron.String()+", and --tz Pacific/Kiritimati",
	)
	hasNot(t, out, "dpkg-old", "no Redis given")
	if status != 1 {
		t.Errorf("status %d", status)
	}
}

// The state directory: empty, with ends that are to be delivered, with such that no ledger took, with both, and closed. Its
// name is no pattern.
func TestDoctorSpool(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		kept []string
		says string
	}{
		{nil, "ok spool DIR, writable, empty"},
		{[]string{"a.json", "b.json"}, "warn spool DIR, writable; the ledger has not been told: 2 ends hint: the next onceonly run here delivers them"},
		{[]string{"undelivered/c.json"}, "warn spool DIR, writable; set aside in undelivered: 1 end hint: read them, and settle their slots by hand"},
		{[]string{"a.json", "undelivered/c.json"}, "warn spool DIR, writable; the ledger has not been told: 1 end; " +
			"set aside in undelivered: 1 end hint: read them, and settle their slots by hand"},
	} {
		dir := filepath.Join(t.TempDir(), "state[1]")
		for _, name := range s.kept {
			os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
			caseTouch(t, filepath.Join(dir, name), "{}")
		}
		r := newHost(t, "web-1", "ONCEONLY_STATE_DIR="+dir).run("doctor", "--offline")
		hasWords(t, r.stdout, strings.Replace(s.says, "DIR", dir, 1))
	}
	file := filepath.Join(t.TempDir(), "file")
	caseTouch(t, file, "")
	r := newHost(t, "web-1", "ONCEONLY_STATE_DIR="+file).run("doctor", "--offline")
	hasWords(t, r.stdout, "warn spool "+file+", not writable: an end that Redis cannot be told is lost, and its slot uncertain "+
		"hint: let the job's user write into it, or ONCEONLY_STATE_DIR=DIRECTORY")
}

// A crontab's line that is repeated is so without the passwords in it.
func TestDoctorPassword(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.put("/usr/bin/onceonly", 0o755, "")
	c.put("/bin/true", 0o755, "")
	c.put("/etc/crontab", 0o644, "0 4 * * * onceonly run --redis redis://:geheim@10.0.0.1 -- true\n"+
		"onceonly run --redis redis://:geheim@10.0.0.1 -- true\n"+
		"0 4 * * * root onceonly run -- true; x && onceonly run --redis redis://cron:ge/heim@10.0.0.1 -- true\n")
	out, _ := c.examine()
	hasWords(t, out, "hint: 0 4 * * * root onceonly run --redis redis://***@10.0.0.1 -- true",
		"what follows ; runs on every host hint: onceonly run --job true -- sh -c 'true; x && onceonly run --redis redis://***@10.0.0.1 -- true'")
	hasNot(t, out, "geheim", "ge/heim")
}

// Of the other commands, too, it is looked whether cron finds onceonly, and whether their user can read its options.
func TestDoctorOtherCommands(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.env["ONCEONLY_CONFIG"] = c.put("/etc/onceonly.conf", 0o640, "ONCEONLY_TZ=UTC\n")
	c.put("/etc/crontab", 0o644, "* * * * * root /opt/onceonly status --metrics\n* * * * * root onceonly status --metrics\n"+
		"* * * * * nobody onceonly status --metrics\n")
	out, status := c.examine()
	hasWords(t, out, "FAIL line 1 - * * * * * - /opt/onceonly is not there, or not executable", "FAIL path onceonly is not in cron's PATH",
		"FAIL line 3 - * * * * * - user nobody cannot read "+c.env["ONCEONLY_CONFIG"])
	if status != 1 {
		t.Errorf("status %d", status)
	}
}

// That nothing is run here is told where all crontabs were read, whatever Redis has refused to say.
func TestDoctorNothingRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unread func(*doctor)
		says   []string
	}{
		{func(d *doctor) { d.cannotRead("Redis's version", "user cron may not INFO") },
			[]string{"no line of onceonly in the crontabs of this host"}},
		{func(d *doctor) { d.refused("/etc/cron.d/shop", fs.ErrPermission) }, nil},
	} {
		d := &doctor{settings: initial()}
		c.unread(d)
		d.checkThatSomethingRuns()
		var says []string
		for _, f := range d.findings {
			says = append(says, f.Text)
		}
		if !slices.Equal(says, c.says) {
			t.Errorf("%q, want %q", says, c.says)
		}
	}
	out, _ := newClinic(t).examine()
	has(t, out, "warn  crontabs no line of onceonly in the crontabs of this host")
	file := filepath.Join(t.TempDir(), "crontab")
	caseTouch(t, file, "0 2 * * * true\n")
	hasWords(t, newHost(t, "web-1").run("doctor", "--offline", file).stdout, "warn crontabs no line of onceonly in "+file)
}

// The file of options: absent, with a mistake, without its reader; what stands in it is not repeated where it is secret.
func TestDoctorConfig(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.env["ONCEONLY_CONFIG"] = c.put("/etc/onceonly.conf", 0o644, "ONCEONLY_REDIS=redis://:geheim/@10.0.0.1\n")
	out, status := c.examine()
	hasWords(t, out, "FAIL config "+c.env["ONCEONLY_CONFIG"]+":1: ONCEONLY_REDIS: not a URL, or its password is not percent-encoded (%40 for @) ok")
	hasNot(t, out, "geheim")
	if status != 1 {
		t.Errorf("status %d", status)
	}
	h := newHost(t, "web-1")
	bad := c.put("/etc/bad.conf", 0o644, "\nONCEONLY_ATTEMPT=2\n")
	r := h.run("doctor", "--offline", "--config", bad)
	has(t, r.stdout, "FAIL  config   "+bad+":2: no option ONCEONLY_ATTEMPT", "               hint: ONCEONLY_ATTEMPTS")
	r.want(t, 1, "")
	r = h.run("doctor", "--offline", "--config", c.put("/etc/good.conf", 0o644, "ONCEONLY_ATTEMPTS=2\nONCEONLY_TZ='Asia/Seoul'\n"))
	has(t, r.stdout, "ok    config   "+c.root+"/etc/good.conf, 2 options; readable by root")
	h.run("doctor", "--config", filepath.Join(c.root, "absent"), "--offline").want(t, 1, "")
}

// A mailer is not needed where onceonly speaks to syslog.
func TestDoctorSyslog(t *testing.T) {
	t.Parallel()
	c := newClinic(t)
	c.env["ONCEONLY_LOG"] = "syslog"
	out, _ := c.examine()
	has(t, out, "ok    mail     no MTA; what onceonly says is in syslog")
}

// A user who is not root is told what was not read, and that is no failure. The crontabs are in folders of their own.
func TestDoctorAsUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, to mount crontabs and become another user")
	}
	if _, err := user.Lookup("nobody"); err != nil {
		t.Fatal(err)
	}
	const script = `mount -t tmpfs -o mode=755 none /var/spool && mount -t tmpfs -o mode=755 none /etc/cron.d || exit 99
mkdir -p /var/spool/cron/crontabs && cp "$1" /var/spool/onceonly && chmod 1730 /var/spool/cron/crontabs
printf '0 2 * * * root onceonly run --job a -- true\n' >/etc/cron.d/open
printf '0 2 * * * root onceonly run --job b -- true\n' >/etc/cron.d/closed
chmod 600 /etc/cron.d/closed
echo 'ONCEONLY_TZ=UTC' >/var/spool/conf
exec setpriv --reuid "$(id -u nobody)" --clear-groups env -i /var/spool/onceonly doctor --offline --config /var/spool/conf`
	out, err := exec.Command("unshare", "-m", "sh", "-c", script, "sh", binary).CombinedOutput()
	text := string(out)
	if strings.Contains(text, "mount: ") || strings.Contains(text, "unshare: ") {
		absent(t, "a mount namespace: "+text)
	}
	has(t, text, "not read: /etc/cron.d/closed (needs root)", "not read: /var/spool/cron/crontabs (needs root)")
	hasNot(t, text, "job b", "a bug")
	if !strings.Contains(text, "\n/etc/cron.d/open\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Who may read a file: its owner by the first part of its mode, its group by the second, all others by the third.
func TestDoctorMayRead(t *testing.T) {
	t.Parallel()
	name := newClinic(t).put("/file", 0o640, "")
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	for mode, want := range map[os.FileMode][3]bool{0o640: {true, true, false}, 0o604: {true, false, true}, 0o044: {false, true, true}} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		got := [3]bool{allowed(uid, []string{gid}, name, 4), allowed("99999", []string{"1", gid}, name, 4), allowed("99999", []string{"99998"}, name, 4)}
		if got != want {
			t.Errorf("%o: %v, want %v", mode, got, want)
		}
	}
}
