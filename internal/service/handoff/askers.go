package handoff

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Askers returns the agents that asked for the work of a handoff, the first one first: its sender
// and, if the task was handed on, the senders before. They hear what becomes of the task. The hub
// hands a task on for an agent that cannot go on: that agent asked for nothing.
func (s *Service) Askers(r hub.Reader, h hub.Handoff) ([]hub.AgentID, error) { return askers(r, h) }

func askers(r hub.Reader, h hub.Handoff) (out []hub.AgentID, err error) {
	chain := []hub.Handoff{h}
	if h.ID != "" { // else it is the task of a team that came without a handoff
		if chain, err = handedAlong(r, h); err != nil {
			return nil, err
		}
	}
	for _, one := range slices.Backward(chain) {
		by, err := askerOf(r, one)
		if err != nil {
			return nil, err
		}
		if by != "" && !slices.Contains(out, by) {
			out = append(out, by)
		}
	}
	return out, nil
}

// handedAlong returns a handoff and those before it by which its task was handed on, newest first.
// Handoffs that were refused are not among them, nor those of an earlier time at which the task was
// done.
func handedAlong(r hub.Reader, h hub.Handoff) ([]hub.Handoff, error) {
	owned, err := r.Handoffs(hub.HandoffQuery{Task: h.TaskID, Owned: true, Limit: maxChain})
	if err != nil {
		return nil, err
	}
	owned = slices.DeleteFunc(owned, func(one hub.Handoff) bool { return one.Team != h.Team })
	i := slices.IndexFunc(owned, func(one hub.Handoff) bool { return one.ID == h.ID })
	chain := []hub.Handoff{h}
	for _, before := range owned[i+1:] {
		if before.Ending != hub.EndedHandedOn {
			break
		}
		chain = append(chain, before)
	}
	return chain, nil
}

// maxChain bounds the owners of a task whose senders are told about it.
const maxChain = 100

// askerOf returns the agent that asked for the task by a handoff. It is "" for a handoff that the hub
// made, and the agent that made the task of a team that the hub handed on before there was a handoff.
func askerOf(r hub.Reader, h hub.Handoff) (hub.AgentID, error) {
	made, err := continuationOf(r, h)
	switch {
	case err != nil:
		return "", err
	case made == nil:
		return h.From, nil
	case made.Handoff != "":
		return "", nil
	}
	t, err := r.Teamspaces().Task(hub.TaskID(h.TaskID))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", nil
	}
	return t.CreatedBy, err
}

// continuationOf returns the continuation for which the hub made a handoff, nil for a handoff that its
// sender made.
func continuationOf(r hub.Reader, h hub.Handoff) (*hub.Continuation, error) {
	if h.ID == "" {
		return nil, nil
	}
	made, err := r.Continuations().Continuations(hub.ContinuationQuery{Next: h.ID, Limit: 1})
	if err != nil || len(made) == 0 {
		return nil, err
	}
	return &made[0], nil
}

// audience returns the agents that hear of a move of a handoff: its receiver and the agents that
// asked for its work, without the actor. An invitation is for its receiver alone.
func audience(r hub.Reader, actor hub.Caller, h hub.Handoff, t hub.MessageType) ([]hub.AgentID, error) {
	to := []hub.AgentID{h.To}
	if t != hub.TypeHandoffInitiate {
		asked, err := askers(r, h)
		if err != nil {
			return nil, err
		}
		to = append(asked, to...)
	}
	return slices.DeleteFunc(to, func(id hub.AgentID) bool { return id == actor.ID }), nil
}
