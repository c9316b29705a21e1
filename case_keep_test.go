package main

import (
	"context"
	"fmt"
	"testing"
)

// A job's line keeps more slots than a run by hand would: nothing of its history is forgotten when somebody runs a slot
// again with --date, who cannot know what stands in the crontab.
func TestCaseKeepByHand(t *testing.T) {
	t.Parallel()
	h, slots := newHost(t, "web-1"), int64(0)
	at := func(day int, keep int) {
		t.Helper()
		h.run("run", "--job", "report", "--date", fmt.Sprintf("2025-06-%02d", day), "--keep", fmt.Sprint(keep), "--", "true").want(t, 0, "")
		slots = shared.rdb.ZCard(context.Background(), jobKeys(t, "report")[3]).Val()
	}
	for day := 1; day <= 14; day++ {
		at(day, 14) // the first of them is the line that the ledger keeps
	}
	at(15, 10)
	if s := stateOf(t, "report", "2025-06-02"); slots != 14 || s != "done" {
		t.Errorf("%d slots are kept, 14 were asked for by the line; the oldest is %q", slots, s)
	}
	if s := stateOf(t, "report", "2025-06-01"); s != "" {
		t.Errorf("a slot beyond what the line keeps is %q", s)
	}
}
