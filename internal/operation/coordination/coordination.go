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
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
)

// Services are the services that the operations work on.
type Services struct {
	Contracts *contract.Service
	Keys      *keys.Service
	Peers     *peers.Service
	Callers   *callers.Service
	Network   Network
	Runner    contract.Runner // of tests whose results are missing; may be nil
	Bus       hub.Bus         // whose hints end a wait for changes

	Self coord.AID // this hub
	Repo string    // that it speaks for

	// Done is closed when the hub stops, which ends every wait.
	Done <-chan struct{}
}

// A Network calls other hubs.
type Network interface {
	// Projects, Summary, Packets, Versions and Copies answer a peer that compares projects
	// with this hub. They report CodeNotFound for a project that the peer takes no
	// part in.
	Projects(ctx context.Context, peer coord.AID, p federation.ProjectsParams) (federation.ProjectsPage, error)
	Summary(ctx context.Context, peer coord.AID, p federation.SummaryParams) (federation.Summary, error)
	Versions(ctx context.Context, peer coord.AID, p federation.VersionsParams) (federation.VersionsPage, error)
	Packets(ctx context.Context, peer coord.AID, p federation.PacketsParams) (federation.PacketsPage, error)
	Copies(ctx context.Context, peer coord.AID, p federation.CopiesParams) (federation.CopiesPage, error)
	// Receive merges copies that a peer sent, each with its own status.
	Receive(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error)
	// Compare compares everything with a peer soon.
	Compare(peer coord.AID) error
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
	Exchange  string           `json:"exchange,omitempty"` // its address; "" for the one that is configured
	Query     string           `json:"query,omitempty"`
	Role      string           `json:"role,omitempty"`
	Languages []string         `json:"languages,omitempty"`
	Limit     strictjson.Count `json:"limit,omitzero"`
}

// largeBody is how many bytes a request may have that brings a file or a copy.
const largeBody = 16 << 20

