package main

import (
	"fmt"
	"runtime/debug"
)

// version is that of CHANGELOG.md.
const version = "0.1.0"

// about is what --version says. What the build knows of itself is read only then: no run pays for it.
func about() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Sprintf("onceonly %s\n", version)
	}
	return fmt.Sprintf("onceonly %s (%s%s)\n", version, commitOf(build), build.GoVersion)
}

// commitOf is the commit that was built, and a comma; nothing where the build was not told, as outside a clone.
func commitOf(build *debug.BuildInfo) string {
	said := map[string]string{}
	for _, s := range build.Settings {
		said[s.Key] = s.Value
	}
	switch revision := said["vcs.revision"]; {
	case revision == "":
		return ""
	case said["vcs.modified"] == "true":
		return fmt.Sprintf("commit %.8s with changes, ", revision)
	default:
		return fmt.Sprintf("commit %.8s, ", revision)
	}
}
