// Command conformance reads the output of `go test -json` from the files that are
// named, at the same time, or from standard input. It prints the results of packages
// and the output of failed tests while they come, and compares the tests whose names
// begin with the number of a requirement with the list of requirements.
//
// A name may be lane=file. With -lanes DIR, DIR/lane.group has the number of the process group that
// writes the file: a lane that writes nothing for 10 minutes while a test runs is ended, and its
// tests that run are named. -save DIR keeps the output of each lane there, and -collect leaves the table
// alone, because other tests run elsewhere.
//
// A test that has a stand-in for the other side says so with the attribute "stand-in",
// which counts for its subtests, too. A requirement that only such tests cover is met
// against a double only.
//
// A row of the table names one test. A test that the file names stays as long as it passes,
// so that another test of the same requirement does not change the table.
//
// With -write it writes the table to a file. Without it compares the table with the file.
// A test that was skipped does not meet its requirement, except with -partial, which says that
// this machine lacks what some tests need: then the verdict of such a requirement is left alone,
// and only the verdicts are compared.
// It ends with status 1 if a test failed, if a requirement that should be met has no test
// that passed, or if the file is stale.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed requirements.txt
var requirements string

func main() {
	table := flag.String("table", "docs/conformance.md", "the table")
	write := flag.Bool("write", false, "write the table in place of comparing it")
	partial := flag.Bool("partial", false, "tests were skipped because this machine lacks what they need; compare the verdicts alone")
	lanes := flag.String("lanes", "", "folder with the process groups of lanes")
	save := flag.String("save", "", "folder in which the output of lanes is kept")
	collect := flag.Bool("collect", false, "leave the table alone")
	flag.Parse()
	in := flag.Args()
	if len(in) == 0 {
		in = []string{"/dev/stdin"}
	}
	if err := run(in, os.Stdout, options{list: requirements, table: *table, write: *write, partial: *partial, save: *save, collect: *collect, end: endGroup(*lanes)}); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// options are what run does with the results.
type options struct {
	list  string // of requirements
	table string // the path of the table

	write, partial, collect bool // as the flags

	save string            // folder in which the output of lanes is kept; "" for none
	end  func(lane string) // ends a lane that stands still; may be nil
}

func run(in []string, out io.Writer, o options) error {
	rows, err := parse(o.list)
	if err != nil {
		return err
	}

	r := results{out: out, save: o.save, end: o.end, found: map[string][]result{}, standIns: map[string]bool{}}
	var reading sync.WaitGroup
	errs := make([]error, len(in))
	for i, name := range in {
		reading.Go(func() { errs[i] = r.read(name) })
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	slices.SortFunc(r.times, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range r.times[:min(len(r.times), slowest)] {
		fmt.Fprintf(out, "%7.1f s  %s\n", t.seconds, t.test)
	}

	if o.collect {
		if r.failed {
			return errors.New("tests failed")
		}
		return nil
	}

	// The table is written, or compared with the file that is there.
	have, err := os.ReadFile(o.table)
	if err != nil && !(o.write && errors.Is(err, os.ErrNotExist)) {
		return err
	}
	text, unmet := render(rows, r.found, rules(have), o.partial && !o.write)
	var stale error
	if o.write {
		stale = os.WriteFile(o.table, text, 0o644)
	} else if changed := compare(lines(have, !o.partial), lines(text, !o.partial)); len(changed) > 0 {
		stale = fmt.Errorf("%s is stale: %s; make conformance writes it anew", o.table, strings.Join(changed, ", "))
	} else if !o.partial && !bytes.Equal(have, text) {
		stale = fmt.Errorf("%s is stale; make conformance writes it anew", o.table)
	}

	if r.failed {
		return errors.Join(errors.New("tests failed"), unmet) // what they would have shown is not known
	}
	return errors.Join(unmet, stale)
}

// A state says how far the product is with a requirement.
type state string

const (
	built   state = "built"
	differs state = "differs"
	double  state = "double"
	absent  state = "absent"
)

// verdict is the word of a state in the table, if the tests agree.
var verdict = map[state]string{built: "met", differs: "differs", double: "met against a double only", absent: "not built"}

// A row is one requirement of the list.
type row struct {
	state  state
	reason string
}

// parse reads the list of requirements.
func parse(text string) (map[string]row, error) {
	rows := map[string]row{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words, reason, explained := strings.Cut(line, " - ")
		fields := strings.Fields(words)
		if len(fields) == 0 {
			continue
		}
		s := state(fields[0])
		if verdict[s] == "" || explained == (s == built) {
			return nil, fmt.Errorf("%q: a line is a state, numbers, and a reason unless the state is %q", strings.TrimSpace(line), built)
		}
		for _, f := range fields[1:] {
			ids, err := expand(f)
			if err != nil {
				return nil, err
			}
			for _, id := range ids {
				if _, ok := rows[id]; ok {
					return nil, fmt.Errorf("%s is listed twice", id)
				}
				rows[id] = row{s, strings.TrimSpace(reason)}
			}
		}
	}
	return rows, nil
}

var ranges = regexp.MustCompile(`^(R\d-)(\d{3})(?:\.\.(\d{3}))?$`)

// expand turns "R3-001..049" into single numbers.
func expand(text string) ([]string, error) {
	m := ranges.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is not a requirement or a range of them", text)
	}
	first, _ := strconv.Atoi(m[2])
	last, _ := strconv.Atoi(cmp.Or(m[3], m[2]))
	var out []string
	for n := first; n <= last; n++ {
		out = append(out, fmt.Sprintf("%s%03d", m[1], n))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q is an empty range", text)
	}
	return out, nil
}

// A result is how one test ended.
type result struct {
	pkg, rule, action string
	standIn           bool // the other side was one
}

var number = regexp.MustCompile(`^R\d-\d{3}$`)

// split returns the numbers at the beginning of a test's name, and the rest of it.
func split(name string) (ids []string, rule string) {
	words := strings.Split(strings.ReplaceAll(name, "_", " "), " ")
	n := 0
	for n < len(words) && number.MatchString(strings.TrimSuffix(words[n], ",")) {
		ids = append(ids, strings.TrimSuffix(words[n], ","))
		n++
	}
	return ids, strings.Join(words[n:], " ")
}

// results are the results of tests so far.
type results struct {
	mu       sync.Mutex // guards the rest
	out      io.Writer
	found    map[string][]result // of the tests with a number
	standIns map[string]bool     // tests that have one, as package and name
	times    []timing            // of whole tests
	failed   bool
	save     string
	end      func(lane string)
}

// read gathers the results in one file. The part of a test's path that has the
// numbers is taken whole, also where it contains a slash: go test joins the names of
// subtests by slashes, so that the rest of the path may belong to either.
func (r *results) read(name string) error {
	lane, file, isNamed := strings.Cut(name, "=")
	if !isNamed {
		file = name
	}
	opened, err := os.Open(file)
	if err != nil {
		return err
	}
	defer opened.Close()
	var in io.Reader = opened
	if r.save != "" && isNamed {
		kept, err := os.Create(filepath.Join(r.save, lane+".json"))
		if err != nil {
			return err
		}
		defer kept.Close()
		in = io.TeeReader(in, kept)
	}
	return r.follow(lane, in)
}

// follow gathers the results of a lane.
func (r *results) follow(lane string, in io.Reader) error {
	printed := map[string][]byte{} // output of tests that still run
	w := &watch{running: map[string]bool{}}
	w.timer = time.AfterFunc(stillFor, func() { r.endStill(lane, w) })
	w.timer.Stop()
	defer w.timer.Stop()
	dec := json.NewDecoder(bufio.NewReader(in))
	for {
		var e event
		if err := dec.Decode(&e); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		w.see(e)
		r.add(e, printed)
	}
}

// stillFor is how long a lane may write nothing while a test runs. A compiler may take longer.
const stillFor = 10 * time.Minute

// A watch looks for a lane that stands still.
type watch struct {
	timer   *time.Timer
	mu      sync.Mutex // guards running
	running map[string]bool
}

// see notes an event of the lane.
func (w *watch) see(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Test != "" && e.Action == "run":
		w.running[e.Package+" "+e.Test] = true
	case e.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action):
		delete(w.running, e.Package+" "+e.Test)
	case e.Test == "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action): // its program ended
		maps.DeleteFunc(w.running, func(name string, _ bool) bool { return strings.HasPrefix(name, e.Package+" ") })
	}
	w.timer.Stop()
	if len(w.running) > 0 {
		w.timer.Reset(stillFor)
	}
}

