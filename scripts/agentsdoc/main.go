// Command agentsdoc writes docs/agents.md: the results of the known agents. The first
// argument is a file with the output of "parley comply --list-agents --json", the second the
// folder with the reports of "parley comply --format json", of one agent and run each, in
// files NAME-VERSION.RUN.json. A finding has the number of runs that saw it. The folder may also
// have newest.txt, the newest known versions, which scripts/agents-newest writes, remarks.txt, about
// findings, and others.txt, the agents that are not tested and why.
//
//	go run ./scripts/agentsdoc bin/known.json docs/agents > docs/agents.md
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A known is an agent of the list, tested or not.
type known struct{ Name, Title, Version, Licence, API string }

// pinned returns the version that is pinned, without the name of the package.
func (k known) pinned() string { return k.Version[strings.LastIndexByte(k.Version, ' ')+1:] }

// An agent is an agent with the reports of one version, one of each run.
type agent struct {
	known
	tested string // the version; "" if there are no reports
	files  []string
	runs   []*comply.Report
}

// newest has the newest known versions of agents, by name, and the day they were looked up.
type newest struct {
	day      time.Time
	versions map[string]string
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "agentsdoc: two arguments, the list of agents and the folder of reports")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agentsdoc:", err)
		os.Exit(1)
	}
}

func run(list, dir string, out io.Writer) error {
	raw, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var all struct{ Agents []known }
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}

	last, err := readNewest(filepath.Join(dir, "newest.txt"))
	if err != nil {
		return err
	}

	// Agents without a report are listed, too, but have no results.
	var agents, tested []agent
	for _, k := range all.Agents {
		a, err := read(k, dir)
		if err != nil {
			return err
		}
		if agents = append(agents, a); len(a.runs) > 0 {
			tested = append(tested, a)
		}
	}
	if len(tested) == 0 {
		return fmt.Errorf("there are no reports in %s", dir)
	}

	var b strings.Builder
	b.WriteString("# Agents\n\n" +
		"What the built-in tests, and the checks of every frame, find in agents of other projects, in versions that are pinned. Those that need a model asked the\n" +
		"[scripted one](model.md), which does what the prompts of the tests say. Where runs came to different verdicts all are shown, and the\n" +
		"test counts as one that varies: it depends on the moment, and on how busy the machine is. Written by `make agents`; do not edit.\n\n" +
		"The reports are kept in [agents](agents), for each version of an agent. `parley comply explain agents/FILE` lists the findings of one, and\n" +
		"`parley comply explain agents/FILE#F1` shows the rule, the frames in their order, what was expected and why.\n\n")

	writeAgents(&b, agents, last)
	if err := writeOthers(&b, filepath.Join(dir, "others.txt")); err != nil {
		return err
	}
	remarks, err := readRemarks(filepath.Join(dir, "remarks.txt"))
	if err != nil {
		return err
	}
	writeTests(&b, tested)
	writeFindings(&b, tested, remarks)
	writeKept(&b, tested)
	_, err = io.WriteString(out, b.String())
	return err
}

// readNewest reads the newest known versions: a line with the day, and a line "NAME VERSION" for
// each agent. Without the file nothing is known.
func readNewest(file string) (newest, error) {
	out := newest{versions: map[string]string{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	if out.day, err = time.Parse(time.DateOnly, first); err != nil {
		return out, fmt.Errorf("%s: %w", file, err)
	}
	for line := range strings.Lines(rest) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		out.versions[name] = version
	}
	return out, nil
}

// reportsOf returns the files with the reports of the pinned version of an agent or, if there are
// none, those of the version that was tested last.
func reportsOf(k known, dir string) (version string, files []string, err error) {
	files, err = filepath.Glob(filepath.Join(dir, k.Name+"-"+k.pinned()+".*.json"))
	if err != nil || len(files) > 0 {
		return k.pinned(), files, err
	}
	all, err := filepath.Glob(filepath.Join(dir, k.Name+"-[0-9v]*.json"))
	if err != nil || len(all) == 0 {
		return "", nil, err
	}

	// The newest report decides. Its name is NAME-VERSION.RUN.json.
	latest := ""
	for _, f := range all {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", nil, err
		}
		report, err := comply.ParseReport(f, text)
		if err != nil {
			return "", nil, err
		}
		if report.Started <= latest {
			continue
		}
		latest = report.Started
		version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), k.Name+"-"), ".json")
		version = version[:strings.LastIndexByte(version, '.')]
	}
	files, err = filepath.Glob(filepath.Join(dir, k.Name+"-"+version+".*.json"))
	return version, files, err
}

// read reads the reports of an agent.
func read(k known, dir string) (agent, error) {
	a := agent{known: k}
	version, files, err := reportsOf(k, dir)
	if err != nil {
		return a, err
	}
	a.tested = version
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return a, err
		}
		report, err := comply.ParseReport(f, text)
		if err != nil {
			return a, err
		}
		ofAgentAlone := len(report.Agents) == 1 && report.Agents[0].Name == k.Name
		if !ofAgentAlone || report.Interrupted || report.Selected {
			return a, fmt.Errorf("%s: it is no report of a whole run with %s alone", f, k.Name)
		}
		a.files, a.runs = append(a.files, filepath.Base(f)), append(a.runs, report)
	}
	return a, nil
}

