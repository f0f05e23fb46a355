package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
)

// Set when a release is built.
var release, commit, date string

// setting returns a setting of the build, such as vcs.revision, or "".
func setting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// version returns the release, else the revision that was built.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	if revision := setting("vcs.revision"); len(revision) >= 12 {
		return "devel-" + revision[:12]
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{
				"version": version(), "protocol": hub.Protocol + " " + hub.Version,
				"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			built := ""
			for _, stamp := range []struct{ name, value string }{
				{"commit", cmp.Or(commit, setting("vcs.revision"))}, {"date", cmp.Or(date, setting("vcs.time"))},
			} {
				if stamp.value != "" {
					v[stamp.name] = stamp.value
					built += ", " + stamp.name + " " + stamp.value
				}
			}
			return a.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "parley %s (%s, %s, %s%s)\n", v["version"], v["protocol"], v["go"], v["platform"], built)
			})
		},
	}
}
