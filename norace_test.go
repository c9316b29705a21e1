//go:build !race

// The other files that stand aside for the race detector run the binary, which has none in it.

package main

const raceEnabled = false
