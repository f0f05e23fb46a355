// Command mutants runs the whole suite against every mutant of the good agent and
// prints which rules were found to be broken: the kill matrix. It fails if a
// mutant was not caught.
//
//	go run ./scripts/mutants -parley bin/parley -goodagent bin/goodagent [-smoke DIR] [-only PREFIX]
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
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
	only := flag.String("only", "", "run only mutants whose ids begin so")
	jobs := flag.Int("jobs", 8, "mutants at the same time")
	flag.Parse()
	tests, err := comply.Suite()
	if err != nil {
		return err
	}
	more, err := comply.Load(*smoke)
	if err != nil {
		return err
	}
	tests = append(tests, more...)
	mutants := slices.DeleteFunc(goodagent.Mutants(), func(m *goodagent.Mutant) bool { return !strings.HasPrefix(m.ID(), *only) })
	verdicts := make([]proof.Verdict, len(mutants))
	errs := make([]error, len(mutants))
	next := make(chan int)
	var work sync.WaitGroup
	var mu sync.Mutex // for progress
	done := 0
	for range *jobs {
		work.Go(func() {
			for i := range next {
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

func word(v proof.Verdict, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !v.Caught:
		return "NOT CAUGHT"
	case len(v.Unrelated) > 0:
		return "caught, and also found: " + strings.Join(v.Unrelated, " ")
	}
	return "caught"
}

// report prints the matrix: a line for each mutant, with the rules that were
// found to be broken and how many tests found it. Its own rule is first; what
// does not follow from it has a question mark.
func report(mutants []*goodagent.Mutant, verdicts []proof.Verdict, errs []error) error {
	caught, clean := 0, 0
	for i, m := range mutants {
		v := verdicts[i]
		if errs[i] != nil {
			fmt.Printf("%-24s error: %v\n", m.ID(), errs[i])
			continue
		}
		if v.Caught {
			caught++
		}
		if len(v.Unrelated) == 0 {
			clean++
		}
		own := "NOT CAUGHT"
		if v.Caught {
			own = fmt.Sprintf("%s:%d", m.Rule, len(v.Found[m.Rule]))
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
	fmt.Printf("\n%d mutants, %d caught, %d of all found to break nothing else\n", len(mutants), caught, clean)
	if caught < len(mutants) {
		return fmt.Errorf("%d mutants were not caught", len(mutants)-caught)
	}
	return nil
}
