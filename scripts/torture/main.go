//go:build linux

// Torture runs onceonly on several hosts, under every fault that it should withstand, and judges what came of it.
//
//	go run ./scripts/torture [-for 1h] [-seed WORDS] [-only N1+N3,…] [-topology KIND] [-controls=false] [-brief] [-v]
//
// Each scene has real servers, a few hosts with crontab lines (for root each with a network of its own), and a nemesis or
// two (nemesis.go). What commands do goes into PostgreSQL, which no fault touches. Afterwards the invariants (verdict.go)
// must hold, or the exit status is 1. Builds with one guard taken out (control.go) show that the torture would have found it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	if status, ok := played(os.Args); ok {
		os.Exit(status)
	}
	if status, ok := inOwnWorld(); ok {
		os.Exit(status)
	}
	os.Exit(tortureMain())
}

// played is what this program does when it is called as an actor of its own play.
func played(args []string) (int, bool) {
	if len(args) != 2 || os.Getenv(envHook) == "" && args[1] != "hog" && args[1] != "glutton" {
		return 0, false
	}
	switch args[1] {
	case "job":
		return jobMain(), true
	case "work":
		return workMain(), true
	case "hog":
		return hogMain(), true
	case "glutton":
		return gluttonMain(), true
	}
	return 0, false
}

func tortureMain() int {
	o := options{}
	flag.DurationVar(&o.lasts, "for", 5*time.Minute, "how long")
	flag.StringVar(&o.seed, "seed", time.Now().UTC().Format("20060102-150405"), "decides all that is left to chance")
	only := flag.String("only", "", "these nemeses only, such as N1,N2+N3")
	flag.StringVar(&o.kind, "topology", "", "this one only: "+strings.Join(kinds, ", "))
	flag.BoolVar(&o.controls, "controls", true, "try the controls too")
	flag.BoolVar(&o.brief, "brief", false, "every nemesis once, as on every test run")
	flag.BoolVar(&o.verbose, "v", false, "tell what happens")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	logging.Disable() // go-redis tells every fault that we make
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	r, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	r.print(os.Stdout)
	if r.wrong() {
		return 1
	}
	return 0
}
