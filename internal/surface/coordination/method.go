package coordination

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/jsonrpc"
)

// A Method is something that can be asked over JSON-RPC.
type Method struct {
	Name string
	Doc  string

	// One of the two is set: write for answers that may be too large to hold.
	call  func(ctx context.Context, s *Services, v hub.Caller, params []byte) (any, error)
	write func(ctx context.Context, s *Services, v hub.Caller, params []byte, w io.Writer) error
}

// params are the parameters of a method: they know the project that they are
// about.
type params interface {
	// about returns the project, and whether there must be one.
	about() (id hub.ProjectID, must bool)
}

// inProject is part of the parameters of every method about one project.
type inProject struct {
	Project hub.ProjectID `json:"projectId"`
}

func (p inProject) about() (hub.ProjectID, bool) { return p.Project, true }

// anywhere is part of the parameters of methods that are about no project, or
// perhaps about one.
type anywhere struct{}

func (anywhere) about() (hub.ProjectID, bool) { return "", false }

// read decodes parameters and asks whether the visitor may call the method.
func read[P params](ctx context.Context, s *Services, v hub.Caller, method string, raw []byte) (P, error) {
	var p P
	if err := api.DecodeLoose(method, raw, &p); err != nil {
		return p, err
	}
	id, must := p.about()
	if must && id == "" {
		return p, hub.Errorf(hub.CodeInvalid, method, "projectId required")
	}
	return p, s.Access.Admit(ctx, v, method, id)
}

// method makes a Method whose answer is held in memory.
func method[P params, R any](name, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) Method {
	return Method{Name: name, Doc: doc, call: func(ctx context.Context, s *Services, v hub.Caller, raw []byte) (any, error) {
		p, err := read[P](ctx, s, v, name, raw)
		if err != nil {
			return nil, err
		}
		return do(ctx, s, v, p)
	}}
}

// local makes a Method that only agents of this hub may call.
func local[P params, R any](name, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) Method {
	return method(name, doc, func(ctx context.Context, s *Services, v hub.Caller, p P) (R, error) {
		if !v.Local() {
			var none R
			return none, hub.Errorf(hub.CodeDenied, name, "only agents of this hub may call %s", name)
		}
		return do(ctx, s, v, p)
	})
}

// stream makes a Method whose answer is written as it is read.
func stream[P params](name, doc string, do func(context.Context, *Services, hub.Caller, P, io.Writer) error) Method {
	return Method{Name: name, Doc: doc, write: func(ctx context.Context, s *Services, v hub.Caller, raw []byte, w io.Writer) error {
		p, err := read[P](ctx, s, v, name, raw)
		if err != nil {
			return err
		}
		return do(ctx, s, v, p, w)
	}}
}

// Methods is the table of everything that can be asked, in the order of a
// project's life. What hubs tell each other is at its end.
var Methods = []Method{
	method("cacp/project/create", "Make a project for several repositories.", createProject),
	method("cacp/project/join", "Claim a repository of a project.", joinProject),
	stream("cacp/project/get", "A project with everything in it.", getProject),
	stream("cacp/project/list", "Every project, each with everything in it unless summary is asked for.", listProjects),
	stream("cacp/project/export", "A project with everything in it, to keep.", getProject),
	method("cacp/project/updateStatus", "Say how far a project has come.", updateStatus),
	method("cacp/project/addRepo", "Add a repository to a project.", addRepo),
	method("cacp/project/setPolicy", "Say whose word makes a contract agreed: any, counterparty or all.", setPolicy),
	local("cacp/project/changes", "What changed since a number; waits if asked to.", changes),

	method("cacp/contract/propose", "Propose an interface.", propose),
	method("cacp/contract/respond", "Agree, ask for a change, or reject.", respond),
	method("cacp/contract/update", "Give a contract its next version.", update),
	method("cacp/contract/get", "One contract, with its earlier versions if asked for.", getContract),
	method("cacp/contract/list", "The contracts of a project.", listContracts),
	method("cacp/contract/diff", "What changed between two versions.", diff),
	method("cacp/contract/check", "Whether the contracts of a repository have come far enough.", check),
	method("cacp/contract/conflicts", "Contents that lost against another of the same version.", conflicts),

	method("cacp/context/share", "Let the others of a project know something.", share),
	method("cacp/context/shareCode", "Share a piece of code.", shareCode),
	method("cacp/context/shareTypes", "Share definitions of types.", shareTypes),
	method("cacp/context/askQuestion", "Ask the others something.", ask),
	method("cacp/context/recordDecision", "Write a decision down.", decide),
	method("cacp/context/list", "What was shared, the newest of it.", listContext),
	method("cacp/context/getThread", "A packet with the answers to it.", thread),

	method("cacp/implementation/start", "Say that your repository begins with a contract.", startWork),
	method("cacp/implementation/complete", "Say that your repository has implemented a contract.", completeWork),
	method("cacp/implementation/verify", "Say whether the implementations work together.", verifyWork),
	method("cacp/implementation/getStatus", "How far each repository is with a contract.", workStatus),

	method("cacp/file/share", "Give the hub a file for a project.", shareFile),
	method("cacp/file/request", "Ask the others of a project for a file.", requestFile),
	method("cacp/file/listRequests", "Which files were asked for.", listRequests),
	method("cacp/file/fulfillRequest", "Give the hub a file that was asked for.", fulfilRequest),

	method("cacp/invite/create", "Make an invite for a repository of a project.", createInvite),
	method("cacp/invite/revoke", "Make an invite useless.", revokeInvite),
	method("cacp/invite/list", "The invites of a project.", listInvites),
	{Name: methodRedeem, Doc: "Take an invite and exchange keys."}, // needs no key: see Handler.redeem

	local("parley/peer/add", "Add a peer.", addPeer),
	local("parley/peer/join", "Redeem an invite at another hub.", joinHub),
	local("parley/peer/list", "Every peer, and how far it is behind.", listPeers),
	local("parley/peer/approve", "Let a peer in.", approvePeer),
	local("parley/peer/remove", "Shut a peer out.", removePeer),
	local("parley/peer/sync", "Compare everything with a peer soon.", syncPeer),
	local("parley/peer/enlist", "Tell an exchange about this hub.", enlist),
	local("parley/project/token", "Make a token for one agent and one project.", mintToken),
	local("parley/discover", "Look for agents in an exchange.", discover),

	method("cacp/peer/announce", "Say hello.", announce),
	{Name: "cacp/project/sync", Doc: "Take a project from a peer."},
	{Name: "cacp/repo/sync", Doc: "Take a repository from a peer."},
	{Name: "cacp/contract/sync", Doc: "Take a contract from a peer."},
	{Name: "cacp/context/sync", Doc: "Take a context packet from a peer."},
	inStep("cacp/sync/projects", "The projects that a peer takes part in."),
	inStep("cacp/sync/summary", "What a project holds, in hashes."),
	inStep("cacp/sync/packets", "The ids of some packets."),
	inStep("cacp/sync/copies", "Things of a project as they are now."),
}

