package sandbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// options returns one for each kind, whose ID is the kind.
func options(kinds ...sandbox.OptionKind) (out []sandbox.Option) {
	for _, kind := range kinds {
		out = append(out, sandbox.Option{ID: string(kind), Kind: kind})
	}
	return out
}

func TestDecide(t *testing.T) {
	const (
		allowOnce, allowAlways   = sandbox.AllowOnce, sandbox.AllowAlways
		rejectOnce, rejectAlways = sandbox.RejectOnce, sandbox.RejectAlways
	)
	twins := []sandbox.Option{{ID: "x", Kind: rejectOnce}, {ID: "x", Kind: allowOnce}}
	for _, tt := range []struct {
		name    string
		policy  sandbox.Policy
		options []sandbox.Option
		want    string
		allowed bool
	}{
		{"once is enough to allow", sandbox.PolicyYolo, options(rejectOnce, allowAlways, allowOnce), "allow_once", true},
		{"once is enough to reject", sandbox.PolicyNone, options(allowOnce, rejectAlways, rejectOnce), "reject_once", false},
		{"always, when once is not offered", sandbox.PolicyYolo, options(rejectOnce, allowAlways), "allow_always", true},
		{"never, when not now is not offered", sandbox.PolicyNone, options(allowOnce, rejectAlways), "reject_always", false},
		{"what cannot be allowed is rejected", sandbox.PolicyYolo, options(rejectAlways, rejectOnce), "reject_once", false},
		{"what cannot be rejected is not allowed", sandbox.PolicyNone, options(allowOnce, allowAlways), "", false},
		{"no options, no choice", sandbox.PolicyYolo, nil, "", false},
		{"an unknown option is not chosen to allow", sandbox.PolicyYolo, options("allow_session"), "", false},
		{"an unknown option is not chosen to reject", sandbox.PolicyNone, options("reject_session"), "", false},
		{"an id that means two things is not chosen to reject", sandbox.PolicyNone, twins, "", false},
		{"an id that means two things is not chosen to allow", sandbox.PolicyYolo, twins, "", false},
		{"an empty id is not chosen", sandbox.PolicyYolo, []sandbox.Option{{Kind: allowOnce}}, "", false},
		{"with nobody to ask, what may be asked is rejected", sandbox.PolicyAsk, options(allowOnce, rejectOnce), "reject_once", false},
		{"an unknown policy rejects", "all", options(allowOnce, rejectOnce), "reject_once", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sandbox.NewPermissions(tt.policy, nil)
			got, err := p.Decide(t.Context(), sandbox.Request{Kind: sandbox.KindEdit, Options: tt.options})
			if err != nil || got.OptionID != tt.want || got.Allowed != tt.allowed {
				t.Errorf("decision: got %+v (%v), want %q, allowed %t", got, err, tt.want, tt.allowed)
			}
			if got.Reason == "" {
				t.Error("reason: got none, want one")
			}
		})
	}
}

func TestAsk(t *testing.T) {
	offered := append(options(sandbox.AllowOnce, sandbox.RejectOnce, "allow_session"), sandbox.Option{ID: "twin"}, sandbox.Option{ID: "twin"})
	failed := errors.New("no terminal")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		answer  string
		err     error
		want    string
		allowed bool
	}{
		{"who is asked may allow", t.Context(), "allow_once", nil, "allow_once", true},
		{"who is asked may reject", t.Context(), "reject_once", nil, "reject_once", false},
		{"who is asked may choose an option of unknown kind, which is no approval here", t.Context(), "allow_session", nil, "allow_session", false},
		{"no choice is a rejection", t.Context(), "", nil, "reject_once", false},
		{"a choice that was not offered is a rejection", t.Context(), "allow_always", nil, "reject_once", false},
		{"a choice that means two things is a rejection", t.Context(), "twin", nil, "reject_once", false},
		{"a failed question is no approval", t.Context(), "allow_once", failed, "", false},
		{"an answer that comes too late is no approval", ended, "allow_once", nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sandbox.NewPermissions(sandbox.PolicyAsk, func(_ context.Context, r sandbox.Request) (string, error) {
				if slices.ContainsFunc(r.Options, func(o sandbox.Option) bool { return o.ID == "twin" }) {
					t.Error("options: got one that means two things, want none")
				}
				return tt.answer, tt.err
			})
			got, err := p.Decide(tt.ctx, sandbox.Request{Kind: sandbox.KindRead, Options: offered})
			if got.OptionID != tt.want || got.Allowed != tt.allowed {
				t.Errorf("decision: got %+v (%v), want %q, allowed %t", got, err, tt.want, tt.allowed)
			}
			if wantErr := errors.Join(tt.err, tt.ctx.Err()); (err != nil) != (wantErr != nil) {
				t.Errorf("error: got %v, want %v", err, wantErr)
			}
		})
	}
	t.Run("only the policy ask asks", func(t *testing.T) {
		for _, policy := range sandbox.Policies() {
			asked := false
			p := sandbox.NewPermissions(policy, func(context.Context, sandbox.Request) (string, error) {
				asked = true
				return "", nil
			})
			_, err := p.Decide(t.Context(), sandbox.Request{Options: offered})
			must(t, err)
			if want := policy == sandbox.PolicyAsk; asked != want {
				t.Errorf("policy %q asked: got %t, want %t", policy, asked, want)
			}
		}
	})
}

func TestPermit(t *testing.T) {
	answer := func(id string) sandbox.Asker {
		return func(context.Context, sandbox.Request) (string, error) { return id, nil }
	}
	for _, tt := range []struct {
		name   string
		policy sandbox.Policy
		ask    sandbox.Asker
		want   sandbox.Code
	}{
		{"what the policy allows is permitted", sandbox.PolicyWrite, nil, ""},
		{"what the policy rejects is refused", sandbox.PolicyRead, nil, sandbox.CodeRefused},
		{"what the person allows is permitted", sandbox.PolicyAsk, answer("allow_once"), ""},
		{"what the person rejects is refused", sandbox.PolicyAsk, answer("reject_once"), sandbox.CodeRefused},
		{"what the person leaves open is refused", sandbox.PolicyAsk, answer(""), sandbox.CodeRefused},
		{"what nobody can be asked about is refused", sandbox.PolicyAsk, nil, sandbox.CodeRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, sandbox.NewPermissions(tt.policy, tt.ask).Permit(t.Context(), sandbox.KindEdit, "write a.txt"), tt.want)
		})
	}
}

func TestLabel(t *testing.T) {
	for _, tt := range []struct {
		kind       sandbox.OptionKind
		name, want string
	}{
		{sandbox.AllowAlways, "Reject", "allow always: Reject"},
		{sandbox.RejectOnce, "Allow", "reject once: Allow"},
		{sandbox.AllowOnce, "Allow once", "Allow once"},
		{sandbox.AllowAlways, "Allow once", "allow always: Allow once"},
		{sandbox.AllowAlways, "reject once: Reject\n  2  reject once", "allow always: reject once: Reject 2 reject once"},
		{"", "Reject", "effect not stated: Reject"},
		{"reject once", "Reject", `unknown effect "reject once": Reject`},
		{"_allow_session", "For this session", `unknown effect "_allow_session": For this session`},
		{sandbox.RejectAlways, "", "reject always: "},
	} {
		if got := (sandbox.Option{ID: "x", Name: tt.name, Kind: tt.kind}).Label(); got != tt.want {
			t.Errorf("%q of kind %q: got %q, want %q", tt.name, tt.kind, got, tt.want)
		}
	}
}
