package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
)

// A comparedFiles is the JSON output of contract compare.
type comparedFiles struct {
	From string `json:"from"`
	To   string `json:"to"`
	compat.Verdict
}

func (a *app) contractCompareCommand() *cobra.Command {
	var format, direction string
	var parts []string
	cmd := &cobra.Command{
		Use: "compare OLD NEW", Short: "Check that a new version of a file breaks no consumer",
		Long: `Compare two versions of a JSON Schema, an OpenAPI document or a contract in the small
shape, without a hub. The exit code is 0 if the new version is compatible and 1 if it is
breaking or unknown. A breaking change is shown with a document that proves it, where one
can be found. Every rule has a page in docs/contract-rules.

The files are JSON or YAML; - is standard input.`,
		Example: `  parley contract compare user.v1.json user.v2.json
  git show main:api.yaml | parley contract compare - api.yaml
  parley contract compare old.json new.json --direction response --part User.avatar`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.compareFiles(cmd.Context(), args[0], args[1], compat.Format(format), compat.Direction(direction), parts)
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "format of both files: json-schema, openapi, shape or custom (default: by their content)")
	cmd.Flags().StringVar(&direction, "direction", "", "who sends the documents of a schema: request (consumers), response (the provider) or both (default both; an event is a response)")
	cmd.Flags().StringArrayVar(&parts, "part", nil, "compare for a consumer of this part alone: a JSON pointer, an operation or a field such as User.avatar")
	choices(cmd, "format", compat.Formats...)
	choices(cmd, "direction", compat.Directions...)
	return cmd
}

// compareFiles compares two files and prints the verdict.
func (a *app) compareFiles(ctx context.Context, from, to string, format compat.Format, direction compat.Direction, parts []string) error {
	if format != "" && !slices.Contains(compat.Formats, format) {
		return usagef("--format: unknown format %q", format).WithHint("use %s", strings.Join(words(compat.Formats), ", "))
	}
	if direction != "" && !slices.Contains(compat.Directions, direction) {
		return usagef("--direction: unknown direction %q", direction).WithHint("use request, response or both")
	}
	old, err := a.readVersion(ctx, from, format)
	if err != nil {
		return err
	}
	new, err := a.readVersion(ctx, to, format)
	if err != nil {
		return err
	}

	options := compat.Options{Direction: direction}
	if len(parts) > 0 {
		options.Consumers = []compat.Consumer{{Repository: "consumer", Parts: parts}}
	}
	v := compat.Compare(old, new, options)
	word := v.Verdict
	if len(parts) > 0 {
		word = v.Consumers[0].Verdict
	}
	return a.check(word == compat.Compatible, comparedFiles{from, to, v}, func(w io.Writer) { a.writeComparison(w, v, word) })
}

// readVersion reads one version of a contract from a file. The name may begin with @.
func (a *app) readVersion(ctx context.Context, name string, format compat.Format) (compat.Document, error) {
	file := strings.TrimPrefix(name, "@")
	tooLarge := hub.Errorf(hub.CodePayloadTooLarge, "parley", "%s is larger than %d bytes", file, compat.MaxBytes)
	text, err := a.read(ctx, file, compat.MaxBytes, tooLarge)
	if err != nil {
		return compat.Document{}, err
	}
	d, err := compat.Read(text, &compat.ReadOptions{Format: format})
	var refused *compat.Refusal
	if errors.As(err, &refused) {
		if file == "-" {
			file = "standard input"
		}
		return compat.Document{}, hub.Errorf(hub.CodeInvalid, "parley", "%s: %v", file, refused)
	}
	return d, err
}

// verdictColours are the colours of verdicts on a terminal.
var verdictColours = map[compat.Word]string{compat.Compatible: "32", compat.Unknown: "33", compat.Breaking: "31"}

// writeComparison prints a verdict for people: the word, then each finding with its rule and
// its example. Findings that do not concern the declared parts are left out.
func (a *app) writeComparison(w io.Writer, v compat.Verdict, word compat.Word) {
	shown := v.Findings
	if len(v.Consumers) > 0 {
		shown = nil
		for _, i := range v.Consumers[0].Findings {
			shown = append(shown, v.Findings[i])
		}
		for _, part := range v.Consumers[0].Missing {
			fmt.Fprintf(a.err, "note: the old version has no part %s\n", part)
		}
	}
	fmt.Fprintln(w, a.paint(w, verdictColours[word], string(word)))
	if len(v.Findings) == 0 {
		fmt.Fprintln(w, "nothing changed")
	} else if len(shown) == 0 {
		fmt.Fprintln(w, "no difference touches these parts")
	}
	for _, f := range shown {
		if len(v.Consumers) > 0 {
			f.Verdict = f.IfUsed()
		}
		a.writeCompared(w, f)
	}
}

// writeCompared prints one finding.
func (a *app) writeCompared(w io.Writer, f compat.Finding) {
	at := f.Pointer
	if at == "" {
		at = "the whole document"
	}
	fmt.Fprintf(w, "\n%s %s\n  at %s\n  %s\n", a.paint(w, verdictColours[f.Verdict], string(f.Verdict)), f.Rule, at, f.Text)
	switch e := f.Example; {
	case e != nil:
		fmt.Fprintf(w, "  example, %s: %s\n  the %s version takes it; the %s version refuses it: %s\n", e.Where, e.Document, e.TakenBy, e.RefusedBy, e.Reason)
	case f.NoExample != "":
		fmt.Fprintf(w, "  %s\n", f.NoExample)
	}
}