// names returns the tests that run, without those whose subtests do.
func (w *watch) names() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.running {
		hasChild := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(w.running)), hasChild) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// endStill ends a lane that stands still and names its tests that run.
func (r *results) endStill(lane string, w *watch) {
	r.mu.Lock()
	r.failed = true
	fmt.Fprintf(r.out, "lane %s wrote nothing for %s and is ended; these tests run:\n  %s\n", lane, stillFor, strings.Join(w.names(), "\n  "))
	r.mu.Unlock()
	if r.end != nil {
		r.end(lane)
	}
}

// endGroup returns a function that ends the process group of a lane: tests print where their goroutines
// are, and have a minute for that.
func endGroup(dir string) func(lane string) {
	if dir == "" {
		return nil
	}
	return func(lane string) {
		raw, err := os.ReadFile(filepath.Join(dir, lane+".group"))
		group := "-" + strings.TrimSpace(string(raw))
		if err != nil || group == "-" {
			return
		}
		exec.Command("kill", "-QUIT", "--", group).Run()
		time.AfterFunc(time.Minute, func() { exec.Command("kill", "-KILL", "--", group).Run() })
	}
}

// An event is a line of the output of go test -json.
type event struct {
	Action, Package, Test, Output string
	Key                           string  // of an attribute
	Elapsed                       float64 // seconds
}

