//go:build !race

package main

import (
	"net"
	"path/filepath"
	"testing"
)

// A server that turns clients away has executed nothing: --redis-wait is how long it is asked again, and why is what the
// server has said. Nothing is left to be delivered.
func TestTurnedAway(t *testing.T) {
	t.Parallel()
	for says, heard := range map[string]string{"-ERR max number of clients reached": "max number of clients reached",
		"-DENIED Redis is running in protected mode.": "DENIED Redis is running in protected mode."} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := serveAll(t, l, func(c net.Conn) {
			c.Read(make([]byte, 4096)) // all of the handshake: else the reply would be lost with the connection
			c.Write([]byte(says + "\r\n"))
		})
		state := filepath.Join(t.TempDir(), "state")
		h := newHost(t, "web-1", "ONCEONLY_REDIS=redis://"+address+"/0", "ONCEONLY_STATE_DIR="+state)
		for _, command := range [][]string{caseRun("j", "--redis-wait 1s --lease 1h", "true"), {"status", "--redis-wait", "1s"}} {
			h.run(command...).wantMatch(t, exitAway, "onceonly: (j "+caseDay+": not run: )?Redis at "+address+" not reached in 1s: "+heard+"\n")
		}
		if left := filesIn(state, "*"); len(left) > 0 {
			t.Errorf("%s: left %q", says, left)
		}
	}
}
