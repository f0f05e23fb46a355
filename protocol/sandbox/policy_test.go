package sandbox_test

import (
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestPolicy(t *testing.T) {
	const (
		allow  = sandbox.Allow
		reject = sandbox.Reject
		ask    = sandbox.Ask
	)
	policies := []sandbox.Policy{"none", "read", "write", "ask", "yolo", "", "Yolo", "everything"}
	for _, tt := range []struct {
		kind sandbox.Kind
		want [8]sandbox.Verdict // one per policy
	}{
		{"read", [8]sandbox.Verdict{reject, allow, allow, ask, allow, reject, reject, reject}},
		{"search", [8]sandbox.Verdict{reject, allow, allow, ask, allow, reject, reject, reject}},
		{"think", [8]sandbox.Verdict{reject, allow, allow, ask, allow, reject, reject, reject}},
		{"edit", [8]sandbox.Verdict{reject, reject, allow, ask, allow, reject, reject, reject}},
		{"move", [8]sandbox.Verdict{reject, reject, allow, ask, allow, reject, reject, reject}},
		{"delete", [8]sandbox.Verdict{reject, reject, allow, ask, allow, reject, reject, reject}},
		{"execute", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"fetch", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"other", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"switch_mode", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"_teleport", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"Read", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
		{"", [8]sandbox.Verdict{reject, reject, reject, ask, allow, reject, reject, reject}},
	} {
		for i, policy := range policies {
			if got := policy.Verdict(tt.kind); got != tt.want[i] {
				t.Errorf("policy %q on kind %q: got %s, want %s", policy, tt.kind, got, tt.want[i])
			}
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, want := range sandbox.Policies() {
		if got, err := sandbox.ParsePolicy(string(want)); err != nil || got != want {
			t.Errorf("policy: got %q (%v), want %q", got, err, want)
		}
	}
	for _, name := range []string{"", "all", "READ"} {
		got, err := sandbox.ParsePolicy(name)
		wantCode(t, err, sandbox.CodeInvalid)
		if got != "" {
			t.Errorf("policy: got %q, want none", got)
		}
	}
}
