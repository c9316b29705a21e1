package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The spool keeps ends that the ledger could not be told, on this host's disk, until an onceonly here can tell them. To
// tell one twice does no harm. A file is written whole or not at all.

const (
	delivery     = 5 * time.Second // for telling all that is kept, before a run
	systemState  = "/var/lib/onceonly"
	setAsideName = "undelivered" // below the spool: what no ledger takes
)

// A spool is a state directory, and the ledger that its ends are for.
type spool struct {
	dir  string
	home home
}

// A home is the ledger that an end belongs to: told to another, it would be a lie.
type home struct {
	Server    string `json:"server"`
	DB        int    `json:"db"`
	Namespace string `json:"namespace"`
}

// A keptEnd is a spool file's content.
type keptEnd struct {
	home
	Job string `json:"job"`
	End end    `json:"end"`
}

// stateDir is where state is kept: as told, else the system's place where it can be written, else the user's own.
func stateDir(told string, environ func(string) (string, bool)) string {
	if told != "" {
		return told
	}
	if os.Getuid() == 0 || writable(systemState) {
		return systemState
	}
	if dir, _ := environ("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "onceonly")
	}
	if dir, _ := environ("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".local/state/onceonly")
	}
	return systemState
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// keep writes an end to disk.
func (s *spool) keep(job string, e end) error {
	text, err := json.Marshal(keptEnd{s.home, job, e})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return writeWhole(s.file(e), text, 0o600)
}

func (s *spool) file(e end) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s.%d.json", e.RunID, e.Try))
}

// drop removes an end that the ledger has.
func (s *spool) drop(e end) { os.Remove(s.file(e)) }

const unfinished = ".onceonly-*" // a file that is being written

// writeWhole writes a file so that after a crash it is there in full or not at all. What others that were killed have left
// goes.
func writeWhole(name string, text []byte, mode os.FileMode) error {
	for _, old := range filesIn(filepath.Dir(name), unfinished) {
		if info, err := os.Stat(old); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(old)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(name), unfinished)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// filesIn are the files of a directory whose names match; of one that cannot be read, none.
func filesIn(dir, pattern string) []string {
	names, _ := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// keptEnds counts the ends in the spool, and tells when the oldest was written. A spool that is not there is empty.
func keptEnds(dir string) (n int, oldest int64, err error) {
	names, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return 0, 0, nil
	}
	for _, name := range names {
		if filepath.Ext(name.Name()) != ".json" {
			continue
		}
		info, gone := name.Info()
		if gone != nil { // delivered meanwhile
			continue
		}
		if at := millis(info.ModTime()); n == 0 || at < oldest {
			oldest = at
		}
		n++
	}
	return n, oldest, err
}

// deliverFirst delivers, unless a signal that asks to stop comes first.
func (r *run) deliverFirst() *exit {
	files := filesIn(r.spool.dir, "*.json")
	if len(files) == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() {
		r.deliver(files)
		close(done)
	}()
	return r.await(done)
}

// deliver tells the ledger what earlier runs on this host could not. What it refuses is set aside and said once; what it
// cannot be told now stays. Neither keeps the run that delivers from going on.
func (r *run) deliver(files []string) {
	ctx, cancel := context.WithTimeout(context.Background(), delivery)
	defer cancel()
	for _, name := range files {
		k, err := readKept(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		case err != nil:
			r.setAside(name, err)
		case k.home == r.spool.home:
			if !r.deliverOne(ctx, name, k) {
				return
			}
		}
	}
}

// deliverOne returns false if Redis cannot be told anything now.
func (r *run) deliverOne(ctx context.Context, name string, k *keptEnd) bool {
	k.End.Kept, k.End.Channel = false, r.ledger.channel(k.Job)
	open := r.server.open.Load()
	said, err := r.ledger.finish(ctx, k.Job, k.End)
	if err == nil {
		os.Remove(name)
		if said.Verdict == "stale" {
			r.tellStale(k.Job, k.End, said.Entry)
		}
		return true
	}
	if r.server.judge(err, open) != broken {
		return false
	}
	r.setAside(name, err)
	return true
}

// setAside moves a file away from what is delivered, so that it is told once and never stands in the way.
func (r *run) setAside(name string, why error) {
	dir := filepath.Join(filepath.Dir(name), setAsideName)
	os.MkdirAll(dir, 0o700)
	to := filepath.Join(dir, filepath.Base(name))
	if os.Rename(name, to) == nil {
		r.voice.say("%s: cannot be delivered: %s; set aside", to, cause(why))
	}
}

var errNoEnd = errors.New("not an end")

func readKept(name string) (*keptEnd, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // to open a pipe would be to wait
		return nil, errNoEnd
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	k, err := decode[keptEnd](string(text))
	if err == nil && (k.Job == "" || k.End.Slot == "" || len(k.End.RunID) != 32) {
		err = errNoEnd
	}
	return k, err
}

// tellStale tells of an end that came after another attempt had begun, or after a person had settled the slot.
func (r *run) tellStale(job string, e end, now *entry) {
	stands := fmt.Sprintf("attempt %d stands", now.Attempt)
	if by := now.Resolved; by != nil {
		stands = fmt.Sprintf("what %s has settled stands", by.By)
	}
	r.voice.say("%s %s: attempt %d (%s, %s) reported late; %s", job, r.shown(e.Slot), e.Number, e.Host, e.how(), stands)
}

// how is how the attempt ended, for people.
func (e *end) how() string {
	if e.Signal != "" {
		return e.Signal
	}
	return strings.TrimSpace("exit " + e.Exit)
}
