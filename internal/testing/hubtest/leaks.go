package hubtest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// NoGoroutinesLeft fails the test if, when it ends, code of this module or of
// the MCP library still runs in a goroutine that was not there before.
func NoGoroutinesLeft(t *testing.T) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		var left []string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
			left = left[:0]
			for id, stack := range goroutines() {
				if _, old := before[id]; !old {
					left = append(left, stack)
				}
			}
			if len(left) == 0 {
				return
			}
		}
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// goroutines returns the stacks of interest by the goroutine's number.
func goroutines() map[string]string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	out := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		id, _, _ := strings.Cut(stack, " [")
		if strings.Contains(stack, "goroutines()") || strings.Contains(stack, "testing.(*T).Run") {
			continue
		}
		if strings.Contains(stack, "parley-agents/parley/") || strings.Contains(stack, "modelcontextprotocol/") || strings.Contains(stack, "net/http.(*conn).serve") {
			out[id] = stack
		}
	}
	return out
}
