package main

import "strings"

// withFence adds job, token and run ID to PGOPTIONS, which every client of PostgreSQL that uses libpq hands on: the server
// makes them settings of the session, where a trigger reads them. Of two settings of a name the last one counts, so a
// onceonly within a onceonly goes before the outer one.
func withFence(environ []string, job, token, runID string) []string {
	const name = "PGOPTIONS="
	var rest []string
	before := ""
	for _, v := range environ {
		switch value, found := strings.CutPrefix(v, name); {
		case !found:
			rest = append(rest, v)
		case before == "": // of two variables of one name getenv sees the first
			before = value + " "
		}
	}
	return append(rest, name+strings.TrimPrefix(before, " ")+"-c onceonly.resource="+pgWord(job)+
		" -c onceonly.token="+token+" -c onceonly.run_id="+runID)
}

// pgWord is a value as one word of PGOPTIONS: the server splits them at white space, and takes what follows a backslash as
// it is. It knows no quotes.
func pgWord(value string) string {
	return strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(value)
}
