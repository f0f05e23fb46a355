package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/report"
)

// maxReportInput is how much of a file is looked at. A transcript may be long;
// the report stands at its end.
const maxReportInput = 64 << 20

func (a *app) reportCommand() *cobra.Command {
	return group("report", "Read, check and write compact reports and dispatches",
		a.reportParseCommand(), a.reportLintCommand(), a.reportEmitCommand(), a.reportPromptCommand(), a.reportSchemaCommand(), a.reportVectorsCommand())
}

func (a *app) reportParseCommand() *cobra.Command {
	var mode, form string
	var dispatch bool
	cmd := &cobra.Command{
		Use:   "parse [FILE...]",
		Short: "Parse reports from files or standard input",
		Long:  "Parse reports from files or standard input. The exit code is 1 if a text is not a report.",
		Example: `  my-agent "fix the build" | parley report parse --json
  parley report parse --mode reference answer.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			read, err := reportReader(form, report.Mode(mode))
			if err != nil {
				return err
			}

			return a.eachReport(cmd.Context(), args, func(name, text string) (bool, error) {
				if dispatch {
					r, err := report.ParseAnyDispatch(text, nil)
					return err == nil, a.printParsed(name, r, r.Diagnostics)
				}
				r, err := read(text)
				return err == nil, a.printParsed(name, r, r.Diagnostics)
			})
		},
	}

	cmd.Flags().StringVar(&mode, "mode", string(report.Tolerant), "parser: tolerant, or reference, which reads as the protocol's public parser does")
	cmd.Flags().StringVar(&form, "form", "any", "form of the input: any, text or json; in reference mode any means text")
	cmd.Flags().BoolVar(&dispatch, "dispatch", false, "parse dispatches, the messages that assign work, instead of reports")
	choices(cmd, "mode", report.Tolerant, report.Reference)
	choices(cmd, "form", "any", "text", "json")
	return cmd
}

// reportReader returns a reader of reports in the given form and mode.
func reportReader(form string, mode report.Mode) (func(string) (report.Result, error), error) {
	if mode != report.Tolerant && mode != report.Reference {
		return nil, usagef("--mode: unknown mode %q", mode).WithHint("use %s or %s", report.Tolerant, report.Reference)
	}
	opts := &report.Options{Mode: mode}
	switch form {
	case "any":
		return func(text string) (report.Result, error) { return report.ParseAny(text, opts) }, nil
	case "text":
		return func(text string) (report.Result, error) { return report.Parse(text, opts) }, nil
	case "json":
		return func(text string) (report.Result, error) { return report.ParseJSON([]byte(text), opts) }, nil
	}
	return nil, usagef("--form: unknown form %q", form).WithHint("use any, text or json")
}

func (a *app) reportLintCommand() *cobra.Command {
	var scope []string
	var dispatch, prompt bool
	cmd := &cobra.Command{
		Use:   "lint [FILE...]",
		Short: "Check reports for errors and warnings",
		Long:  "Check reports for errors and warnings. The exit code is 1 if there is an error.",
		Example: `  parley report lint --scope internal/limit answer.txt
  parley report lint --dispatch task.txt
  parley report lint --prompt instructions.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachReport(cmd.Context(), args, func(name, text string) (bool, error) {
				lint := report.Lint
				switch {
				case dispatch:
					lint = report.LintDispatch
				case prompt:
					lint = report.LintPrompt
				}

				found, err := lint(text, &report.LintOptions{Scope: scope})
				if err != nil {
					return false, err
				}
				ok := !report.HasError(found)
				return ok, a.printFindings(name, ok, found)
			})
		},
	}

	cmd.Flags().StringSliceVar(&scope, "scope", nil, "path prefixes that the agent may touch")
	cmd.Flags().BoolVar(&dispatch, "dispatch", false, "check dispatches, the messages that assign work, instead of reports")
	cmd.Flags().BoolVar(&prompt, "prompt", false, "check each example of a report in a prompt separately")
	cmd.MarkFlagsMutuallyExclusive("dispatch", "prompt")
	return cmd
}

