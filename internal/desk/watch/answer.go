package watch

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
)

// because is the reason of a decision that a person makes with one key.
const because = "decided by the operator in parley watch"

// answer gives the yes or no of a person to a thing that waits, by the operation that
// the page and the commands use, and returns a sentence about it. The hub takes one
// answer: a second one is refused.
func answer(ctx context.Context, c *rpc.Client, w api.Waiting, i attention.Item, yes bool) (string, error) {
	word := i.No
	if yes {
		word = i.Yes
	}
	if word == "" {
		return "", hub.Errorf(hub.CodeInvalid, "watch", "this item cannot be answered with a key").WithHint("%s", i.Command)
	}

	// Mail and violations have no operation here: they are acknowledged below.
	var err error
	switch i.Kind {
	case attention.KindHeld, attention.KindApproval:
		o := api.Deny
		if yes {
			o = api.Approve
		}
		_, err = rpc.Call(ctx, c, o, api.IDParams{ID: hub.EnvelopeID(i.ID)})
	case attention.KindQuestion:
		p := api.AnswerParams{Agent: i.Agent, Question: i.Answer.Question}
		if yes {
			p.Choice = i.Answer.Choice
		}
		_, err = rpc.Call(ctx, c, api.AnswerAgent, p)
	case attention.KindEscalation:
		_, err = rpc.Call(ctx, c, api.Decide, api.DecideParams{Thread: i.ID, Decision: word, Because: because})
	case attention.KindPeer:
		_, err = rpc.Call(ctx, c, coordination.ApprovePeer, coordination.PeerParams{AID: coord.AID(i.ID)})
	case attention.KindSuspended:
		_, err = rpc.Call(ctx, c, api.ResetAgent, api.AgentParams{ID: i.Agent})
	}

	// The answer also acknowledges mail, and the hub's notices about the item.
	ids := w.About(i)
	if i.Kind == attention.KindMail || i.Kind == attention.KindViolation {
		ids = []hub.EnvelopeID{hub.EnvelopeID(i.ID)}
	}
	if err == nil && len(ids) > 0 {
		_, err = rpc.Call(ctx, c, api.Inbox, api.InboxParams{Peek: true, Limit: 1, Ack: api.AckSet{IDs: ids}})
	}

	// Another person may have answered first.
	switch hub.CodeOf(err) {
	case "":
		return fmt.Sprintf("%s: %s", word, i.Fact), nil
	case hub.CodeNotFound, hub.CodeConflict:
		return "already answered: " + i.Fact, nil
	}
	return "", err
}