// separator stands between the statuses of different runs.
const separator = "/"

// status returns the verdicts of all runs on a test, "-" if none has it.
func (a *agent) status(id string) string {
	var seen []string
	for _, r := range a.runs {
		for _, t := range r.Agents[0].Tests {
			if t.ID == id && !slices.Contains(seen, string(t.Status)) {
				seen = append(seen, string(t.Status))
			}
		}
	}
	slices.Sort(seen)
	return cmp.Or(strings.Join(seen, separator), "-")
}

// tests returns the tests of all runs, in their order.
func tests(agents []agent) (all []comply.Result) {
	for _, a := range agents {
		for _, r := range a.runs {
			for _, t := range r.Agents[0].Tests {
				if !slices.ContainsFunc(all, func(o comply.Result) bool { return o.ID == t.ID }) {
					all = append(all, t)
				}
			}
		}
	}
	return all
}

const varies = "varies"

var statuses = []string{"PASS", "WARN", "PARTIAL", "FAIL", "NA", "ERROR", varies}

// writeAgents writes a row per agent.
func writeAgents(b *strings.Builder, agents []agent, last newest) {
	if !last.day.IsZero() {
		fmt.Fprintf(b, "The newest versions were looked up on %s; the age of a report is counted until then. `make agents` tests the agents whose last report is not of the\n"+
			"newest version.\n\n", last.day.Format(time.DateOnly))
	}
	fmt.Fprintf(b, "| agent | version | newest | licence | API of its model | protocol | runs | last | age | %s |\n|---|---|---|---|---|---|---:|---|---%s|\n", strings.Join(statuses, " | "), strings.Repeat("|---:", len(statuses)))
	for _, a := range agents {
		version := strings.TrimSuffix(a.Version, a.pinned()) + cmp.Or(a.tested, a.pinned())
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |", a.Name, version, cmp.Or(last.versions[a.Name], "not known"), a.Licence, cmp.Or(a.API, "none"))
		if len(a.runs) == 0 {
			fmt.Fprintf(b, " not tested | 0 | | |%s\n", strings.Repeat(" |", len(statuses)))
			continue
		}
		report := a.runs[len(a.runs)-1]
		day, _, _ := strings.Cut(report.Started, "T")
		fmt.Fprintf(b, " %s | %d | %s | %s |", report.Agents[0].ProtocolVersion, len(a.runs), day, last.age(day))
		totals := map[string]int{}
		for _, t := range tests([]agent{a}) {
			status := a.status(t.ID)
			if strings.Contains(status, separator) {
				status = varies
			}
			totals[status]++
		}
		for _, s := range statuses {
			fmt.Fprintf(b, " %d |", totals[s])
		}
		b.WriteString("\n")
	}
}

// age returns the days from a day until the newest versions were looked up.
func (n newest) age(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil || n.day.IsZero() {
		return ""
	}
	days := int(n.day.Sub(at).Hours() / 24)
	if days == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", max(days, 0))
}

// writeOthers writes the agents that are not tested, of which the file has a line each: the name,
// the package and the reason, with tabs between them.
func writeOthers(b *strings.Builder, file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b.WriteString("\n## Agents that are not tested\n\n" +
		"With the table above these are the agents of the registry of the protocol, as far as its entries were found. Programs are fetched from npm, PyPI and Go\n" +
		"alone; the tests have no account with any vendor.\n\n" +
		"| agent | package | why |\n|---|---|---|\n")
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("%s: %q does not have three fields", file, line)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(fields, " | "))
	}
	return nil
}

// writeTests writes a row per test, with a status for each agent.
func writeTests(b *strings.Builder, tested []agent) {
	b.WriteString("\n## Tests\n\nRequired tests come first, in bold.\n\n| test |")
	for _, a := range tested {
		fmt.Fprintf(b, " %s |", a.Name)
	}
	fmt.Fprintf(b, "\n|---%s|\n", strings.Repeat("|---", len(tested)))
	for _, t := range tests(tested) {
		id := t.ID
		if t.Severity == comply.Required {
			id = "**" + id + "**"
		}
		fmt.Fprintf(b, "| %s |", id)
		for _, a := range tested {
			fmt.Fprintf(b, " %s |", a.status(t.ID))
		}
		b.WriteString("\n")
	}
}

// A broken is a rule that an agent broke, with the first finding that proves it.
type broken struct {
	comply.Finding
	runs, tests []string
}

// broken returns the rules that an agent broke, a MUST first.
func (a *agent) broken() []*broken {
	found := map[string]*broken{}
	for i, r := range a.runs {
		for _, f := range r.Index() {
			key := string(f.Level) + f.Rule
			x := found[key]
			if x == nil {
				x = &broken{Finding: f.Finding}
				found[key] = x
			}
			for _, test := range f.Tests {
				if !slices.Contains(x.tests, test) {
					x.tests = append(x.tests, test)
				}
			}
			if run := a.files[i]; !slices.Contains(x.runs, run) {
				x.runs = append(x.runs, run)
			}
		}
	}
	rank := []comply.Level{comply.Must, comply.Should}
	order := func(f comply.Finding) int { return (slices.Index(rank, f.Level) + len(rank) + 1) % (len(rank) + 1) }
	return slices.SortedFunc(maps.Values(found), func(x, y *broken) int {
		return cmp.Or(cmp.Compare(order(x.Finding), order(y.Finding)), strings.Compare(x.Rule, y.Rule))
	})
}

