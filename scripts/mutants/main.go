// Command mutants runs the whole suite against every mutant of the good agent and
// prints which rules were found to be broken: the kill matrix. It fails if a
// mutant was not caught, or was found to break a rule that does not follow from its
// own.
//
//	go run ./scripts/mutants -parley bin/parley -goodagent bin/goodagent [-smoke DIR] [-only PREFIX,PREFIX]
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parley-agents/parley/comply"
	"github.com/parley-agents/parley/internal/goodagent"
	"github.com/parley-agents/parley/internal/proof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	parley := flag.String("parley", "bin/parley", "the program, which has the MCP server for tests")
	program := flag.String("goodagent", "bin/goodagent", "the good agent as a program")
	smoke := flag.String("smoke", "comply/testdata/smoke", "folder with more tests")
	only := flag.String("only", "", "run only mutants whose ids begin so; several are separated by commas")
	jobs := flag.Int("jobs", 8, "mutants at the same time")
	flag.Parse()
	for _, path := range []*string{parley, program, smoke} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	// Some mutants write where the process was started.
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.Chdir(scratch); err != nil {
		return err
	}
	tests, err := comply.Suite()
	if err != nil {
		return err
	}
	more, err := comply.Load(*smoke)
	if err != nil {
		return err
	}
	tests = append(tests, more...)
	mutants := slices.DeleteFunc(goodagent.Mutants(), func(m *goodagent.Mutant) bool { return !begins(m.ID(), strings.Split(*only, ",")) })
	verdicts := make([]proof.Verdict, len(mutants))
	errs := make([]error, len(mutants))
	next := make(chan int)
	var work sync.WaitGroup
	var mu sync.Mutex // for progress
	done := 0
	for range *jobs {
		work.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					errs[i] = ctx.Err()
					continue
				}
				m := mutants[i]
				agent := proof.Agent(m)
				if m.Process {
					agent = comply.Agent{Name: m.ID(), Command: *program, Args: []string{"-mutant", m.ID()}}
				}
				verdicts[i], errs[i] = proof.Try(ctx, m, agent, tests, &comply.Options{Jobs: 4, MCPServer: *parley})
				mu.Lock()
				done++
				fmt.Fprintf(os.Stderr, "%3d/%d %-24s %s\n", done, len(mutants), m.ID(), word(verdicts[i], errs[i]))
				mu.Unlock()
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	work.Wait()
	return report(mutants, verdicts, errs)
}

func begins(id string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

func word(v proof.Verdict, err error) string {
	if err != nil {
		return err.Error()
	}
	return v.String()
}

// report prints the matrix: a line for each mutant, with the rules that were
// found to be broken and how many tests found it. Its own rule is first; a rule that
// does not follow from it has a question mark.
func report(mutants []*goodagent.Mutant, verdicts []proof.Verdict, errs []error) error {
	caught, alone, clean := 0, 0, 0
	for i, m := range mutants {
		v := verdicts[i]
		if errs[i] != nil {
			fmt.Printf("%-24s error: %v\n", m.ID(), errs[i])
			continue
		}
		own := "NOT CAUGHT"
		if v.Caught {
			caught++
			own = fmt.Sprintf("%s:%d", m.Rule, len(v.Found[m.Rule]))
		}
		if len(v.Unrelated) == 0 {
			alone++
		}
		if v.Clean() {
			clean++
		}
		cells := []string{own}
		for _, rule := range slices.Sorted(maps.Keys(v.Found)) {
			mark := ""
			if slices.Contains(v.Unrelated, rule) {
				mark = "?"
			}
			if rule != m.Rule {
				cells = append(cells, fmt.Sprintf("%s%s:%d", rule, mark, len(v.Found[rule])))
			}
		}
		fmt.Printf("%-24s %s\n", m.ID(), strings.Join(cells, " "))
	}
	fmt.Printf("\n%d mutants: %d caught, %d found to break nothing unrelated, %d both\n", len(mutants), caught, alone, clean)
	if clean < len(mutants) {
		return fmt.Errorf("%d of %d mutants were not caught, or were found to break an unrelated rule", len(mutants)-clean, len(mutants))
	}
	return nil
}
