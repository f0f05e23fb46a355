package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/server"
)

// A notifyTarget is a way to tell people of things that wait for them.
type notifyTarget struct {
	Name       string        `yaml:"name"`
	Command    []string      `yaml:"command"`
	URL        string        `yaml:"url"`
	URLFile    string        `yaml:"url_file"`
	Template   string        `yaml:"template"`
	SecretFile string        `yaml:"secret_file"`
	Events     []string      `yaml:"events"`
	Quiet      string        `yaml:"quiet"`
	Batch      time.Duration `yaml:"batch"`
	GiveUp     time.Duration `yaml:"give_up"`
}

// target reads the files of a target.
func (n notifyTarget) target() (server.NotifyTarget, error) {
	t := server.NotifyTarget{Name: n.Name, Command: n.Command, URL: n.URL, Template: n.Template, Events: n.Events, Quiet: n.Quiet, Batch: n.Batch, GiveUp: n.GiveUp}
	read := func(member, file string) (string, error) {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", hub.Errorf(hub.CodeInvalid, "parley", "notify: target %q: cannot read %s: %v", n.Name, member, err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	if n.URLFile != "" {
		if n.URL != "" {
			return t, hub.Errorf(hub.CodeInvalid, "parley", "notify: target %q has both url and url_file", n.Name)
		}
		url, err := read("url_file", n.URLFile)
		if err != nil {
			return t, err
		}
		t.URL = url
	}
	if n.SecretFile != "" {
		secret, err := read("secret_file", n.SecretFile)
		if err != nil {
			return t, err
		}
		t.Secret = []byte(secret)
	}
	return t, nil
}

func (a *app) notifyCommand() *cobra.Command {
	var test, replay api.TargetParams
	return noun("notify", "Manage notifications for people",
		operation(a, &cobra.Command{Use: "list", Short: "List notification targets and their state", Args: cobra.NoArgs}, api.ListTargets, &api.None{}, func(w io.Writer, got api.TargetList) {
			if len(got.Targets) == 0 {
				fmt.Fprintln(w, "no notification targets; add them under notify in the configuration file")
			}
			for _, t := range got.Targets {
				fmt.Fprintf(w, "%s by %s: taken %d, waiting %d, dead %d\n", t.Name, t.Way, t.Sent, t.Waiting, t.Dead)
				if t.Problem != "" {
					fmt.Fprintf(w, "  failed %d times since %s: %s; tried again at %s\n", t.Tries, when(t.Since), t.Problem, when(t.Next))
				}
			}
		}),

		prepared(&cobra.Command{Use: "test [TARGET]", Short: "Send a test notice to one or all targets", Long: "Send a test notice to one or all targets. The exit code is 1 if a target does not take it.", Args: cobra.MaximumNArgs(1)}, func(ctx context.Context) error {
			got, err := call(ctx, a, api.TestTarget, test)
			if err != nil {
				return err
			}
			failed := slices.ContainsFunc(got.Targets, func(t notify.TestReport) bool { return !t.Taken })
			return a.check(!failed, got, func(w io.Writer) {
				for _, t := range got.Targets {
					if t.Taken {
						fmt.Fprintf(w, "%s took it\n", t.Name)
						continue
					}
					fmt.Fprintf(w, "%s did not take it: %s\n", t.Name, t.Problem)
				}
			})
		}, argument(0, &test.Target)),

		operation(a, &cobra.Command{Use: "replay [TARGET]", Short: "Resend undelivered notices to one or all targets", Args: cobra.MaximumNArgs(1)}, api.ReplayDead, &replay, func(w io.Writer, got api.Replayed) {
			fmt.Fprintf(w, "sent again: %d\n", got.Count)
		}, argument(0, &replay.Target)),
	)
}