// A timing is how long a test took, with the tests below it.
type timing struct {
	test    string
	seconds float64
}

// slowest is how many tests are listed at the end.
const slowest = 25

func (r *results) add(e event, printed map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()

	pkg := strings.TrimPrefix(e.Package, "github.com/parley-agents/parley/")
	key := e.Package + " " + e.Test

	switch e.Action {
	case "attr":
		if e.Key == "stand-in" {
			r.standIns[key] = true
		}
	case "output", "build-output":
		if e.Test == "" && !strings.HasPrefix(e.Output, "?") && e.Output != "PASS\n" {
			io.WriteString(r.out, e.Output) // a package's own line, a panic, a compiler's message
		} else if e.Test != "" {
			printed[key] = append(printed[key], e.Output...)
		}

	case "pass", "fail", "skip":
		if e.Action == "fail" {
			r.failed = true
			r.out.Write(printed[key])
		}
		delete(printed, key)
		if e.Elapsed >= 1 && e.Test != "" && !strings.Contains(e.Test, "/") {
			r.times = append(r.times, timing{pkg + " " + e.Test, e.Elapsed})
		}

		// A test has a stand-in if the test itself or one of its parents says so.
		at := strings.Split(e.Test, "/")
		standIn := false
		for i := range at {
			standIn = standIn || r.standIns[e.Package+" "+strings.Join(at[:i+1], "/")]
		}

		for i, part := range at {
			ids, rule := split(part)
			if len(ids) == 0 {
				continue
			}
			if rest := strings.Join(at[i+1:], "/"); rest != "" {
				rule += "/" + strings.ReplaceAll(rest, "_", " ")
			}
			for _, id := range ids {
				r.found[id] = append(r.found[id], result{pkg, rule, e.Action, standIn})
			}
			break
		}
	}
}