func (a *app) reportEmitCommand() *cobra.Command {
	var dispatch, anyStatus bool
	cmd := &cobra.Command{
		Use:   "emit [FILE...]",
		Short: "Convert reports to canonical form",
		Long: `Convert reports, given as JSON or text, to canonical form, or to JSON with --json.
The exit code is 1, and nothing is written, for a text that is not a report, for a status
that the protocol does not know, and for a value that canonical form cannot hold.`,
		Example: `  echo '{"status":"ok","tests":"pass:12"}' | parley report emit
  parley report emit --json answer.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachReport(cmd.Context(), args, func(name, text string) (bool, error) {
				if dispatch {
					r, err := report.ParseAnyDispatch(text, nil)
					return a.emit(name, r.Dispatch, r.Diagnostics, err == nil)
				}
				r, err := report.ParseAny(text, nil)
				if err == nil && !r.Status.Known() && !anyStatus {
					fmt.Fprintf(a.err, "%s: %q is not a status of the protocol; --any-status keeps it, and the protocol has %s\n", name, r.Status, joinedWords(report.Statuses()))
					return false, nil
				}
				return a.emit(name, r.Report, r.Diagnostics, err == nil)
			})
		},
	}
	cmd.Flags().BoolVar(&dispatch, "dispatch", false, "convert dispatches, the messages that assign work, instead of reports")
	cmd.Flags().BoolVar(&anyStatus, "any-status", false, "keep a status that the protocol does not know")
	return cmd
}

// emit writes a message in canonical form, or the findings about a text that could
// not be parsed or that says more than its canonical form would.
func (a *app) emit(name string, m message, found []report.Diagnostic, isRead bool) (bool, error) {
	if !isRead {
		a.printDiagnostics(name, found)
		return false, nil
	}
	if lost, ok := report.Lost(found); ok {
		a.printDiagnostics(name, []report.Diagnostic{lost})
		return false, nil
	}

	text, err := m.Text()
	if err != nil {
		fmt.Fprintf(a.err, "%s: %s\n", name, err)
		return false, nil
	}
	return true, a.print(m, func(w io.Writer) { io.WriteString(w, text) })
}

func (a *app) reportPromptCommand() *cobra.Command {
	prompts := report.Prompts()
	var names []string
	for _, p := range prompts {
		names = append(names, p.Name)
	}

	return &cobra.Command{
		Use:   "prompt [NAME]",
		Short: "Print instructions for answering with a report",
		Long: `Print a text that makes an agent answer with a report.

  system    for the agent's instructions (the default)
  closure   for one more turn, without tools, of an agent that did not report
  json      for the instructions of an agent that answers in JSON`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			name := names[0]
			if len(args) > 0 {
				name = args[0]
			}

			for _, p := range prompts {
				if p.Name == name {
					return a.print(p, func(w io.Writer) { io.WriteString(w, p.Text) })
				}
			}
			return hub.Errorf(hub.CodeNotFound, "parley", "no prompt named %q", name).WithHint("use one of %s", strings.Join(names, ", "))
		},
	}
}

func (a *app) reportSchemaCommand() *cobra.Command {
	var dispatch bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a report",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := report.Schema()
			if dispatch {
				text = report.DispatchSchema()
			}
			_, err := io.WriteString(a.out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&dispatch, "dispatch", false, "print the schema of a dispatch, the message that assigns work")
	return cmd
}

func (a *app) reportVectorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "vectors",
		Short: "Print test vectors for other parsers of reports",
		Long: `Print texts, JSON objects and dispatches with the results that a parser should have, as JSON.
The member "about" describes the others.`,
		Example: `  parley report vectors > vectors.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, report.Vectors())
			return err
		},
	}
}

// eachReport calls f with each file, or with standard input if there is none.
// It fails with errCheck if f says no of one of them.
func (a *app) eachReport(ctx context.Context, files []string, f func(name, text string) (bool, error)) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	good := true
	for _, file := range files {
		tooLarge := hub.Errorf(hub.CodeTooLarge, "parley", "%s is larger than %d bytes", file, maxReportInput).WithHint("parse only the end of it: tail -c 1M FILE | parley report parse")
		text, err := a.read(ctx, file, maxReportInput, tooLarge)
		if err != nil {
			return err
		}
		if file == "-" {
			file = "standard input"
		}
		ok, err := f(file, string(text))
		if err != nil {
			return err
		}
		good = good && ok
	}
	if !good {
		return errCheck
	}
	return nil
}

// A message can be written in canonical form.
type message interface{ Text() (string, error) }

// printParsed prints a report in canonical form, and the findings about it on
// stderr.
func (a *app) printParsed(name string, m message, said []report.Diagnostic) error {
	return a.print(m, func(w io.Writer) {
		if text, err := m.Text(); err == nil { // fails for a text that is no message: the diagnostics say so
			io.WriteString(w, text)
		}
		a.printDiagnostics(name, said)
	})
}

// printDiagnostics prints the findings about a text on stderr.
func (a *app) printDiagnostics(name string, all []report.Diagnostic) {
	for _, d := range all {
		fmt.Fprintln(a.err, finding(name, d))
	}
}

// finding returns a diagnostic as compilers write theirs.
func finding(name string, d report.Diagnostic) string {
	where := name
	if d.Line > 0 {
		where = fmt.Sprintf("%s:%d", name, d.Line)
	}
	return fmt.Sprintf("%s: %s: %s (%s)", where, d.Code.Severity(), d.Message, d.Code)
}

func (a *app) printFindings(name string, ok bool, found []report.Diagnostic) error {
	type item struct {
		report.Diagnostic
		Severity report.Severity `json:"severity"`
	}
	items := []item{}
	for _, d := range found {
		items = append(items, item{d, d.Code.Severity()})
	}
	return a.print(map[string]any{"ok": ok, "findings": items}, func(w io.Writer) {
		for _, d := range found {
			fmt.Fprintln(w, finding(name, d))
		}
	})
}
