// Command goodagent is an agent that keeps every rule of the protocol or, with
// -mutant, breaks one.
//
//	parley comply -- go run ./scripts/goodagent -mutant CAN-01
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/plainagent"
)

func main() {
	id := flag.String("mutant", "", "the id of a mutant; none for the good agent")
	variant := flag.String("variant", "", "a habit that breaks no rule: chunks-N, session-D, start-D, login, echo, refuse, refusal, toolless or english")
	plain := flag.Bool("plain", false, "the second good agent, which is written differently")
	list := flag.Bool("list", false, "list the mutants")
	flag.Parse()

	if *list {
		for _, m := range goodagent.Mutants() {
			fmt.Printf("%-24s %s\n", m.ID(), m.Does)
		}
		return
	}

	mutant := goodagent.Find(*id)
	if *id != "" && mutant == nil {
		fmt.Fprintf(os.Stderr, "goodagent: there is no mutant %q; -list names all\n", *id)
		os.Exit(2)
	}
	if mutant == nil {
		if mutant = goodagent.Variant(*variant); *variant != "" && mutant == nil {
			fmt.Fprintf(os.Stderr, "goodagent: there is no variant %q\n", *variant)
			os.Exit(2)
		}
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { os.Exit(0) }) // a read of standard input cannot be ended

	if *plain {
		if err := plainagent.Serve(ctx, os.Stdin, os.Stdout); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "goodagent:", err)
			os.Exit(1)
		}
		return
	}

	err := goodagent.Serve(ctx, mutant, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "goodagent:", err)
		os.Exit(1)
	}
}
