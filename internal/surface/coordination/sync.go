package coordination

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/jsonrpc"
)

// copied are the parameters of the methods that bring a copy of something.
type copied struct {
	ID       hub.ProjectID   `json:"projectId"`
	Project  json.RawMessage `json:"project"`
	Repo     json.RawMessage `json:"repo"`
	Contract json.RawMessage `json:"contract"`
	Packet   json.RawMessage `json:"packet"`
	Source   hub.AID         `json:"sourceAgent"`
}

// unpack says how each method that brings a copy reads it.
var unpack = map[string]func(copied) (hub.Copy, *hub.ProjectCopy, error){
	"cacp/project/sync": func(in copied) (hub.Copy, *hub.ProjectCopy, error) {
		p, err := hub.DecodeProject(in.Project)
		return hub.Copy{Project: p.ID, Head: &p.Project}, &p, err
	},
	"cacp/repo/sync": func(in copied) (hub.Copy, *hub.ProjectCopy, error) {
		r, err := hub.DecodeRepo(in.Repo)
		return hub.Copy{Project: in.ID, Repo: &r}, nil, err
	},
	"cacp/contract/sync": func(in copied) (hub.Copy, *hub.ProjectCopy, error) {
		c, err := hub.DecodeContract(in.ID, in.Contract)
		return hub.Copy{Project: in.ID, Contract: &c}, nil, err
	},
	"cacp/context/sync": func(in copied) (hub.Copy, *hub.ProjectCopy, error) {
		p, err := hub.DecodePacket(in.ID, in.Packet)
		return hub.Copy{Project: in.ID, Packet: &p}, nil, err
	},
}

// members says which member of the parameters each method that brings a copy
// cannot do without.
var members = map[string]func(copied) (string, json.RawMessage){
	"cacp/project/sync":  func(in copied) (string, json.RawMessage) { return "project", in.Project },
	"cacp/repo/sync":     func(in copied) (string, json.RawMessage) { return "repo", in.Repo },
	"cacp/contract/sync": func(in copied) (string, json.RawMessage) { return "contract", in.Contract },
	"cacp/context/sync":  func(in copied) (string, json.RawMessage) { return "packet", in.Packet },
}

// take reads a copy and asks whether the visitor may bring it. whole is set for
// a project that came with what it holds.
func (s *Services) take(ctx context.Context, v hub.Caller, method string, raw []byte) (c hub.Copy, whole *hub.ProjectCopy, err error) {
	var in copied
	if err := api.DecodeLoose(method, raw, &in); err != nil {
		return c, nil, err
	}
	name, thing := members[method](in)
	switch {
	case in.ID == "" && name != "project":
		return c, nil, hub.Errorf(hub.CodeInvalid, method, "projectId required")
	case some(thing) == nil:
		return c, nil, hub.Errorf(hub.CodeInvalid, method, "%s required", name)
	}
	if c, whole, err = unpack[method](in); err != nil {
		return c, nil, err
	}
	if whole != nil && len(whole.Contracts)+len(whole.Packets) == 0 {
		whole = nil
	}
	if err := s.Access.Admit(ctx, v, method, c.Project); err != nil {
		return c, nil, err
	}
	return c, whole, s.Access.Source(v, in.Source)
}

// A Synced says what became of a copy.
type Synced struct {
	hub.Synced
	Project  hub.ProjectID  `json:"projectId"`
	Repo     hub.RepoID     `json:"repoId,omitempty"`
	Contract hub.ContractID `json:"contractId,omitempty"`
	Packet   hub.PacketID   `json:"packetId,omitempty"`
}

// sync merges the copies that requests at the front bring: as many in one go as
// follow each other.
func (s *Services) sync(ctx context.Context, v hub.Caller, rest []jsonrpc.Request) []jsonrpc.Response {
	var answers []jsonrpc.Response
	var copies []hub.Copy
	var at []int // the answer of each copy
	for _, req := range rest {
		if unpack[req.Method] == nil || req.Invalid != nil {
			break
		}
		res := jsonrpc.Response{ID: req.ID}
		c, whole, err := s.take(ctx, v, req.Method, req.Params)
		if err == nil && whole != nil {
			if len(answers) > 0 {
				break // it is taken by itself, after those before it
			}
			return []jsonrpc.Response{s.syncWhole(ctx, v, req, c, *whole)}
		}
		if err != nil {
			s.observe(ctx, v, req.Method, func() error { return err })
			res.Error = wireError(err)
		} else {
			copies, at = append(copies, c), append(at, len(answers))
		}
		answers = append(answers, res)
	}
	var done []hub.Synced
	failed := s.observe(ctx, v, "sync", func() (err error) {
		done, err = s.Network.Receive(ctx, v.AID, v.Native, copies)
		return err
	})
	for k, i := range at {
		if failed != nil {
			answers[i].Error = wireError(failed)
			continue
		}
		synced(&answers[i], copies[k], done[k])
	}
	return answers
}

// syncWhole merges a project with everything in it.
func (s *Services) syncWhole(ctx context.Context, v hub.Caller, req jsonrpc.Request, c hub.Copy, whole hub.ProjectCopy) jsonrpc.Response {
	res := jsonrpc.Response{ID: req.ID}
	var done hub.Synced
	err := s.observe(ctx, v, req.Method, func() (err error) {
		done, err = s.Contracts.SyncProject(ctx, v.AID, v.Native, whole)
		return err
	})
	if err != nil {
		res.Error = wireError(err)
		return res
	}
	if done.Behind && !v.Native {
		s.Network.Compare(v.AID) // it will not ask for what it lacks; where nobody is kept in step, nobody is told
	}
	synced(&res, c, done)
	return res
}

// synced writes what became of a copy. A project that is not here is an answer;
// what cannot be right or is too large is an error.
func synced(res *jsonrpc.Response, c hub.Copy, done hub.Synced) {
	if done.Status == hub.SyncError && done.Code != hub.CodeNotFound {
		res.Error = wireError(&hub.Error{Code: done.Code, Op: "sync", Err: reason(done.Reason)})
		return
	}
	out := Synced{Synced: done, Project: c.Project}
	switch {
	case c.Repo != nil:
		out.Repo = c.Repo.ID
	case c.Contract != nil:
		out.Contract = c.Contract.ID
	case c.Packet != nil:
		out.Packet = c.Packet.ID
	}
	res.Result, _ = api.Marshal(out) // plain values: cannot fail
}

// A reason is a text as an error.
type reason string

func (r reason) Error() string { return string(r) }

// inStep makes a Method with which hubs find out where they differ.
func inStep(name, doc string) Method {
	return Method{Name: name, Doc: doc, call: func(ctx context.Context, s *Services, v hub.Caller, raw []byte) (any, error) {
		if err := s.Access.Admit(ctx, v, name, ""); err != nil {
			return nil, err
		}
		result, _, err := s.Network.Answer(ctx, v.AID, name, raw)
		return result, err
	}}
}
