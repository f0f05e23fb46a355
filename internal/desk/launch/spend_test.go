package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// TestLedgerLock has many hooks of one session end a turn at once while the hub is away. Each turn
// is in the ledger afterwards, so that the hub is told of all of them.
func TestLedgerLock(t *testing.T) {
	const hooks = 8
	w := &Waiter{
		CLI:    cli.CLI{Name: "claude"},
		Home:   t.TempDir(),
		Client: func() (*rpc.Client, error) { return nil, errors.New("no hub") },
	}
	var all sync.WaitGroup
	for range hooks {
		all.Go(func() { w.spend(t.Context(), cli.TurnEnd, cli.Input{Session: "s-1"}) })
	}
	all.Wait()
	l, isNew := openLedger(ledgerPath(w.Home, "claude", "s-1"), "claude", "s-1")
	if isNew || len(l.Turns) != hooks {
		t.Errorf("the ledger has %d turns, want %d", len(l.Turns), hooks)
	}
}

// TestReadAll reads a transcript with more calls than one read has: the last hook of a session has
// them all.
func TestReadAll(t *testing.T) {
	const calls = 9001
	var lines strings.Builder
	for i := range calls {
		fmt.Fprintf(&lines, `{"type":"assistant","message":{"id":"m%d","usage":{"input_tokens":1,"output_tokens":1}}}`+"\n", i)
	}
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	claude, err := cli.Lookup("claude")
	if err != nil {
		t.Fatal(err)
	}
	w := &Waiter{CLI: claude}
	got, err := w.readAll(t.Context(), path, transcript.Cursor{})
	if err != nil || len(got.Calls) != calls || got.Cursor.Offset != int64(lines.Len()) {
		t.Errorf("got %d calls up to %d of %d, %v", len(got.Calls), got.Cursor.Offset, lines.Len(), err)
	}
}
