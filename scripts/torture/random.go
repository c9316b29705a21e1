//go:build linux

package main

import (
	"hash/fnv"
	"math/rand/v2"
)

// newRandom is a source that the same words always begin alike.
func newRandom(words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