var byName = func() map[string]Method {
	m := make(map[string]Method, len(Methods))
	for _, one := range Methods {
		m[one.Name] = one
	}
	return m
}()

// Lookup returns a method by its name.
func Lookup(name string) (Method, bool) {
	m, ok := byName[name]
	return m, ok
}

// Call performs a method for a visitor and returns its result as JSON, which
// may have at most so many bytes. Every way in comes through here but those of
// peers: a failure of the hub is logged here, and a panic ends here.
func (s *Services) Call(ctx context.Context, v hub.Caller, m Method, raw []byte, most int) (json.RawMessage, error) {
	var result json.RawMessage
	err := s.observe(ctx, v, m.Name, func() error {
		if m.write != nil {
			b := bounded{most: most}
			err := m.write(ctx, s, v, raw, &b)
			result = b.buf.Bytes()
			return err
		}
		if m.call == nil {
			return hub.Errorf(hub.CodeInvalid, m.Name, "%s cannot be called in this way", m.Name)
		}
		answer, err := m.call(ctx, s, v, raw)
		if err == nil {
			result, err = api.Marshal(answer)
		}
		return err
	})
	return result, err
}

// observe runs the body of a method: whatever comes of it is recorded, logged
// and counted as it should be.
func (s *Services) observe(ctx context.Context, v hub.Caller, method string, do func() error) (err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = hub.Errorf(hub.CodeInternal, method, "panic: %v", p)
		}
		code := hub.CodeOf(err)
		switch {
		case err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()): // done, or the caller is gone
		case code == hub.CodeDegraded || code == hub.CodeInternal:
			if s.Log != nil {
				s.Log.Error("call failed", "actor", v.ID, "op", method, "code", code, "err", err)
			}
		default:
			s.Journal.Refused(ctx, v.ID, method, code)
		}
		if s.Observe != nil {
			s.Observe(method, code, time.Since(began))
		}
	}()
	return do()
}

// bounded holds what is written to it, up to a number of bytes.
type bounded struct {
	buf  bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		return 0, hub.Errorf(hub.CodeTooLarge, "coordination", "the answer has more than %d bytes", b.most).
			WithHint("ask for it alone, not in a batch, or page by page")
	}
	return b.buf.Write(p)
}

// wireError turns a failure into what the protocol says of it. There are five
// codes and no others; -32602 says what was wrong with the parameters.
func wireError(err error) *jsonrpc.Error {
	e := api.WireError(err)
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		e.Message = "Invalid params: " + e.Message
	case jsonrpc.CodeServer:
		e.Message = "Server error: " + e.Message
	case jsonrpc.CodeInternal:
		e.Code = jsonrpc.CodeServer
	}
	return e
}

// unknown is the answer to a method that there is not.
func unknown(method string) *jsonrpc.Error {
	data, _ := json.Marshal(api.Reason{Reason: hub.CodeNotFound, Hint: "GET /methods lists the methods"}) // strings: cannot fail
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("Method not found: %.200s", method), Data: data}
}