// The operations, in the order of a project's life.
var (
	Coordinate = coordinateOperation()

	CreateProject       = define("cacp/project/create", coord.PermitWrite, "Create a project for several repositories.", createProject)
	JoinProject         = define("cacp/project/join", coord.PermitClaim, "Claim a repository of a project.", joinProject)
	LeaveProject        = define("cacp/project/leave", coord.PermitClaim, "Release a repository that you claimed.", leaveProject)
	GetProject          = rpc.Within(rpc.Whole, streams[ProjectParams, federation.ProjectCopy]("cacp/project/get", coord.PermitRead, "Read a project with its contents.", getProject))
	ListProjects        = rpc.Within(rpc.Whole, streams[ListParams, Projects]("cacp/project/list", coord.PermitRead, "List the projects, each with its contents unless summary is set.", listProjects))
	ExportProject       = rpc.Within(rpc.Whole, streams[ProjectParams, json.RawMessage]("cacp/project/export", coord.PermitRead, "Export a project with its contents.", getProject))
	UpdateProjectStatus = define("cacp/project/updateStatus", coord.PermitWrite, "Record the status of a project.", updateStatus)
	AddRepo             = define("cacp/project/addRepo", coord.PermitWrite, "Add a repository to a project.", addRepo)
	SetPolicy           = define("cacp/project/setPolicy", coord.PermitWrite, "Choose the repositories that must agree to a contract: any, counterparty or all.", setPolicy)
	ListChanges         = rpc.Within(maxWait+rpc.Soon, locally(define("cacp/project/changes", "", "List changes after a number; waitS waits for the next one.", changes)))

	Propose       = define("cacp/contract/propose", coord.PermitPropose, "Propose an interface.", calls((*contract.Service).Propose, proposed))
	Respond       = define("cacp/contract/respond", coord.PermitRespond, "Agree, ask for a change, or reject.", calls((*contract.Service).Respond, responded))
	Update        = define("cacp/contract/update", coord.PermitPropose, "Publish the next version of a contract.", calls((*contract.Service).Update, proposed))
	GetContract   = define("cacp/contract/get", coord.PermitRead, "Read one contract, and its earlier versions on request.", getContract)
	ListContracts = define("cacp/contract/list", coord.PermitRead, "List the contracts of a project.", listContracts)
	DiffContract  = define("cacp/contract/diff", coord.PermitRead, "Compare two versions of a contract, for each consumer.", calls((*contract.Service).Diff, unchanged[contract.Diff]))
	Check         = define("cacp/contract/check", coord.PermitRead, "Check that a repository's contracts have reached a state.", calls((*contract.Service).Check, unchanged[contract.Verdict]))
	ListConflicts = define("cacp/contract/conflicts", coord.PermitRead, "List overruled writes: contract contents, contract states and project members.", conflicts)

	Use               = define("parley/contract/use", coord.PermitRespond, "Declare the parts of a contract that your repository uses.", calls((*contract.Service).Use, declared))
	Provide           = define("parley/contract/provider", coord.PermitRespond, "Ask that another repository provides a contract, or consent to that.", calls((*contract.Service).Provide, unchanged[contract.Provided]))
	Impact            = define("parley/contract/impact", coord.PermitRead, "Name the consumers that a change of a contract affects.", calls((*contract.Service).Impact, unchanged[contract.Impact]))
	Policy            = define("parley/contract/policy", coord.PermitRead, "Show or set what a project does about breaking updates: forbid, ask or sunset.", calls((*contract.Service).BreakingPolicy, policyAnswer))
	Deprecate         = define("parley/contract/deprecate", coord.PermitPropose, "Announce the end of a contract or a part of it.", ends((*contract.Service).Deprecate))
	Deployed          = define("parley/contract/deployed", coord.PermitDeploy, "Record that a commit of a repository runs in an environment.", calls((*contract.Service).Deployed, deployed))
	Test              = define("parley/contract/test", coord.PermitWrite, "Name a check of a repository as its test of a contract.", calls((*contract.Service).Test, unchanged[contract.Tests]))
	Matrix            = define("parley/contract/matrix", coord.PermitRead, "Show which version of each contract each repository was tested against.", calls((*contract.Service).Matrix, unchanged[contract.Matrix]))
	CanMerge          = rpc.Within(maxWait+rpc.Soon, define("parley/contract/canMerge", coord.PermitRead, "Answer whether a commit of a repository may be merged; waitS waits for a yes.", waits((*contract.Service).CanMerge)))
	CanDeploy         = rpc.Within(maxWait+rpc.Soon, define("parley/contract/canDeploy", coord.PermitRead, "Answer whether a commit of a repository may be deployed; waitS waits for a yes.", waits((*contract.Service).CanDeploy)))
	WhoBreaks         = define("parley/contract/who_breaks", coord.PermitRead, "Name the consumers that a change of a contract breaks, in a few words.", whoBreaks)
	MayMerge          = define("parley/contract/may_merge", coord.PermitRead, "Answer whether a commit may be merged, or deployed if env is given, in a few words.", mayMerge)
	ListEnvironments  = define("parley/contract/environment/list", coord.PermitRead, "List the environments of a project, and what runs there.", listEnvironments)
	AddEnvironment    = define("parley/contract/environment/add", coord.PermitWrite, "Declare an environment of a project.", calls((*contract.Service).AddEnvironment, unchanged[contract.Environments]))
	RemoveEnvironment = define("parley/contract/environment/remove", coord.PermitWrite, "Remove an environment of a project.", calls((*contract.Service).RemoveEnvironment, unchanged[contract.Environments]))

	Withdraw = define("parley/contract/withdraw", coord.PermitPropose, "End a contract or a part of it.", ends((*contract.Service).Withdraw))

	Share          = define("cacp/context/share", coord.PermitShare, "Share context with the other repositories of a project.", calls((*contract.Service).Share, shared))
	ShareCode      = define("cacp/context/shareCode", coord.PermitShare, "Share a code snippet.", shareCode)
	ShareTypes     = define("cacp/context/shareTypes", coord.PermitShare, "Share type definitions.", shareTypes)
	AskQuestion    = define("cacp/context/askQuestion", coord.PermitShare, "Ask the other repositories of a project a question.", calls((*contract.Service).Ask, shared))
	RecordDecision = define("cacp/context/recordDecision", coord.PermitShare, "Record a decision.", calls((*contract.Service).Decide, shared))
	ListContext    = define("cacp/context/list", coord.PermitRead, "List the newest shared context.", listContext)
	GetThread      = define("cacp/context/getThread", coord.PermitRead, "Read a context packet and its answers.", thread)

	StartWork    = define("cacp/implementation/start", coord.PermitImplement, "Record that your repository starts to implement a contract.", calls((*contract.Service).Start, workState))
	CompleteWork = define("cacp/implementation/complete", coord.PermitImplement, "Record that your repository has implemented a contract.", calls((*contract.Service).Complete, workState))
	VerifyWork   = define("cacp/implementation/verify", coord.PermitImplement, "Record whether the implementations work together.", calls((*contract.Service).Verify, workState))
	WorkStatus   = define("cacp/implementation/getStatus", coord.PermitRead, "Show each repository's progress on a contract.", workStatus)

	ShareFile        = rpc.Within(rpc.Whole, large(define("cacp/file/share", coord.PermitFiles, "Share a file with a project.", shareFile)))
	RequestFile      = define("cacp/file/request", coord.PermitFiles, "Ask the other repositories of a project for a file.", requestFile)
	ListFileRequests = define("cacp/file/listRequests", coord.PermitRead, "List the requested files.", listRequests)
	FulfilRequest    = rpc.Within(rpc.Whole, large(define("cacp/file/fulfillRequest", coord.PermitFiles, "Upload a requested file.", fulfilRequest)))

	CreateInvite = define("cacp/invite/create", "", "Create an invite for a repository of a project.", createInvite)
	RevokeInvite = define("cacp/invite/revoke", "", "Revoke an invite.", revokeInvite)
	ListInvites  = define("cacp/invite/list", "", "List the invites of a project.", listInvites)
	RedeemInvite = redeemOperation()

	AddPeer     = rpc.Within(rpc.Elsewhere, locally(define("parley/peer/add", "", "Add a peer.", addPeer)))
	JoinHub     = rpc.Within(rpc.Elsewhere, locally(define("parley/peer/join", "", "Redeem an invite at another hub.", joinHub)))
	ListPeers   = locally(define("parley/peer/list", "", "List the peers and how far each is behind.", listPeers))
	ApprovePeer = rpc.Within(rpc.Elsewhere, locally(define("parley/peer/approve", "", "Approve a peer.", approvePeer)))
	RemovePeer  = locally(define("parley/peer/remove", "", "Remove a peer.", removePeer))
	SyncPeer    = locally(define("parley/peer/sync", "", "Schedule a full comparison with a peer.", syncPeer))
	Enlist      = rpc.Within(rpc.Elsewhere, administers(define("parley/peer/enlist", "", "Register this hub at an exchange.", enlist)))
	MintToken   = locally(define("parley/project/token", "", "Create a token for one agent and one project.", mintToken))
	ListTokens  = locally(define("parley/token/list", "", "List the project tokens, without expired ones.", listTokens))
	RevokeToken = locally(define("parley/token/revoke", "", "Revoke a project token.", revokeToken))
	Discover    = rpc.Within(rpc.Elsewhere, administers(define("parley/discover", "", "Search an exchange for agents.", discover)))

	Announce = rpc.Within(rpc.Elsewhere, define("cacp/peer/announce", coord.PermitSync, "Announce a peer to this hub.", announce))

	SyncProject  = syncs("cacp/project/sync", "Accept a project from a peer.")
	SyncRepo     = syncs("cacp/repo/sync", "Accept a repository from a peer.")
	SyncContract = syncs("cacp/contract/sync", "Accept a contract from a peer.")
	SyncPacket   = syncs("cacp/context/sync", "Accept a context packet from a peer.")

	SyncProjects = rpc.Within(rpc.Whole, define("cacp/sync/projects", coord.PermitCompare, "List the projects of a peer.", compares(Network.Projects)))
	SyncSummary  = rpc.Within(rpc.Whole, define("cacp/sync/summary", coord.PermitCompare, "Read the hashes of a project's contents.", compares(Network.Summary)))
	SyncPackets  = rpc.Within(rpc.Whole, define("cacp/sync/packets", coord.PermitCompare, "List the packet ids in some buckets.", compares(Network.Packets)))
	SyncVersions = rpc.Within(rpc.Whole, define("cacp/sync/versions", coord.PermitCompare, "List the versions of contracts on this hub.", compares(Network.Versions)))
	SyncCopies   = rpc.Within(rpc.Whole, define("cacp/sync/copies", coord.PermitCompare, "Read current copies of a project's contents.", compares(Network.Copies)))
)

