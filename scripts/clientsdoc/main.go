// Command clientsdoc writes docs/clients.md: the results of clients of other projects. The first
// argument is the folder with the files of clients, the second the folder with the reports
// of "parley comply client --format json", of one client each, in files NAME-VERSION.json.
//
//	go run ./scripts/clientsdoc protocol/comply/clients docs/clients > docs/clients.md
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A client is a client with its report.
type client struct {
	Name, Title, Version, Licence string

	file   string
	report *comply.Report
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "clientsdoc: two arguments, the folder of clients and the folder of reports")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clientsdoc:", err)
		os.Exit(1)
	}
}

// run writes the page.
func run(pins, dir string, out io.Writer) error {
	clients, err := read(pins, dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Clients\n\n" +
		"What the [tests of clients](comply.md#clients) find in clients of other projects, in versions that are pinned, and in our own. Every finding of a MUST was\n" +
		"read frame by frame. NA means that the client was not brought to the point of the test: it lacks a capability, or has no command for it.\n" +
		"Written by `make clients`; do not edit.\n\n" +
		"The reports are kept in [clients](clients). `parley comply explain clients/FILE` lists the findings of one, and `parley comply explain clients/FILE#F1`\n" +
		"shows the rule, the frames in their order, what was expected and why.\n\n")
	overview(&b, clients)
	tests(&b, clients)
	findings(&b, clients)
	_, err = io.WriteString(out, b.String())
	return err
}

// ours has the titles of our own clients, by their names.
var ours = map[string]string{
	"keeper":    "the hub's keeper",
	"parley":    "parley acp exec",
	"parley-v2": "parley acp exec --v2",
}

// read returns the clients that have a report, in the order of their names.
func read(pins, dir string) ([]client, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []client
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		report, err := comply.ParseReport(file, text)
		if err != nil {
			return nil, err
		}
		name := report.Agents[0].Name
		c := client{Name: name, Title: ours[name], Version: report.Tool, Licence: "Apache-2.0", file: filepath.Base(file), report: report}
		if about, err := os.ReadFile(filepath.Join(pins, name, "client.json")); err == nil {
			if err := json.Unmarshal(about, &c); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no reports in %s", dir)
	}
	slices.SortFunc(out, func(a, b client) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// overview writes a row for each client.
func overview(b *strings.Builder, clients []client) {
	b.WriteString("| client | program | version | licence | protocol | tested | PASS | WARN | FAIL | NA | ERROR |\n|---|---|---|---|---|---|---:|---:|---:|---:|---:|\n")
	for _, c := range clients {
		totals := c.report.Agents[0].Totals
		day, _, _ := strings.Cut(c.report.Started, "T")
		fmt.Fprintf(b, "| [%s](clients/%s) | %s | %s | %s | %d | %s | %d | %d | %d | %d | %d |\n", c.Name, c.file, c.Title, c.Version, c.Licence, c.report.Protocol, day,
			totals[comply.Pass], totals[comply.Warn], totals[comply.Fail], totals[comply.NA], totals[comply.Errored])
	}
}

// tests writes a row for each test. A client has an empty cell if it was tested in the other
// version of the protocol, or by other tests.
func tests(b *strings.Builder, clients []client) {
	b.WriteString("\n## Tests\n\n| test |")
	for _, c := range clients {
		fmt.Fprintf(b, " %s |", c.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(clients)) + "\n")
	var ids []string
	for _, c := range clients {
		for _, t := range c.report.Agents[0].Tests {
			if !slices.Contains(ids, t.ID) {
				ids = append(ids, t.ID)
			}
		}
	}
	for _, id := range ids {
		fmt.Fprintf(b, "| %s |", id)
		for _, c := range clients {
			status := ""
			for _, own := range c.report.Agents[0].Tests {
				if own.ID == id {
					status = string(own.Status)
				}
			}
			fmt.Fprintf(b, " %s |", status)
		}
		b.WriteString("\n")
	}
}

// findings writes the findings of each client.
func findings(b *strings.Builder, clients []client) {
	b.WriteString("\n## Findings\n\n")
	for _, c := range clients {
		fmt.Fprintf(b, "### %s\n\n", c.Name)
		found := c.report.Index()
		if len(found) == 0 {
			b.WriteString("None.\n\n")
			continue
		}
		b.WriteString("| finding | rule | level | what the rule asks | what came |\n|---|---|---|---|---|\n")
		for _, f := range found {
			r := rules.Find(f.Rule)
			fmt.Fprintf(b, "| %s | [%s](%s) | %s | %s | %s |\n", f.ID, f.Rule, r.Page(), f.Level, r.Text, cell(f.Actual))
		}
		b.WriteString("\n")
	}
}

// cell returns text of a client for a cell of a table.
func cell(s string) string {
	s = strings.NewReplacer("|", `\|`, "\n", " ", "<", `\<`, "`", "'", "*", `\*`).Replace(s)
	return shorten.Text(s, 160)
}
