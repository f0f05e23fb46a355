package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/event"
)

// eventsCommand returns the commands for events from outside.
func (a *app) eventsCommand() *cobra.Command {
	cmd := noun("events", "Let events from outside wake agents", a.inListCommand(), a.inAddCommand(), a.inShowCommand(), a.inPollCommand(), a.inRemoveCommand())
	cmd.Long = `Let events from outside wake agents: results of CI, reviews, comments, issues and pushes of
GitHub, GitLab and Gitea, or events of any program. An event goes to the agent that works
on its branch, commit or task, else to the target of its source.

Webhooks reach the hub at /in/NAME on an address of their own, which "parley serve
--in-addr" opens. Without a public address, "parley events poll" asks the vendor instead.`
	return cmd
}

// An eventMap is the file of --map.
type eventMap struct {
	Rules   []eventRule       `yaml:"rules"`
	Members []string          `yaml:"members"`
	Fields  map[string]string `yaml:"fields"`
}

// An eventRule is a hub.EventRule as the file has it.
type eventRule struct {
	Kind       hub.EventKind `yaml:"kind"`
	State      string        `yaml:"state"`
	Repository string        `yaml:"repository"`
	Branch     string        `yaml:"branch"`
	Actor      string        `yaml:"actor"`
	To         string        `yaml:"to"`
	Quiet      bool          `yaml:"quiet"`
	Ignore     bool          `yaml:"ignore"`
}

func (a *app) inAddCommand() *cobra.Command {
	var set event.Setting
	var secretFile, mapFile string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an event source (operator)",
		Long: `Add an event source, or replace one. The file holds the secret of the webhook, as you
give it to the vendor, or the signing token that GitLab gives you (whsec_...); the hub
keeps it encrypted. Events of people who are not members of the repository are stored and
wake nobody, unless --actors is all; results of CI always may.

The --map file has rules, of which the first that matches decides, the names of members for
vendors that do not report them, and the fields of generic events:

  rules:
    - {kind: ci, state: success, quiet: true}
    - {kind: comment, repository: acme/*, to: builder}
  members: [ada, grace]`,
		Example: `  parley events add github --from github --secret-file secret.txt --to builder
  parley events add builds --from generic --secret-file secret.txt --to team:core`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar((*string)(&set.Vendor), "from", "", "vendor: github, gitlab, gitea or generic")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret of the webhook")
	cmd.Flags().StringVar(&set.To, "to", hub.ToOwner, "agent, team:NAME or owner, for events about work that no agent owns")
	cmd.Flags().StringVar((*string)(&set.Actors), "actors", string(hub.ActorsMembers), "whose events may wake an agent: members or all")
	cmd.Flags().StringVar(&mapFile, "map", "", "file with rules, members and fields")
	cmd.MarkFlagRequired("from")
	cmd.MarkFlagRequired("secret-file")
	choices(cmd, "from", hub.EventVendors...)
	choices(cmd, "actors", hub.ActorsMembers, hub.ActorsAll)
	return operation(a, cmd, api.AddSource, &set, writeSourceAdded, argument(0, &set.Name), func(context.Context, []string) (err error) {
		if set.Secret, err = secretOf("--secret-file", secretFile); err != nil || mapFile == "" {
			return err
		}
		raw, err := os.ReadFile(mapFile)
		if err != nil {
			return invalid(err)
		}
		var m eventMap
		if err := strictyaml.DecodeOnly(mapFile, raw, &m); err != nil {
			return err
		}
		for _, r := range m.Rules {
			set.Rules = append(set.Rules, hub.EventRule(r))
		}
		set.Members = m.Members
		set.Fields = m.Fields
		return nil
	})
}

