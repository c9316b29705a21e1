//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// The command that onceonly runs: this program again, called with the word job. It tells the torture of its start and
// end, so that these are moments at which something can be killed, and writes into the sinks all the while.

// The environment that a job is told its part by.
const (
	envSink  = "TORTURE_SINK"  // where the judge is
	envHook  = "TORTURE_HOOK"  // where the torture listens
	envSeed  = "TORTURE_SEED"  // decides what the job does
	envBrief = "TORTURE_BRIEF" // last no longer than this, ms
	envLoose = "TORTURE_LOOSE" // fence by check, then write
	envMood  = "TORTURE_MOOD"  // quarrelsome, tedious, or neither
	envPart  = "TORTURE_PART"  // what the job's grandchild is to do
)

const (
	statusFailing = 33 // of a job that fails
	statusJudge   = 34 // the judge cannot be reached: the round is void
)

// A part is what a job does, by lot.
type part struct {
	lasts      time.Duration
	pause      time.Duration // between two writes
	status     int           // -1: by KILL
	deaf       bool          // to TERM
	grandchild bool          // does the writing
}

// cast decides by lot; the same attempt of the same slot has the same lot, whoever runs it.
func cast(seed, mood, job, slot, attempt string) part {
	r := newRandom(seed, job, slot, attempt)
	p := part{pause: time.Duration(2+r.IntN(5)) * time.Millisecond, deaf: r.IntN(10) < 4, grandchild: r.IntN(5) == 0}
	switch n := r.IntN(20); {
	case mood == brisk:
		p.lasts = between(r, 20*time.Millisecond, 100*time.Millisecond)
	case mood == tedious || n < 2:
		p.lasts = between(r, 4*time.Second, 9*time.Second)
	case n < 10:
		p.lasts = between(r, 20*time.Millisecond, 200*time.Millisecond)
	case n < 15:
		p.lasts = between(r, 200*time.Millisecond, 1200*time.Millisecond)
	default:
		p.lasts = between(r, 1200*time.Millisecond, 4*time.Second)
	}
	often := 4
	if mood == quarrelsome {
		often = 13
	}
	switch n := r.IntN(20); {
	case n == 19:
		p.status = -1
	case n < often:
		p.status = statusFailing
	}
	if ms, err := strconv.Atoi(os.Getenv(envBrief)); err == nil {
		p.lasts = min(p.lasts, time.Duration(ms)*time.Millisecond)
	}
	return p
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(max(high-low, 1))))
}

// A worker is a job at work: one attempt.
type worker struct {
	job, slot, run string
	attempt        int
	token          int64
	conn           *pgx.Conn
	loose          bool
}

func newWorker() *worker {
	w := &worker{job: os.Getenv("ONCEONLY_JOB"), slot: os.Getenv("ONCEONLY_SLOT"), run: os.Getenv("ONCEONLY_RUN_ID"),
		loose: os.Getenv(envLoose) != ""}
	w.attempt, _ = strconv.Atoi(os.Getenv("ONCEONLY_ATTEMPT"))
	w.token, _ = strconv.ParseInt(os.Getenv("ONCEONLY_FENCING_TOKEN"), 10, 64)
	return w
}

// jobMain is the leader of the command's process group.
func jobMain() int {
	w := newWorker()
	p := cast(os.Getenv(envSeed), os.Getenv(envMood), w.job, w.slot, strconv.Itoa(w.attempt))
	if p.deaf {
		signal.Ignore(unix.SIGTERM)
	}
	h, err := callHook(w)
	if err != nil {
		return complain(err)
	}
	h.tell("start", 0)
	if p.grandchild {
		err = w.delegate(p)
	} else {
		err = w.labour(p)
	}
	if err != nil {
		return complain(err)
	}
	h.tell("exit", p.status)
	if p.status < 0 {
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	return p.status
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "torture job:", err)
	return statusJudge
}

// delegate has a grandchild do the work: it stays in the group, and nothing but the guard sees to its end.
func (w *worker) delegate(p part) error {
	cmd := exec.Command(os.Args[0], "work")
	cmd.Env = append(os.Environ(), envPart+"="+fmt.Sprint(int64(p.lasts), " ", int64(p.pause), " ", p.status, " ", p.deaf))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// workMain is the grandchild.
func workMain() int {
	var p part
	var lasts, pause int64
	if _, err := fmt.Sscan(os.Getenv(envPart), &lasts, &pause, &p.status, &p.deaf); err != nil {
		return complain(err)
	}
	p.lasts, p.pause = time.Duration(lasts), time.Duration(pause)
	if p.deaf {
		signal.Ignore(unix.SIGTERM)
	}
	if err := newWorker().labour(p); err != nil {
		return complain(err)
	}
	return 0
}

// labour writes until the part is played.
func (w *worker) labour(p part) error {
	ctx := context.Background()
	config, err := pgx.ParseConfig(os.Getenv(envSink))
	if err != nil {
		return err
	}
	config.RuntimeParams = map[string]string{"torture.job": w.job, "torture.token": strconv.FormatInt(w.token, 10),
		"torture.run": w.run}
	if w.loose {
		config.RuntimeParams["session_replication_role"] = "replica" // no triggers
	}
	if w.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return err
	}
	for end := bootNow().add(p.lasts); ; time.Sleep(p.pause) {
		if err := w.write(ctx); err != nil {
			return err
		}
		if bootNow() > end {
			break
		}
	}
	if p.status == 0 {
		if err := w.effect(ctx); err != nil {
			return err
		}
	}
	_, err = w.conn.Exec(ctx, "INSERT INTO ended VALUES ($1, $2, $3, $4, $5, $6, $7)", w.row(p.status)...)
	return err
}

// row is this attempt's name, the time, and what else there is.
func (w *worker) row(more ...any) []any {
	return append([]any{w.job, w.slot, w.attempt, w.token, w.run, int64(bootNow())}, more...)
}

// write puts one row into the sink without a fence and one into the fenced one.
func (w *worker) write(ctx context.Context) error {
	if err := w.insert(ctx, "raw"); err != nil {
		return err
	}
	if w.loose {
		return w.checkThenWrite(ctx)
	}
	err := w.insert(ctx, "fenced")
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == "OF002" {
		return w.insert(ctx, "refused")
	}
	return err
}

func (w *worker) insert(ctx context.Context, table string) error {
	_, err := w.conn.Exec(ctx, "INSERT INTO "+table+" (job, slot, attempt, token, run, at) VALUES ($1, $2, $3, $4, $5, $6)",
		w.row()...)
	return err
}

// effect is what must not come twice: in one transaction with the mark that it is done.
func (w *worker) effect(ctx context.Context) error {
	return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO done VALUES ($1, $2) ON CONFLICT DO NOTHING", w.job, w.slot)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO once VALUES ($1, $2, $3, $4, $5, $6)", w.row()...)
		return err
	})
}

// checkThenWrite is the fence as it must not be made: between the check and the write anything can happen.
func (w *worker) checkThenWrite(ctx context.Context) error {
	var newest int64
	err := w.conn.QueryRow(ctx, "SELECT token FROM checked WHERE job = $1", w.job).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if newest > w.token {
		return w.insert(ctx, "refused")
	}
	time.Sleep(10 * time.Millisecond)
	if _, err := w.conn.Exec(ctx, `INSERT INTO checked VALUES ($1, $2) ON CONFLICT (job) DO UPDATE
		SET token = greatest(checked.token, EXCLUDED.token)`, w.job, w.token); err != nil {
		return err
	}
	return w.insert(ctx, "fenced")
}