// render writes the table. A row names the test that it has in named if that is still there,
// also when the state or its reason changed, else the first by package, length and name; a test
// without words after the number comes last. The error names requirements whose tests and state do not
// agree. With partial, tests that were skipped say nothing.
func render(rows map[string]row, found map[string][]result, named map[string]string, partial bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Conformance

Written by ` + "`make conformance`" + ` from the results of the tests. It lists every requirement of the protocol's documents: the number is the requirement's,
the rule is the name of one test that covers it. "Differs" means that it is met with the exception that is named. "Met against a double only" means that the other side of every test of ` + "`make test`" + ` is
a stand-in, as each of these tests says itself.

`)

	count := map[state]int{}
	for _, r := range rows {
		count[r.state]++
	}
	fmt.Fprintf(&b, "%d requirements: %d met, %d differ, %d met against a double only, %d not built.\n\n| requirement | result | rule, or what is missing |\n|---|---|---|\n",
		len(rows), count[built], count[differs], count[double], count[absent])

	var bad []string
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r, tests := rows[id], found[id]
		wordless := func(r result) int {
			if strings.TrimSpace(r.rule) == "" {
				return 1
			}
			return 0
		}
		slices.SortFunc(tests, func(a, b result) int {
			return cmp.Or(cmp.Compare(wordless(a), wordless(b)), cmp.Compare(a.pkg, b.pkg), cmp.Compare(len(a.rule), len(b.rule)), cmp.Compare(a.rule, b.rule))
		})
		tests = slices.Compact(tests)
		if partial {
			tests = slices.DeleteFunc(tests, func(t result) bool { return t.action == "skip" })
		}
		isUnknown := len(tests) == 0 && len(found[id]) > 0 // all were skipped

		word, rule := verdict[r.state], ""
		real := slices.ContainsFunc(tests, func(t result) bool { return !t.standIn })
		for _, t := range tests {
			if t.action != "pass" {
				word = "**" + t.action + "**"
				bad = append(bad, id+" ("+t.action+": "+t.rule+")")
			}
		}

		// The state in the list must agree with the tests that were found.
		switch {
		case isUnknown:
		case len(tests) == 0 && r.state != absent:
			word = "**no test**"
			bad = append(bad, id+" (no test)")
		case len(tests) > 0 && r.state == absent:
			bad = append(bad, id+" (has a test, and is listed as not built)")
		case len(tests) > 0 && r.state == built && !real:
			word = verdict[double]
			bad = append(bad, id+" (every test has a stand-in, and it is listed as built)")
		case len(tests) > 0 && r.state == double && real:
			bad = append(bad, id+" (has a test without a stand-in, and is listed as double)")
		case len(tests) > 0:
			rule = tests[max(namedTest(tests, named[id]), 0)].rule
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", id, word, cell(rule, r.reason))
	}

	// A test may name only requirements that are in the list.
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if _, ok := rows[id]; !ok {
			bad = append(bad, id+" (not in the list of requirements)")
		}
	}

	if len(bad) > 0 {
		return b.Bytes(), fmt.Errorf("%d requirements: %s", len(bad), strings.Join(bad, ", "))
	}
	return b.Bytes(), nil
}

// namedTest returns the index of the test that a row names, or -1. Its name is the whole column, or
// is followed by a reason; of several the longest.
func namedTest(tests []result, column string) int {
	at := -1
	for i, t := range tests {
		name := cell(t.rule, "")
		isNamed := column == name || strings.HasPrefix(column, name+"; ")
		isLonger := at < 0 || len(t.rule) > len(tests[at].rule)
		if isNamed && isLonger && strings.TrimSpace(name) != "" {
			at = i
		}
	}
	return at
}

// cell is the last column of a row: the name of a test and the reason of the state, each if there is one.
func cell(rule, reason string) string {
	text := strings.TrimSuffix(strings.TrimPrefix(rule+"; "+reason, "; "), "; ")
	return strings.ReplaceAll(text, "|", "\\|")
}

// rules returns the last column of each row of a table.
func rules(table []byte) map[string]string {
	out := map[string]string{}
	for id, line := range lines(table, true) {
		_, out[id], _ = strings.Cut(line, " | ")
	}
	return out
}

// lines returns the verdict of each requirement in a table, or its whole line.
func lines(table []byte, whole bool) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(table)) {
		f := strings.Split(line, " | ")
		id := strings.TrimPrefix(f[0], "| ")
		if len(f) < 3 || !number.MatchString(id) {
			continue
		}
		out[id] = f[1]
		if whole {
			out[id] = strings.TrimSuffix(strings.Join(f[1:], " | "), " |\n")
		}
	}
	return out
}

// compare names the requirements that differ.
func compare(have, want map[string]string) []string {
	var out []string
	for id, w := range want {
		if h := cmp.Or(have[id], "not listed"); h != w {
			out = append(out, fmt.Sprintf("%s is %s, the table says %s", id, w, h))
		}
	}
	for id := range have {
		if want[id] == "" {
			out = append(out, id+" is no requirement")
		}
	}
	slices.Sort(out)
	return out
}
