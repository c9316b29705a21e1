package main

import "time"

// A boot is an instant on a clock that runs on while the machine sleeps, as Redis's clock does. Leases are counted on it;
// Go's own monotonic clock stands still in suspend.
type boot time.Duration

func (b boot) add(d time.Duration) boot { return b + boot(d) }

// until is how long it takes from now to b; negative when b is past.
func (b boot) until() time.Duration { return time.Duration(b - bootNow()) }

func (b boot) past() bool { return b.until() <= 0 }

// millis is a wall-clock time as the ledger writes it.
func millis(t time.Time) int64 { return t.UnixMilli() }
