// Command mutants runs the whole suite against the good agents, with habits that break no rule,
// and against every mutant of the first, and prints which rules were found to be broken: the
// kill matrix. It fails if something was held against a good agent, or if a mutant was not
// caught or was found to break a rule that does not follow from its own.
//
//	go run ./scripts/mutants -parley bin/parley -goodagent bin/goodagent [-smoke DIR] [-only PREFIX,PREFIX]
//
// With -only the good agents are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/proof"
	"github.com/parley-agents/parley/protocol/comply"
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
	smoke := flag.String("smoke", "protocol/comply/testdata/smoke", "folder with more tests")
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

	if *only == "" {
		if err := judgeGood(ctx, *program, *parley, tests); err != nil {
			return err
		}
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

// habits are ways of a good agent that break no rule: the arguments of its program, and how
// many tests run at once. Agents that mostly wait get more.
var habits = []struct {
	args string
	opts comply.Options
}{
	{"-variant=chunks-1", comply.Options{Jobs: 4}},
	{"-variant=chunks-4", comply.Options{Jobs: 4}},
	{"-variant=chunks-4096", comply.Options{Jobs: 4}},
	{"-variant=login", comply.Options{Jobs: 4}},
	{"-variant=login", comply.Options{Jobs: 4, Auth: "token"}},
	{"-plain", comply.Options{Jobs: 4}},
	{"-variant=session-8s", comply.Options{Jobs: 12}},
	{"-variant=start-40s", comply.Options{Jobs: 24}},
	{"-variant=echo", comply.Options{Jobs: 4}},
	{"-variant=refuse", comply.Options{Jobs: 4}},
	{"-variant=refusal", comply.Options{Jobs: 4}},
	{"-variant=toolless", comply.Options{Jobs: 4}},
	{"-variant=english", comply.Options{Jobs: 4}},
}

// judgeGood runs the tests against the good agents, all at once, and fails if something is held
// against one of them. The slowest opens a hundred sessions in 8 s each.
func judgeGood(ctx context.Context, program, parley string, tests []*comply.Test) error {
	fmt.Fprintf(os.Stderr, "%d good agents, about 15 minutes\n", len(habits))
	errs := make([]error, len(habits))
	var work sync.WaitGroup
	for i, h := range habits {
		work.Go(func() {
			h.opts.MCPServer = parley
			name := strings.TrimSpace(h.args + " " + h.opts.Auth)
			report, err := comply.Run(ctx, []comply.Agent{{Name: "goodagent", Command: program, Args: []string{h.args}}}, proof.Applicable(tests, 1), &h.opts)
			if err != nil {
				errs[i] = err
				return
			}
			against := proof.Against(report.Agents[0])
			fmt.Printf("good agent %-24s %v, held against it: %d\n", name, report.Agents[0].Totals, len(against))
			if len(against) > 0 || report.Failed() {
				errs[i] = fmt.Errorf("the good agent %s was found to break a rule: %s", name, strings.Join(against, "; "))
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
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
	caught := 0
	alone := 0
	clean := 0
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
