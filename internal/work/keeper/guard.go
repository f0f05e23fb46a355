package keeper

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// makeGuard returns the guard of the files that the agent changes. It asks inside the process of
// the hub, as the agent. It is nil if nothing guards files.
func (a *agent) makeGuard() *acpguard.Guard {
	if a.o.AskFiles == nil {
		return nil
	}
	return acpguard.New(a.record.Dir, a.asking(a.actor), acpguard.Options{
		Session:        a.sessionKey().ID,
		NoReject:       cli.NoReject(a.record.Command),
		DenyUnanswered: a.o.DenyUnanswered != nil && a.o.DenyUnanswered(a.record.Dir),
		Notice:         func(text string) { a.log.add("files", text) },
	})
}

// asking returns a function that asks about files as an agent.
func (k *Keeper) asking(actor hub.Caller) acpguard.Ask {
	return func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
		return k.o.AskFiles(ctx, actor, q)
	}
}

// aboutFiles returns the sentences of the hub about files that the agent has not read, for its
// next turn.
func (a *agent) aboutFiles() string {
	if a.guard == nil {
		return ""
	}
	return acpguard.Text(a.guard.Unread())
}

// asker returns the asker of the agent's questions to people, which remembers the answers.
func (a *agent) asker() sandbox.Asker {
	ask := a.consent.Asker(a.ask)
	if a.guard == nil {
		return ask
	}
	return a.guard.Asker(ask)
}