// readRemarks reads what a reader of the reports says about findings: a line for each with the agent,
// the rule and the text, separated by tabs. The texts are returned by agent and rule. Without the
// file there are none.
func readRemarks(file string) (map[[2]string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := map[[2]string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: %q has no agent, rule and text", file, line)
		}
		out[[2]string{parts[0], parts[1]}] = parts[2]
	}
	return out, nil
}

// raised has the rules that became a MUST, with the day; reports made before have another level. A
// finding may also have a lower level than its rule for a reason of its own.
var raised = map[string]string{"PERM-12": "2026-11-19"}

// levelsLine says which rules of the findings became a MUST after the report, "" if none did.
func levelsLine(tested []agent) string {
	var changed []string
	for _, id := range slices.Sorted(maps.Keys(raised)) {
		isLower := func(f *broken) bool { return f.Rule == id && f.Level != comply.Must }
		if slices.ContainsFunc(tested, func(a agent) bool { return slices.ContainsFunc(a.broken(), isLower) }) {
			changed = append(changed, fmt.Sprintf("%s is MUST since %s", id, raised[id]))
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return "Levels are those of the run; " + strings.Join(changed, ", ") + ".\n"
}

// writeFindings writes the rules that each agent breaks, and the frames that prove each MUST.
func writeFindings(b *strings.Builder, tested []agent, remarks map[[2]string]string) {
	b.WriteString("\n## Findings\n\nThe rules that were broken, by the tests that saw it and by the number of runs. A rule that not every run saw broken is unstable.\n" +
		"Every MUST has the messages that led to it and the frames that prove it, shortened; the last one decides.\n" +
		levelsLine(tested))

	for _, a := range tested {
		fmt.Fprintf(b, "\n### %s\n\n", a.Name)
		for i, f := range a.files {
			fmt.Fprintf(b, "Run %d: [%s](agents/%s), %s, %s.\n", i+1, f, f, a.runs[i].Started, a.runs[i].Suite)
		}

		all := a.broken()
		if len(all) == 0 {
			b.WriteString("\nNo rule was broken.\n")
			continue
		}

		b.WriteString("\n| rule | level | demand | seen in | tests |\n|---|---|---|---|---|\n")
		for _, f := range all {
			seen := fmt.Sprintf("%d of %d runs", len(f.runs), len(a.runs))
			if len(f.runs) < len(a.runs) {
				seen += ", unstable"
			}
			r := rules.Find(f.Rule)
			fmt.Fprintf(b, "| [%s](%s) | %s | %s | %s | %s |\n", f.Rule, r.Page(), f.Level, r.Text, seen, some(f.tests))
		}

		// The frames of each MUST follow the table.
		for _, f := range all {
			if f.Level != comply.Must {
				continue
			}
			fmt.Fprintf(b, "\n%s. Expected: %s. Came: %s.\n", f.Rule, inline(f.Expected), inline(f.Actual))
			if remark := remarks[[2]string{a.Name, f.Rule}]; remark != "" {
				b.WriteString("Remark: " + remark + ".\n")
			}
			b.WriteString("\n```\n")
			for _, frame := range slices.Concat(f.Context, f.Frames) {
				arrow := "agent ->"
				if frame.Direction == "out" {
					arrow = "      <-"
				}
				fmt.Fprintf(b, "%s %s\n", arrow, strings.ReplaceAll(shorten.Text(frame.Text, frameLimit), "```", "` ` `"))
			}
			b.WriteString("```\n")
		}
	}
}

// frameLimit is the number of characters that the page shows of a frame.
const frameLimit = 240

// some returns the first of several tests.
func some(tests []string) string {
	const most = 6
	if len(tests) <= most {
		return strings.Join(tests, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(tests[:most], ", "), len(tests)-most)
}

// inline returns text for a line of the page.
func inline(s string) string {
	return "`" + strings.ReplaceAll(shorten.Line(s, frameLimit), "`", "'") + "`"
}

// writeKept lists the rules that every frame was checked for and that no agent broke.
func writeKept(b *strings.Builder, tested []agent) {
	var ids []string
	for _, r := range comply.Rules() {
		if comply.CheckedInFrames(r.ID) && !slices.ContainsFunc(tested, func(a agent) bool {
			return slices.ContainsFunc(a.broken(), func(f *broken) bool { return f.Rule == r.ID })
		}) {
			ids = append(ids, fmt.Sprintf("[%s](%s)", r.ID, r.Page()))
		}
	}
	slices.Sort(ids)
	fmt.Fprintf(b, "\n## Checked in every frame and broken by none\n\n%s.\n", strings.Join(ids, ", "))
}
