package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
)

// release is set when a release is built.
var release string

// version returns the release, else the revision that was built.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
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
			return a.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "parley %s (%s, %s, %s)\n", v["version"], v["protocol"], v["go"], v["platform"])
			})
		},
	}
}
