// Command goodclient is a client that keeps every rule of the protocol or, with -mutant, breaks
// one.
//
//	parley comply client -- go run ./scripts/goodclient -mutant CL-PERM-02 {agent} {prompt}
package main

import (
	"os"

	"github.com/parley-agents/parley/internal/testing/goodclient"
)

func main() { os.Exit(goodclient.Main(os.Args[1:], os.Stderr)) }