// Operations is the table.
var Operations = rpc.Table[*Services]{
	Coordinate, CreateProject, JoinProject, LeaveProject, GetProject, ListProjects, ExportProject, UpdateProjectStatus, AddRepo, SetPolicy, ListChanges,
	Propose, Respond, Update, GetContract, ListContracts, DiffContract, Check, ListConflicts, Use, Provide, Impact, Policy, Deprecate, Withdraw, Test, ListEnvironments, AddEnvironment, RemoveEnvironment, Deployed, Matrix, CanMerge, CanDeploy, WhoBreaks, MayMerge,
	Share, ShareCode, ShareTypes, AskQuestion, RecordDecision, ListContext, GetThread,
	StartWork, CompleteWork, VerifyWork, WorkStatus, ShareFile, RequestFile, ListFileRequests, FulfilRequest,
	CreateInvite, RevokeInvite, ListInvites, RedeemInvite,
	AddPeer, JoinHub, ListPeers, ApprovePeer, RemovePeer, SyncPeer, Enlist, MintToken, ListTokens, RevokeToken, Discover,
	Announce, SyncProject, SyncRepo, SyncContract, SyncPacket, SyncProjects, SyncSummary, SyncPackets, SyncVersions, SyncCopies,
}

// An op is an operation of this table.
type op[P, R any] = rpc.Operation[*Services, P, R]

