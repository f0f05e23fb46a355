package client_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/parley-agents/parley/internal/testing/goodclient"
	"github.com/parley-agents/parley/protocol/comply/client"
)

// TestMain is also the relay and the good client, when it is started with such an argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "relay":
			code, err := client.Relay(context.Background(), os.Args[2], os.Stdin, os.Stdout, os.Stderr)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(code)
		case "goodclient":
			os.Exit(goodclient.Main(os.Args[2:], os.Stderr))
		}
	}
	os.Exit(m.Run())
}