// secretOf returns the content of the file of a flag, without spaces around it.
func secretOf(flag, file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "parley", "%s: %w", flag, err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// writeSourceAdded says where a new source is reached.
func writeSourceAdded(w io.Writer, got api.SourceAnswer) {
	fmt.Fprintf(w, "added %s\n", got.Source.Name)
	if got.URL == "" {
		fmt.Fprintln(w, "The hub does not listen for webhooks: start it with --in-addr HOST:PORT, or use \"parley events poll\".")
		return
	}
	fmt.Fprintf(w, "webhook address: %s\n", got.URL)
}

func (a *app) inListCommand() *cobra.Command {
	return operation(a, &cobra.Command{Use: "list", Short: "List the event sources", Args: cobra.NoArgs}, api.ListSources, &api.None{}, func(w io.Writer, got api.SourceList) {
		if len(got.Sources) == 0 {
			fmt.Fprintln(w, "no event sources")
			return
		}
		writeTable(w, "SOURCE, VENDOR, TO, ACTORS, STORED, QUIET, REPEATED, REFUSED", got.Sources, func(s event.Source) []any {
			refused := s.Counts[hub.EventForged] + s.Counts[hub.EventTooLarge] + s.Counts[hub.EventTooMany] + s.Counts[hub.EventUnreadable]
			return []any{s.Name, s.Vendor, s.To, s.Actors, s.Counts[hub.EventStored], s.Counts[hub.EventQuiet], s.Counts[hub.EventRepeated], refused}
		})
		if got.URL == "" {
			fmt.Fprintln(w, "the hub does not listen for webhooks: parley serve --in-addr")
		}
	})
}

func (a *app) inShowCommand() *cobra.Command {
	var p api.SourceParams
	return operation(a, &cobra.Command{Use: "show NAME", Short: "Show an event source with its rules and counts", Args: cobra.ExactArgs(1)}, api.ShowSource, &p, writeSource, argument(0, &p.Name))
}

// writeSource writes a source with everything but its secret.
func writeSource(w io.Writer, got api.SourceAnswer) {
	s := got.Source
	fmt.Fprintf(w, "%s: %s, to %s, actors %s, since %s\n", s.Name, s.Vendor, s.To, s.Actors, when(s.SetAt))
	if got.URL != "" {
		fmt.Fprintf(w, "webhook address: %s\n", got.URL)
	}
	for i, r := range s.Rules {
		fmt.Fprintf(w, "rule %d: %s\n", i+1, ruleText(r))
	}
	if len(s.Members) > 0 {
		fmt.Fprintf(w, "members: %s\n", strings.Join(s.Members, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		fmt.Fprintf(w, "field %s: %s\n", name, s.Fields[name])
	}
	for _, p := range s.Polls {
		every := cmp.Or(time.Duration(p.Seconds)*time.Second, time.Minute)
		fmt.Fprintf(w, "polls %s at %s every %s\n", p.Repository, p.API, every)
	}
	for _, outcome := range hub.EventOutcomes {
		if n := s.Counts[outcome]; n > 0 {
			fmt.Fprintf(w, "%s: %d\n", outcome, n)
		}
	}
}

// ruleText returns a rule on one line.
func ruleText(r hub.EventRule) string {
	var parts []string
	for _, p := range [][2]string{{"kind", string(r.Kind)}, {"state", r.State}, {"repository", r.Repository}, {"branch", r.Branch}, {"actor", r.Actor}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "everything")
	switch {
	case r.Ignore:
		text += ": ignored"
	case r.To != "":
		text += ": to " + r.To
	}
	if r.Quiet {
		text += ", wakes nobody"
	}
	return text
}

func (a *app) inRemoveCommand() *cobra.Command {
	var p api.SourceParams
	return operation(a, &cobra.Command{Use: "remove NAME", Short: "Remove an event source (operator)", Long: "Remove an event source. Its messages stay in the inboxes.", Args: cobra.ExactArgs(1)}, api.RemoveSource, &p,
		func(w io.Writer, _ api.None) { fmt.Fprintf(w, "removed %s\n", p.Name) }, argument(0, &p.Name))
}

func (a *app) inPollCommand() *cobra.Command {
	var set event.PollSetting
	var tokenFile string
	cmd := &cobra.Command{
		Use:   "poll NAME",
		Short: "Ask a vendor's API for the events of a repository (operator)",
		Long: `Make the hub ask the API of a vendor for the events of a repository, from now on, for a hub
that webhooks cannot reach. The hub sends the tag of the last answer, so that an unchanged
list uses none of your quota, and asks no more often than the vendor allows. Events arrive
later than by webhook: GitHub's list of events can be hours behind, that of runs is not.`,
		Example: `  parley events poll github --repo acme/shop --token-file token.txt
  parley events poll github --repo acme/shop --stop`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&set.Repository, "repo", "", "repository: owner/name")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with a token that may read the repository")
	cmd.Flags().StringVar(&set.API, "api", "", "address of the API; needed for gitea and for servers of your own")
	cmd.Flags().BoolVar(&set.Stop, "stop", false, "stop asking about the repository")
	every := secondsFlag(cmd, &set.Seconds, "every", "time between two requests (default 1m)")
	cmd.MarkFlagRequired("repo")
	return operation(a, cmd, api.PollSource, &set, func(w io.Writer, got api.SourceAnswer) { writeSource(w, got) }, argument(0, &set.Name), every, func(context.Context, []string) (err error) {
		if tokenFile != "" {
			set.Token, err = secretOf("--token-file", tokenFile)
		}
		return err
	})
}
