package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/upgrade"
)

// download is the address below which releases are; it is set when a release is built.
// PARLEY_DOWNLOAD names another one.
var download string

// An upgradeReport is the answer of upgrade with --json.
type upgradeReport struct {
	Version  string `json:"version"`           // of this program
	Release  string `json:"release,omitempty"` // the newest one, or that of --to
	Program  string `json:"program"`           // the file
	Upgraded bool   `json:"upgraded"`
	Back     bool   `json:"back,omitempty"`      // the program from before the last upgrade was restored
	Restart  bool   `json:"restarted,omitempty"` // the service runs the new program
}

// upgradeFlags are the flags of upgrade.
type upgradeFlags struct {
	check, back, restart bool
	to, key              string
}

func (a *app) upgradeCommand() *cobra.Command {
	var f upgradeFlags
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Upgrade to the newest release",
		Long: `Download the newest release, verify its checksum and replace this program with it. The
old program stays beside the new one, with the suffix .before; --back restores it. A
running hub uses the old program until it is restarted.

With --key, the release must be signed with that gpg key. A program that a package
manager installed is not replaced; the error names the manager's command. An older
release is installed only with --to. PARLEY_DOWNLOAD names another address for
downloads, such as a mirror.`,
		Example: `  parley upgrade --check
  parley upgrade --restart
  parley upgrade --to v1.2.3
  parley upgrade --back`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err == nil {
				program, err = filepath.EvalSymlinks(program)
			}
			if err != nil {
				return err
			}
			if err := a.mayUpgrade(cmd.Context(), program, f); err != nil {
				return err
			}
			if f.back {
				return a.upgradeBack(cmd.Context(), program, f)
			}
			return a.upgrade(cmd.Context(), program, f)
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "print whether there is a newer release, with exit code 1 if there is, and change nothing")
	cmd.Flags().StringVar(&f.to, "to", "", "the release to install, such as v1.2.3 (default the newest)")
	cmd.Flags().StringVar(&f.key, "key", "", "file with the public gpg key that must have signed the release")
	cmd.Flags().BoolVar(&f.back, "back", false, "restore the program from before the last upgrade")
	cmd.Flags().BoolVar(&f.restart, "restart", false, "restart the hub after the program was replaced; it must run as a service")
	for _, other := range []string{"check", "to", "key"} {
		cmd.MarkFlagsMutuallyExclusive("back", other)
	}
	cmd.MarkFlagsMutuallyExclusive("check", "restart")
	return cmd
}

// mayUpgrade refuses to replace a program that a package manager owns, and to restart a hub that
// is not a service, before anything is downloaded.
func (a *app) mayUpgrade(ctx context.Context, program string, f upgradeFlags) error {
	const op = "upgrade"
	if f.check {
		return nil
	}
	if m, ok := upgrade.ManagerOf(ctx, program); ok {
		return hub.Errorf(hub.CodePolicy, op, "%s was installed with %s", program, m.Name).WithHint("upgrade it with: %s", m.Command)
	}
	if !f.restart {
		return nil
	}
	if _, err := a.installedService(); err != nil {
		return hub.Errorf(hub.CodeNotFound, op, "--restart needs a hub that runs as a service").WithHint("upgrade without it, then stop the hub and start it again")
	}
	return nil
}

// upgrade installs a release, unless this program is that release.
func (a *app) upgrade(ctx context.Context, program string, f upgradeFlags) error {
	const op = "upgrade"
	address := cmp.Or(os.Getenv("PARLEY_DOWNLOAD"), download)
	if address == "" {
		return hub.Errorf(hub.CodeNotEnabled, op, "this program was built without a download address").
			WithHint("set PARLEY_DOWNLOAD, or upgrade the way you installed it")
	}
	tag := f.to
	if tag != "" && !strings.HasPrefix(tag, "v") {
		tag = "v" + tag
	}
	source := upgrade.Source{Address: address, Key: f.key}
	found, err := source.Find(ctx, tag)
	if err != nil {
		return err
	}

	report := upgradeReport{Version: version(), Release: found.Version, Program: program}
	isSame := upgrade.SameVersion(found.Version, report.Version)
	isOlder := upgrade.Older(found.Version, report.Version)
	switch {
	case f.check:
		return a.check(isSame || isOlder, report, func(w io.Writer) { writeUpgradeCheck(w, report, isSame, isOlder) })
	case isSame:
		return a.print(report, func(w io.Writer) { writeInstalled(w, report, f) })
	case isOlder && f.to == "":
		return hub.Errorf(hub.CodeConflict, op, "the newest release, %s, is older than this program, %s", found.Version, report.Version).
			WithHint("to install the older release: parley upgrade --to %s", found.Version)
	}

	fmt.Fprintf(a.err, "downloading %s\n", found.Archive)
	fresh, err := source.Fetch(ctx, found, filepath.Dir(program))
	if err != nil {
		return err
	}
	defer os.Remove(fresh) // if it did not become the program
	if err := upgrade.Replace(ctx, program, fresh); err != nil {
		return err
	}
	report.Upgraded = true
	return a.finishUpgrade(ctx, report, f, fmt.Sprintf("replaced parley %s with %s: %s", report.Version, found.Version, program))
}

// writeUpgradeCheck prints whether there is a newer release.
func writeUpgradeCheck(w io.Writer, r upgradeReport, isSame, isOlder bool) {
	switch {
	case isSame:
		fmt.Fprintf(w, "parley %s is the newest release\n", r.Version)
	case isOlder:
		fmt.Fprintf(w, "parley %s is newer than the newest release, %s\n", r.Version, r.Release)
	default:
		fmt.Fprintf(w, "parley %s is available; this is %s\n", r.Release, r.Version)
	}
}

// writeInstalled prints that there was nothing to install. The hub is not restarted then, so that a
// timer may upgrade with --restart.
func writeInstalled(w io.Writer, r upgradeReport, f upgradeFlags) {
	fmt.Fprintf(w, "parley %s is already installed\n", r.Version)
	if f.restart {
		fmt.Fprintln(w, "the hub was not restarted")
	}
}

// upgradeBack restores the program from before the last upgrade.
func (a *app) upgradeBack(ctx context.Context, program string, f upgradeFlags) error {
	if err := upgrade.Back(ctx, program); err != nil {
		return err
	}
	report := upgradeReport{Version: version(), Program: program, Back: true}
	return a.finishUpgrade(ctx, report, f, "restored the program from before the last upgrade: "+program)
}

// finishUpgrade restarts the hub if that is wanted, and prints what was done.
func (a *app) finishUpgrade(ctx context.Context, report upgradeReport, f upgradeFlags, text string) error {
	if f.restart {
		s, err := a.installedService()
		if err == nil {
			err = s.Restart(ctx)
		}
		if err != nil {
			return hub.Errorf(hub.CodeDegraded, "upgrade", "%s, but the hub was not restarted: %v", text, err)
		}
		report.Restart = true
	}
	return a.print(report, func(w io.Writer) {
		fmt.Fprintln(w, text)
		if report.Upgraded {
			fmt.Fprintln(w, "to go back: parley upgrade --back")
		}
		if report.Restart {
			fmt.Fprintln(w, "restarted the hub")
		} else {
			fmt.Fprintln(w, "a running hub uses it after a restart")
		}
	})
}
