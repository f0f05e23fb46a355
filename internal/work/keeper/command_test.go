package keeper

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// unconfined are the commands of a machine that cannot confine one.
type unconfined struct{ Commands }

func (unconfined) Confines() error {
	return hub.Errorf(hub.CodeNotEnabled, "keeper.test", "this machine cannot confine a command")
}

func TestBuildNeedsConfinement(t *testing.T) {
	k := stoppedKeeper(t, false, nil)
	k.o.Commands = unconfined{}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}
	d := Definition{Agent: "tester", Dir: t.TempDir(), Command: []string{program}, Policy: PolicyBuild}
	if _, err := k.Keep(t.Context(), operator, d, hub.Agent{}, false); hub.CodeOf(err) != hub.CodeNotEnabled {
		t.Errorf("policy build: got %v, want %s", err, hub.CodeNotEnabled)
	}
	if _, err := k.find(t.Context(), "keeper.test", "tester"); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("the agent is kept: %v", err)
	}
}

func TestNetworkOfCommands(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := Definition{Agent: "builder", Dir: t.TempDir(), Command: []string{program}, Policy: sandbox.PolicyWrite, Network: true}
	if err := d.check("keeper.test"); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), "network is for commands") {
		t.Errorf("network without the policy build: %v", err)
	}

	for _, network := range []bool{false, true} {
		k := stoppedKeeper(t, false, nil)
		err := k.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return hub.WriteMeta(tx, recordKey("builder"), record{Definition: Definition{Agent: "builder", Dir: d.Dir, Policy: PolicyBuild, Network: network}})
		})
		if err != nil {
			t.Fatal(err)
		}
		_, check, err := k.permitted(context.Background(), "keeper.test", hub.Caller{Kind: hub.CallerAgent, ID: "builder"}, Command{Line: "curl example.com"})
		if err != nil || check.Network == nil || *check.Network != network {
			t.Errorf("network %t: got %+v, %v", network, check, err)
		}
	}
}

func TestAboutCommands(t *testing.T) {
	for policy, want := range map[sandbox.Policy]string{
		sandbox.PolicyRead:  "",
		sandbox.PolicyAsk:   "Each command of your own shell waits for a person's yes. The hub runs without one a check of this repository",
		sandbox.PolicyWrite: "Your own shell is off, also for git. The hub runs a check of this repository",
		PolicyBuild:         "The hub runs any command in this folder: acp_handoff with action run",
	} {
		a, _ := newTestAgent(Definition{Policy: policy})
		a.fresh = true
		got := a.aboutCommands()
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q", policy, got)
		}
		if a.fresh = false; a.aboutCommands() != "" {
			t.Errorf("%s: it is repeated in the next turn", policy)
		}
	}
}
