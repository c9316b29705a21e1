package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stories of a question or an answer that is held up, and of who does not wait for it: nothing starts late.

// A asks; the question is held up on its way. It asks again, hears that B is running, and leaves. B fails. Then the first
// question arrives: nobody is behind it any more, so it must not begin anything.
//
//	A: begin ─ ─ ─ ─ ─ begin → busy, exit 0          ─ ─ ─ ▶ begin
//	B:  begin → run 1                  failed 1
func TestLuaQuestionOfOneThatLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var held []any
	c := luaCall(t, luaWire{shared.rdb, func(ctx context.Context, cmd redis.Cmder) error {
		if held == nil && cmd.Name() == "eval" {
			held = cmd.Args()
			cmd.SetErr(io.ErrUnexpectedEOF)
			return cmd.Err()
		}
		return shared.rdb.Process(ctx, cmd)
	}}, time.Minute, "true")
	c.attempts = 2
	j := newLuaJob(t, shared.rdb)
	q := j.question([]string{"b.1", "s1", "attempts=2"})
	q.Slot, q.Begins, q.terms = c.slot.name, millis(c.slot.begins), c.terms()
	j.asked["b.1"] = q
	j.tell("copy b.1 -> run 1")
	if e := c.execute(&voice{w: io.Discard}); e != nil && e.status != 0 {
		t.Fatalf("status %d: %s", e.status, e.msg)
	}
	j.tell("failed b.1 -> ok")
	if _, err := shared.rdb.Do(ctx, held...).Result(); err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	if e := entryOf(t, "invoice", c.slot.name); e.State == "running" {
		t.Errorf("attempt %d is running, and nobody runs it", e.Attempt)
	}
	j.tell("lock -> -")
}

// Between the answer and the command there is one more request, which may take longer than the lease: then the command
// is not started under that lease, and everything is decided anew.
func TestLuaNothingStartsLate(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	file := filepath.Join(t.TempDir(), "started")
	c := luaCall(t, luaWire{shared.rdb, func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "sadd" {
			time.Sleep(2 * lease) // what begin has granted is over before this is answered
		}
		return shared.rdb.Process(ctx, cmd)
	}}, lease, "sh", "-c", "echo > "+file)
	began := time.Now()
	c.execute(&voice{w: io.Discard})
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if e := entryOf(t, "invoice", c.slot.name); e.State != "done" || e.Attempt != 1 || len(e.Earlier) != 1 ||
		e.Began < millis(began.Add(2*lease)) {
		t.Errorf("%s, attempt %d, %q before, began %dms after the first question: started when its lease was over",
			e.State, e.Attempt, e.Earlier, e.Began-millis(began))
	}
}

// A begin is executed, its answer does not come, and onceonly is told to stop: it says that it has not started, although
// the question still waits for its answer.
func TestLuaStoppedWhileAsking(t *testing.T) {
	t.Parallel()
	p := newProxy(t, shared.address())
	p.dropReply("EVAL", 1, false)
	cmd := newHost(t, "web-1", "ONCEONLY_REDIS="+p.url()).command("run", "--lease", "1m", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the question was executed", func() bool { return p.dropsLeft() == 0 })
	cmd.Process.Signal(syscall.SIGTERM)
	if status := exitStatus(t, cmd.Wait()); status != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("status %d", status)
	}
	j := newLuaJob(t, shared.rdb)
	j.job = "true"
	if e := entryOf(t, "true", time.Now().UTC().Format(time.DateOnly)); e.State != "failed" || e.Attempt != 0 {
		t.Errorf("%s, attempt %d: nobody can know that it has not run", e.State, e.Attempt)
	}
	j.tell("lock -> -")
}
