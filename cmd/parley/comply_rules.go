package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// complyRulesCommand explains rules.
func (a *app) complyRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rules [ID...]",
		Short: "List or explain rules",
		RunE: func(_ *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				tests, err := comply.Suite()
				if err != nil {
					return err
				}
				return a.listRules(tests)
			}

			// All ids are checked before anything is printed.
			var chosen []comply.Rule
			all := slices.Concat(comply.Rules(), rules.ForClients())
			for _, id := range ids {
				i := slices.IndexFunc(all, func(r comply.Rule) bool { return r.ID == strings.ToUpper(id) })
				if i < 0 {
					return usagef("no rule with id %q", id).WithHint(`run "parley comply rules" or "parley comply client --list-rules" to list the rules`)
				}
				chosen = append(chosen, all[i])
			}

			type item struct {
				comply.Rule
				Since   string         `json:"since"`
				Page    string         `json:"page"`
				Example comply.Example `json:"example"`
			}
			items := []item{}
			for _, r := range chosen {
				items = append(items, item{r, r.Since(), "docs/" + r.Page(), comply.ExampleOf(r.ID)})
			}

			return a.print(map[string]any{"rules": items}, func(w io.Writer) {
				for _, r := range chosen {
					fmt.Fprintln(w, r.Markdown())
				}
			})
		},
	}
}

// complyExplainCommand shows how a finding of a report came about.
func (a *app) complyExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain REPORT[#FINDING]",
		Short: "Explain a finding of a JSON report",
		Long: `Explain a finding of a report written by "parley comply --format json": the rule, the
frames of the conversation in order, the expected and the actual frame, and the
reason. Without #FINDING, list the findings of the report with their ids.`,
		Example: `  parley comply explain report.json
  parley comply explain report.json#F3`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, id, _ := strings.Cut(args[0], "#")
			report, err := readReport(path)
			if err != nil {
				return err
			}

			found := report.Index()
			if id == "" {
				return a.print(map[string]any{"findings": found}, func(w io.Writer) {
					for _, f := range found {
						fmt.Fprintf(w, "%-5s %s %-8s %-6s %s\n", f.ID, f.Agent, f.Rule, f.Level, f.Actual)
					}
				})
			}

			i := slices.IndexFunc(found, func(f comply.IndexedFinding) bool { return strings.EqualFold(f.ID, id) })
			if i < 0 {
				return usagef("no finding with id %q in %s", id, path).WithHint(`run "parley comply explain %s" to list the findings`, path)
			}
			return a.print(found[i], func(w io.Writer) { fmt.Fprint(w, found[i].Explain()) })
		},
	}
}

// complyCompareCommand shows the changes from one report to another.
func (a *app) complyCompareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two JSON reports",
		Long: `Show the changes between two JSON reports. The exit code is 1 if a MUST is newly
broken.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := readReport(args[0])
			if err != nil {
				return err
			}
			after, err := readReport(args[1])
			if err != nil {
				return err
			}

			changes := comply.Compare(before, after)
			err = a.print(map[string]any{"changes": changes}, func(w io.Writer) {
				for _, c := range changes {
					fmt.Fprintln(w, c.String())
				}
				if len(changes) == 0 {
					fmt.Fprintln(w, "nothing has changed")
				}
			})

			// The changes are printed also if they fail the command.
			if err == nil && slices.ContainsFunc(changes, func(c comply.Change) bool { return c.Worse }) {
				return errCheck
			}
			return err
		},
	}
}

// complyRenderCommand writes a report in another form.
func (a *app) complyRenderCommand() *cobra.Command {
	var f complyFlags
	cmd := &cobra.Command{
		Use:   "render REPORT",
		Short: "Convert a JSON report to another format",
		Example: `  parley comply render --format pr report.json >> "$GITHUB_STEP_SUMMARY"
  parley comply render --format html report.json > report.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.checkFormat(); err != nil {
				return err
			}
			report, err := readReport(args[0])
			if err != nil {
				return err
			}
			return f.write(a.out, report)
		},
	}
	f.formatFlags(cmd)
	return cmd
}

// readReport reads a report that parley comply --format json wrote.
func readReport(path string) (*comply.Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid(err)
	}
	report, err := comply.ParseReport(path, text)
	if err != nil {
		return nil, invalid(err)
	}
	return report, nil
}
