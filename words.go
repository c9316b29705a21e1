package main

import "fmt"

// count is a number of things: 1 job, 2 jobs.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
