package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

func TestAuditVerifyIsInterruptedAndResumed(t *testing.T) {
	h := newHouse(t, "--unsafe-limits")
	c := rpc.NewClient(h.url, h.keys["planner"], "", http.DefaultClient)
	for i := range 1500 {
		if _, err := rpc.Call(context.Background(), c, api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: fmt.Sprint("message ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(flags ...string) *job {
		return spawn(t, parley(t, []string{"PARLEY_HOME=" + h.home, verifyByPage + "=1"}, append([]string{"hub", "verify", "--as-operator"}, flags...)...))
	}
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("audit verify shows its progress, is interrupted and goes on where it was; hub running: %v", running), func(t *testing.T) {
			if !running {
				h.stop()
			}
			if r := do(t, parley(t, []string{"PARLEY_HOME=" + h.home}, "hub", "verify", "--as-operator", "--resume", "--json")); r.code != exitMissing {
				t.Errorf("--resume with nothing to resume: exit %d: %s", r.code, r.err)
			}
			p := verify()
			p.stderr.await(t, "verifying: messages, ")
			if code := p.signal(t, os.Interrupt); code != exitSignal {
				t.Fatalf("after Ctrl-C: exit %d, want %d: %s%s", code, exitSignal, p.stdout, p.stderr)
			}
			contains(t, p.stderr.String(), "verifying: journal, ", "parley hub verify --resume")
			p = verify("--resume")
			if code := p.wait(t); code != 0 {
				t.Fatalf("--resume: exit %d: %s%s", code, p.stdout, p.stderr)
			}
			if strings.Contains(p.stderr.String(), "journal") {
				t.Errorf("the journal was read again:\n%s", p.stderr)
			}
			contains(t, p.stdout.String(), "1500 messages", "ok the journal holds")
		})
	}
}
