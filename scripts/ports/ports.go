// Package ports gives out the ports that tests listen on.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// They are below those that the system gives to others, all of five digits, and a cluster's node has one more 10000 above.
const first, last = 10000, 19999

var (
	mu   sync.Mutex
	next = first + rand.IntN(last-first) // others' tests run beside these
)

// Free is a port that nobody listens on. Each is given out once, until all have been, so that nobody is met there while who
// got it is away.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	for range last - first + 1 {
		port := next
		if next++; next > last {
			next = first
		}
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, errors.New("no port is free")
}
