package coordination

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A Copied holds the parameters of the methods that bring a copy of one thing.
type Copied struct {
	ID       coord.ProjectID `json:"projectId,omitempty"`
	Project  json.RawMessage `json:"project,omitempty"`
	Repo     json.RawMessage `json:"repo,omitempty"`
	Contract json.RawMessage `json:"contract,omitempty"`
	Packet   json.RawMessage `json:"packet,omitempty"`
	Sum      string          `json:"sum,omitempty"` // of the whole contract, if versions are left out that the receiver has
	Source   coord.AID       `json:"sourceAgent,omitempty"`
}

// A copyReader reads the copy that a method brings, from the member of the
// parameters that the method cannot do without.
type copyReader struct {
	name   string
	member func(Copied) json.RawMessage
	read   func(Copied) (federation.Copy, *federation.ProjectCopy, error)
}

var copyReaders = map[string]copyReader{
	"cacp/project/sync": {"project", func(in Copied) json.RawMessage { return in.Project }, func(in Copied) (federation.Copy, *federation.ProjectCopy, error) {
		p, err := federation.DecodeProject(in.Project)
		return federation.Copy{Project: p.ID, Head: &p.Project}, &p, err
	}},
	"cacp/repo/sync": {"repo", func(in Copied) json.RawMessage { return in.Repo }, func(in Copied) (federation.Copy, *federation.ProjectCopy, error) {
		r, err := federation.DecodeRepo(in.Repo)
		return federation.Copy{Project: in.ID, Repo: &r}, nil, err
	}},
	"cacp/contract/sync": {"contract", func(in Copied) json.RawMessage { return in.Contract }, func(in Copied) (federation.Copy, *federation.ProjectCopy, error) {
		c, err := federation.DecodeContract(in.ID, in.Contract)
		return federation.Copy{Project: in.ID, Contract: &c, Sum: in.Sum}, nil, err
	}},
	"cacp/context/sync": {"packet", func(in Copied) json.RawMessage { return in.Packet }, func(in Copied) (federation.Copy, *federation.ProjectCopy, error) {
		p, err := federation.DecodePacket(in.ID, in.Packet)
		return federation.Copy{Project: in.ID, Packet: &p}, nil, err
	}},
}

// readCopy returns the copy in the parameters of a method. whole is set for a
// project that came with its contents.
func readCopy(method string, in Copied) (copied federation.Copy, whole *federation.ProjectCopy, err error) {
	r := copyReaders[method]
	switch {
	case in.ID == "" && r.name != "project":
		return copied, nil, hub.Errorf(hub.CodeInvalid, method, "projectId required")
	case len(r.member(in)) == 0 || string(r.member(in)) == "null":
		return copied, nil, hub.Errorf(hub.CodeInvalid, method, "%s required", r.name)
	}
	if copied, whole, err = r.read(in); err != nil && (copied.Contract == nil || copied.Contract.ID == "") {
		return copied, nil, err
	} // a contract that breaks a rule is refused where that is recorded
	if whole != nil && len(whole.Contracts)+len(whole.Packets) == 0 {
		whole = nil
	}
	return copied, whole, nil
}

// A Synced is the outcome of one copy.
type Synced struct {
	federation.SyncResult
	Project  coord.ProjectID  `json:"projectId"`
	Repo     coord.RepoID     `json:"repoId,omitempty"`
	Contract coord.ContractID `json:"contractId,omitempty"`
	Packet   coord.PacketID   `json:"packetId,omitempty"`
}

// syncs defines an operation that merges a copy from a peer. Requests that follow
// each other in a batch are merged in one go.
func syncs(method, doc string) op[Copied, Synced] {
	o := op[Copied, Synced]{Spec: spec(method, coord.PermitSync, doc), Form: rpc.Together(mergeCopies)}
	o.MaxBody, o.Group = largeBody, "sync"
	o.Deadline = rpc.Whole
	return o
}

// mergeCopies merges copies in the order of their requests: those that follow
// each other in one transaction, a project with its contents by itself.
func mergeCopies(ctx context.Context, s *Services, c hub.Caller, requests []rpc.Request[Copied]) []rpc.Answer[Synced] {
	answers := make([]rpc.Answer[Synced], len(requests))
	var copies []federation.Copy
	var at []int // the answer of each copy

	// merge stores the copies collected so far in one transaction.
	merge := func() {
		if len(copies) == 0 {
			return
		}
		done, err := s.Network.Receive(ctx, c.AID, c.Native, copies)
		for k, i := range at {
			if answers[i].Err = err; err == nil {
				answers[i] = synced(copies[k], done[k])
			}
		}
		copies, at = nil, nil
	}

	for i, req := range requests {
		copied, whole, err := readCopy(req.Spec.Method, req.Params)
		if err == nil {
			err = s.Admit(ctx, c, req.Spec, contract.In(copied.Project))
		}
		if err == nil {
			err = s.Callers.Source(c, req.Params.Source)
		}

		switch {
		case err != nil:
			answers[i].Err = err
		case whole != nil:
			merge()
			answers[i] = s.mergeProject(ctx, c, copied, *whole)
		default:
			copies, at = append(copies, copied), append(at, i)
		}
	}

	merge()
	return answers
}

// mergeProject merges a project with its contents.
func (s *Services) mergeProject(ctx context.Context, c hub.Caller, copied federation.Copy, whole federation.ProjectCopy) rpc.Answer[Synced] {
	done, err := s.Contracts.SyncProject(ctx, c.AID, c.Native, whole)
	if err != nil {
		return rpc.Answer[Synced]{Err: err}
	}
	if done.Behind && !c.Native {
		s.Network.Compare(c.AID) // it does not ask for missing copies itself; a caller that is no peer is not compared with
	}
	return synced(copied, done)
}

// synced returns the answer to a copy. A project that is not here is an outcome;
// a copy that cannot be right, or is too large, is an error.
func synced(c federation.Copy, done federation.SyncResult) rpc.Answer[Synced] {
	if done.Status == federation.SyncError && done.Code != hub.CodeNotFound {
		return rpc.Answer[Synced]{Err: &hub.Error{Code: done.Code, Op: "sync", Err: errors.New(done.Reason), RetryAfter: done.Retry}}
	}
	out := Synced{SyncResult: done, Project: c.Project}
	switch {
	case c.Repo != nil:
		out.Repo = c.Repo.ID
	case c.Contract != nil:
		out.Contract = c.Contract.ID
	case c.Packet != nil:
		out.Packet = c.Packet.ID
	}
	return rpc.Answer[Synced]{Result: out}
}

// compares performs an operation with which hubs find out where they differ.
func compares[P, R any](do func(Network, context.Context, coord.AID, P) (R, error)) func(context.Context, *Services, hub.Caller, P) (R, error) {
	return func(ctx context.Context, s *Services, c hub.Caller, p P) (R, error) {
		return do(s.Network, ctx, c.AID, p)
	}
}