// The parts of parameters that name a project or a contract.
type (
	InProject  = contract.InProject
	InContract = contract.InContract
)

// Admit reports CodeDenied unless the caller has the permission that an operation
// needs, in the project that its parameters name. Parameters with a ProjectID must
// name one. An operation that is open to guests needs no permission.
func (s *Services) Admit(_ context.Context, c hub.Caller, o rpc.Spec, params any) error {
	if slices.Contains(o.Callers, hub.CallerGuest) {
		return nil
	}
	var id coord.ProjectID
	if p, ok := params.(interface{ ProjectID() coord.ProjectID }); ok {
		if id = p.ProjectID(); id == "" {
			return hub.Errorf(hub.CodeInvalid, o.Method, "projectId required")
		}
	}
	err := s.Callers.Admit(c, o.Method, o.Permission, id)
	if p, ok := params.(interface{ HasCommit() bool }); ok && hub.CodeOf(err) == hub.CodeDenied && p.HasCommit() {
		return s.Callers.Admit(c, o.Method, coord.PermitEvidence, id) // a result of CI alone
	}
	return err
}

func spec(method string, need coord.Permission, doc string) rpc.Spec {
	s := rpc.Spec{Method: method, Doc: doc, Permission: need, Callers: rpc.Identified, Changes: true, Dialect: rpc.Tolerant, Deadline: rpc.Soon}
	if need == coord.PermitRead {
		s.Callers = slices.Concat(s.Callers, []hub.CallerKind{hub.CallerViewer})
	}
	return s
}

// define defines an operation for callers with a permission. An operation that
// needs "" is for agents of this hub.
func define[P, R any](method string, need coord.Permission, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) op[P, R] {
	return op[P, R]{Spec: spec(method, need, doc), Do: do}
}

// calls performs an operation by a method of the contract service, and makes the
// answer of its result.
func calls[P, T, R any](do func(*contract.Service, context.Context, hub.Caller, P) (T, error), answer func(T, error) (R, error)) func(context.Context, *Services, hub.Caller, P) (R, error) {
	return func(ctx context.Context, s *Services, c hub.Caller, p P) (R, error) {
		return answer(do(s.Contracts, ctx, c, p))
	}
}

// unchanged is the answer of calls that is the result itself.
func unchanged[T any](result T, err error) (T, error) { return result, err }

// streams defines an operation that writes the JSON of an R as it reads.
func streams[P, R any](method string, need coord.Permission, doc string, write func(context.Context, *Services, hub.Caller, P, io.Writer) error) op[P, R] {
	return op[P, R]{Spec: spec(method, need, doc), Form: rpc.Stream(write)}
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
