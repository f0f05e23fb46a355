// Package coordination is the table of operations with which repositories agree
// on contracts: the methods of the coordination protocol, for agents of this hub
// and for other hubs, and those with which the operator keeps peers.
//
// Parameters are read in either spelling of the protocol, and results have the
// members of both its document and its reference implementation. Services
// decide; this package translates.
package coordination

import (
	"context"
	"encoding/json"
	"io"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// Services are the services that the operations work on.
type Services struct {
	Contracts *contract.Service
	Keys      *keys.Service
	Peers     *peers.Service
	Callers   *callers.Service
	Network   Network
	Bus       hub.Bus // whose hints end a wait for changes

	Self hub.AID // this hub
	Repo string  // that it speaks for

	// Done is closed when the hub stops, which ends every wait.
	Done <-chan struct{}
}

// A Network calls other hubs.
type Network interface {
	// Answer answers the questions with which hubs stay in step. It reports
	// whether the method is one of those.
	Answer(ctx context.Context, from hub.AID, method string, params json.RawMessage) (result any, ok bool, err error)
	// Receive merges copies that a peer sent, each with its own status.
	Receive(ctx context.Context, from hub.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error)
	// Compare compares everything with a peer soon.
	Compare(peer hub.AID) error
	// Standings returns how far every peer is behind.
	Standings(ctx context.Context) ([]federation.PeerStatus, error)
	// Redeem hands an invite in at another hub.
	Redeem(ctx context.Context, endpoint string, r federation.Redemption) (federation.Welcome, error)
	// Discover asks an exchange for agents.
	Discover(ctx context.Context, s Search) ([]federation.Discovery, error)
	// Enlist tells an exchange about this hub.
	Enlist(ctx context.Context, exchange string) (federation.Registration, error)
}

// A Search says which agents to look for in an exchange.
type Search struct {
	Exchange  string   `json:"exchange,omitempty"` // its address; "" for the one that is configured
	Query     string   `json:"query,omitempty"`
	Role      string   `json:"role,omitempty"`
	Languages []string `json:"languages,omitempty"`
	Limit     int      `json:"limit,omitempty"`
}

// largeBody is how many bytes a request may have that brings a file or a copy.
const largeBody = 16 << 20

// The operations, in the order of a project's life.
var (
	Coordinate = coordinateOperation()

	CreateProject       = define("cacp/project/create", hub.PermitWrite, "Make a project for several repositories.", createProject)
	JoinProject         = define("cacp/project/join", hub.PermitWrite, "Claim a repository of a project.", joinProject)
	GetProject          = streams[ProjectParams, federation.ProjectCopy]("cacp/project/get", hub.PermitRead, "Read a project with everything in it.", getProject)
	ListProjects        = streams[ListParams, Projects]("cacp/project/list", hub.PermitRead, "List every project, each with everything in it unless summary is asked for.", listProjects)
	ExportProject       = streams[ProjectParams, json.RawMessage]("cacp/project/export", hub.PermitRead, "Read a project with everything in it, to keep.", getProject)
	UpdateProjectStatus = define("cacp/project/updateStatus", hub.PermitWrite, "Record how far a project has come.", updateStatus)
	AddRepo             = define("cacp/project/addRepo", hub.PermitWrite, "Add a repository to a project.", addRepo)
	SetPolicy           = define("cacp/project/setPolicy", hub.PermitWrite, "Choose the repositories that must agree to a contract: any, counterparty or all.", setPolicy)
	ListChanges         = locally(define("cacp/project/changes", "", "List changes since a number; waits if asked to.", changes))

	Propose       = define("cacp/contract/propose", hub.PermitPropose, "Propose an interface.", propose)
	Respond       = define("cacp/contract/respond", hub.PermitRespond, "Agree, ask for a change, or reject.", respond)
	Update        = define("cacp/contract/update", hub.PermitPropose, "Give a contract its next version.", update)
	GetContract   = define("cacp/contract/get", hub.PermitRead, "Read one contract, with its earlier versions if asked for.", getContract)
	ListContracts = define("cacp/contract/list", hub.PermitRead, "List the contracts of a project.", listContracts)
	DiffContract  = define("cacp/contract/diff", hub.PermitRead, "Compare two versions of a contract.", diff)
	Check         = define("cacp/contract/check", hub.PermitRead, "Report whether the contracts of a repository have come far enough.", check)
	ListConflicts = define("cacp/contract/conflicts", hub.PermitRead, "List contents that lost against another of the same version.", conflicts)

	Share          = define("cacp/context/share", hub.PermitShare, "Share context with the others of a project.", share)
	ShareCode      = define("cacp/context/shareCode", hub.PermitShare, "Share a piece of code.", shareCode)
	ShareTypes     = define("cacp/context/shareTypes", hub.PermitShare, "Share definitions of types.", shareTypes)
	AskQuestion    = define("cacp/context/askQuestion", hub.PermitShare, "Ask the others of a project a question.", ask)
	RecordDecision = define("cacp/context/recordDecision", hub.PermitShare, "Record a decision.", decide)
	ListContext    = define("cacp/context/list", hub.PermitRead, "List shared context, the newest of it.", listContext)
	GetThread      = define("cacp/context/getThread", hub.PermitRead, "Read a packet with the answers to it.", thread)

	StartWork    = define("cacp/implementation/start", hub.PermitImplement, "Record that your repository begins with a contract.", startWork)
	CompleteWork = define("cacp/implementation/complete", hub.PermitImplement, "Record that your repository has implemented a contract.", completeWork)
	VerifyWork   = define("cacp/implementation/verify", hub.PermitImplement, "Record whether the implementations work together.", verifyWork)
	WorkStatus   = define("cacp/implementation/getStatus", hub.PermitRead, "Report how far each repository is with a contract.", workStatus)

	ShareFile        = large(define("cacp/file/share", hub.PermitFiles, "Give the hub a file for a project.", shareFile))
	RequestFile      = define("cacp/file/request", hub.PermitFiles, "Ask the others of a project for a file.", requestFile)
	ListFileRequests = define("cacp/file/listRequests", hub.PermitRead, "List the files that were asked for.", listRequests)
	FulfilRequest    = large(define("cacp/file/fulfillRequest", hub.PermitFiles, "Give the hub a file that was asked for.", fulfilRequest))

	CreateInvite = define("cacp/invite/create", "", "Make an invite for a repository of a project.", createInvite)
	RevokeInvite = define("cacp/invite/revoke", "", "Revoke an invite.", revokeInvite)
	ListInvites  = define("cacp/invite/list", "", "List the invites of a project.", listInvites)
	RedeemInvite = redeemOperation()

	AddPeer     = locally(define("parley/peer/add", "", "Add a peer.", addPeer))
	JoinHub     = locally(define("parley/peer/join", "", "Redeem an invite at another hub.", joinHub))
	ListPeers   = locally(define("parley/peer/list", "", "List every peer, and how far it is behind.", listPeers))
	ApprovePeer = locally(define("parley/peer/approve", "", "Let a peer in.", approvePeer))
	RemovePeer  = locally(define("parley/peer/remove", "", "Shut a peer out.", removePeer))
	SyncPeer    = locally(define("parley/peer/sync", "", "Compare everything with a peer soon.", syncPeer))
	Enlist      = administers(define("parley/peer/enlist", "", "Tell an exchange about this hub.", enlist))
	MintToken   = locally(define("parley/project/token", "", "Make a token for one agent and one project.", mintToken))
	Discover    = administers(define("parley/discover", "", "Look for agents in an exchange.", discover))

	Announce = define("cacp/peer/announce", hub.PermitSync, "Greet this hub.", announce)

	SyncProject  = syncs("cacp/project/sync", "Take a project from a peer.")
	SyncRepo     = syncs("cacp/repo/sync", "Take a repository from a peer.")
	SyncContract = syncs("cacp/contract/sync", "Take a contract from a peer.")
	SyncPacket   = syncs("cacp/context/sync", "Take a context packet from a peer.")

	SyncProjects = compares("cacp/sync/projects", "List the projects that a peer takes part in.")
	SyncSummary  = compares("cacp/sync/summary", "Read the hashes of a project's contents.")
	SyncPackets  = compares("cacp/sync/packets", "List the ids of some packets.")
	SyncCopies   = compares("cacp/sync/copies", "Read things of a project as they are now.")
)

// Operations is the table.
var Operations = rpc.Table[*Services]{
	Coordinate, CreateProject, JoinProject, GetProject, ListProjects, ExportProject, UpdateProjectStatus, AddRepo, SetPolicy, ListChanges,
	Propose, Respond, Update, GetContract, ListContracts, DiffContract, Check, ListConflicts,
	Share, ShareCode, ShareTypes, AskQuestion, RecordDecision, ListContext, GetThread,
	StartWork, CompleteWork, VerifyWork, WorkStatus, ShareFile, RequestFile, ListFileRequests, FulfilRequest,
	CreateInvite, RevokeInvite, ListInvites, RedeemInvite,
	AddPeer, JoinHub, ListPeers, ApprovePeer, RemovePeer, SyncPeer, Enlist, MintToken, Discover,
	Announce, SyncProject, SyncRepo, SyncContract, SyncPacket, SyncProjects, SyncSummary, SyncPackets, SyncCopies,
}

// An op is an operation of this table.
type op[P, R any] = rpc.Operation[*Services, P, R]

// InProject is part of the parameters of every operation on one project.
type InProject struct {
	Project hub.ProjectID `json:"projectId"`
}

func (p InProject) project() hub.ProjectID { return p.Project }

// InContract is part of the parameters of every operation on one contract.
type InContract struct {
	InProject
	Contract hub.ContractID `json:"contractId"`
}

// admit reports CodeDenied unless the caller may call a method on the project
// that its parameters name. Parameters with a project() must name one.
func admit(ctx context.Context, s *Services, c hub.Caller, method string, need hub.Permission, params any) error {
	var id hub.ProjectID
	if p, ok := params.(interface{ project() hub.ProjectID }); ok {
		if id = p.project(); id == "" {
			return hub.Errorf(hub.CodeInvalid, method, "projectId required")
		}
	}
	return s.Callers.Admit(ctx, c, method, need, id)
}

func spec(method string, need hub.Permission, doc string) rpc.Spec {
	return rpc.Spec{Method: method, Doc: doc, Permission: need, Callers: rpc.Identified, Changes: true, Dialect: rpc.Tolerant}
}

// define defines an operation for callers with a permission. An operation that
// needs "" is for agents of this hub.
func define[P, R any](method string, need hub.Permission, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) op[P, R] {
	return op[P, R]{Spec: spec(method, need, doc), Do: func(ctx context.Context, s *Services, c hub.Caller, p P) (R, error) {
		if err := admit(ctx, s, c, method, need, p); err != nil {
			var none R
			return none, err
		}
		return do(ctx, s, c, p)
	}}
}

// streams defines an operation that writes the JSON of an R as it reads.
func streams[P, R any](method string, need hub.Permission, doc string, write func(context.Context, *Services, hub.Caller, P, io.Writer) error) op[P, R] {
	return op[P, R]{Spec: spec(method, need, doc), Stream: func(ctx context.Context, s *Services, c hub.Caller, p P, w io.Writer) error {
		if err := admit(ctx, s, c, method, need, p); err != nil {
			return err
		}
		return write(ctx, s, c, p, w)
	}}
}

// locally restricts an operation to agents of this hub.
func locally[P, R any](o op[P, R]) op[P, R] {
	o.Callers = rpc.Local
	return o
}

// administers restricts an operation to the operator.
func administers[P, R any](o op[P, R]) op[P, R] {
	o.Callers = rpc.OperatorOnly
	return o
}

// large lets the requests of an operation have largeBody bytes.
func large[P, R any](o op[P, R]) op[P, R] {
	o.MaxBody = largeBody
	return o
}

// required takes names and values in turn and reports the first that is empty.
func required(op string, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return hub.Errorf(hub.CodeInvalid, op, "%s required", pairs[i])
		}
	}
	return nil
}
