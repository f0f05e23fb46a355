// Command conformance turns the output of `go test -json` into a table: for
// every numbered requirement of the protocol the tests that cover it, and how
// they ended. It ends with status 1 when a requirement that should be met has no
// test, or one that did not pass.
package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// requirements lists the numbers that this state of the product must meet, as
// ranges, with comments.
//
//go:embed requirements.txt
var requirements string

var number = regexp.MustCompile(`^(R\d-\d{3})[ _](.*)$`)

// A result is how one test ended.
type result struct{ pkg, rule, action string }

func main() {
	found, err := read(os.Stdin)
	if err == nil {
		err = write(os.Stdout, found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// read gathers the tests whose name begins with a number.
func read(r io.Reader) (map[string][]result, error) {
	found := map[string][]result{}
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var e struct{ Action, Package, Test string }
		if err := dec.Decode(&e); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
			continue
		}
		for part := range strings.SplitSeq(e.Test, "/") {
			if m := number.FindStringSubmatch(part); m != nil {
				rule := strings.ReplaceAll(m[2], "_", " ")
				pkg := strings.TrimPrefix(e.Package, "github.com/parley-agents/parley/")
				found[m[1]] = append(found[m[1]], result{pkg, rule, e.Action})
				break
			}
		}
	}
}

// write prints the table, and returns an error that names the missing requirements.
func write(w io.Writer, found map[string][]result) error {
	wanted, err := expand(requirements)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, id := range wanted {
		ids[id] = true
	}
	for id := range found {
		ids[id] = true
	}
	fmt.Fprint(w, "# Conformance\n\nWritten by `make conformance` from the results of the tests. The number is the protocol requirement's; the rule is the name of a test\nthat covers it.\n\n| requirement | tests | result | rule |\n|---|---|---|---|\n")
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		tests := found[id]
		slices.SortFunc(tests, func(a, b result) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.rule, b.rule)) })
		tests = slices.Compact(tests)
		verdict := "met"
		for _, t := range tests {
			if t.action != "pass" {
				verdict = "**" + t.action + "**"
				bad = append(bad, id+" ("+t.action+": "+t.rule+")")
			}
		}
		if len(tests) == 0 {
			bad = append(bad, id+" (no test)")
			fmt.Fprintf(w, "| %s | 0 | **missing** | |\n", id)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %s | %s |\n", id, len(tests), verdict, strings.ReplaceAll(tests[0].rule, "|", "\\|"))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d requirements are not met: %s", len(bad), strings.Join(bad, ", "))
	}
	return nil
}

// expand turns lines like "R3-001..049" into single numbers.
func expand(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, f := range strings.Fields(line) {
			from, to, ok := strings.Cut(f, "..")
			first, err := strconv.Atoi(from[3:])
			if err != nil {
				return nil, fmt.Errorf("%q is not a requirement", f)
			}
			last := first
			if ok {
				if last, err = strconv.Atoi(to); err != nil {
					return nil, fmt.Errorf("%q is not a range", f)
				}
			}
			for n := first; n <= last; n++ {
				out = append(out, fmt.Sprintf("%s%03d", from[:3], n))
			}
		}
	}
	return out, nil
}
