// Package api is the table of the hub's own operations: messages, handoffs,
// runs, agents, the journal and the decisions of a person. Each entry is a variable,
// by which a client calls it: rpc.Call(ctx, client, api.Send, params).
package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
	runner "github.com/parley-agents/parley/internal/work/run"
)

// Services are the services that the operations work on.
type Services struct {
	Mail      *mailroom.Mailroom
	Handoffs  *handoff.Service
	Talks     *deliberation.Service
	Teams     *team.Service // nil if teamspaces are off
	Without   []hub.Feature // features that are off
	Runs      *run.Service
	Roots     *roots.Service
	Files     *reservation.Service
	Checks    *check.Service
	Landings  *landing.Service
	Usage     *usage.Service
	Onward    *continuation.Service
	Kept      *keptwork.Service
	Events    *event.Service
	InURL     string // where webhooks come in; "" if nowhere
	Schedules *schedule.Service
	Keys      *keys.Service
	Journal   *journal.Journal
	Records   Records
	Proofs    *proof.Log
	Store     hub.Store
	Wakes     *wake.Machine
	Keeper    *keeper.Keeper
	SignIn    *signin.Service
	RunFiles  *runner.Files
	Repeater  *runner.Repeater
	Metrics   *metrics.Service
	Gateway   *gateway.Client // nil without one
	Notify    *notify.Notifier
	Clock     hub.Clock
	Projects  Projects // nil without projects
	Around    Around   // what waits outside of these services; may be nil
	Attention *attention.Service
	Stop      func() // stops the hub after the answer
}

// The operations.
var (
	Send    = rpc.AsTool(changes("acp/send", "Send a message to other agents, or ask them a question (a text that ends in ?).", send), "acp_send", "Send a message, ask an agent", sendSchema)
	Respond = rpc.AsTool(changes("acp/respond", "Answer a message from other agents: reply to its sender. Thread and recipient follow from it, and it counts as read.", respond), "acp_respond", "Reply to a message", respondSchema)
	Query   = rpc.AsTool(reads("acp/query", "Search messages that you sent or received, newest first; or show how a negotiation or disagreement stands, and what you may do.", query), "acp_query", "Search messages", querySchema)
	Inbox   = rpc.Within(mailroom.MaxWait+rpc.Soon, rpc.AsTool(changes("acp/inbox", "Read your inbox: messages and tasks from other agents, most pressing first, and who is there. Ack the ones you have dealt with, else they come again.", inbox), "acp_inbox", "Read the inbox, wait for messages", inboxSchema))
	Status  = rpc.AsTool(changes("acp/status", "Report the status of your work to the coordinators.", status), "acp_status", "Report status", statusSchema)
	Handoff = rpc.Within(check.MaxWait+rpc.Soon, rpc.AsTool(readable(changes("acp/handoff", "Hand over a task to other agents, or accept, reject and complete one that came as a message. The hub checks files, hashes and commits before it believes them.", handoffs)), "acp_handoff", "Hand over a task", handoffSchema))

	Team       = rpc.Needs(rpc.AsTool(readable(changes("acp/team", "Work in a team: members with roles, tasks, decisions. Your role in the team decides what you may do.", teamwork)), "acp_team", "Teams, roles and tasks", teamSchema), hub.FeatureTeamspaces)
	TeamPolicy = rpc.Needs(readable(changes("parley/team/policy", "Show which role may do what in a team; the operator changes cells of that matrix, and the successors of owners that cannot go on.", teamPolicy)), hub.FeatureTeamspaces)
	TeamLog    = rpc.Needs(reads("parley/team/log", "Read the journal entries about a team.", teamLog), hub.FeatureTeamspaces)
	Subscribe  = rpc.Needs(rpc.AsTool(readable(changes("acp/subscribe", "Have messages of your teams that were not sent to you copied to your inbox.", subscribe)), "acp_subscribe", "Subscribe to messages", subscribeSchema), hub.FeatureTeamspaces)
	Broadcast  = rpc.AsTool(changes("acp/broadcast", "Send a message to every agent: five an hour; a coordinator, or priority high and above.", broadcast), "acp_broadcast", "Write to everyone", broadcastSchema)

	ListTalks     = rpc.Needs(reads("parley/deliberation/list", "List negotiations or disagreements: all for auditors, else those that concern you.", talkList), hub.FeatureNegotiation, hub.FeatureDisagreement)
	Decide        = rpc.Needs(changes("parley/decide", "Decide an escalated negotiation (accept or decline) or disagreement; for the operator and the agents to whom it was escalated.", decideTalk), hub.FeatureNegotiation, hub.FeatureDisagreement)
	ListDecisions = rpc.Needs(reads("parley/decision/list", "List decisions, newest first.", decisionList), hub.Features...)

	ListUndelivered = reads("parley/undelivered", "List messages that failed or expired: all for auditors, else yours.", undelivered)
	Retry           = changes("parley/retry", "Send a failed or expired message again.", retry)

	Whoami = reads("parley/whoami", "Return the caller as the hub identified it.", whoami)
	Trace  = reads("parley/trace", "Show one message from end to end.", trace)

	BeginRun = changes("parley/run/begin", "Record that an agent begins to work on a task, and lend it a key: the operator for any agent, an agent for itself.", runBegin)
	MoveRun  = changes("parley/run/move", "Record the progress of a run; only for the caller that began it.", runMove)
	EndRun   = changes("parley/run/end", "Record the end of a run, with report, evidence and verdict; only for the caller that began it.", runEnd)
	ShowRun  = reads("parley/run/show", "Show one run from end to end.", runShow)
	ListRuns = reads("parley/run/list", "List runs: all for auditors, else those that concern you.", runList)

	Recording   = reads("parley/run/recording", "Return the recording and the patch of a run from the files on the hub's machine, for the operator.", runRecording)
	RepeatRun   = patient(rpc.Run, administers("parley/run/again", "Execute a run again on the hub's machine, with the command, task and checks that its files hold.", runAgain))
	DiffHandoff = reads("parley/handoff/diff", "Return the difference of a handoff's worktree from the commit before the task was accepted, for the operator.", handoffDiff)

	ListAgents  = reads("parley/agent/list", "List every agent on this hub.", agentList)
	AddAgent    = administers("parley/agent/add", "Add an agent and make its first key.", agentAdd)
	AddKey      = administers("parley/agent/key", "Make another key for an agent.", agentKey)
	RevokeKeys  = administers("parley/agent/revoke", "Revoke keys of an agent.", agentRevoke)
	SetRole     = administers("parley/agent/role", "Change the role of an agent.", agentRole)
	PauseAgent  = administers("parley/agent/pause", "Keep an agent from sending.", agentState(hub.AgentPaused))
	ResumeAgent = administers("parley/agent/resume", "Let a paused agent send again.", agentState(hub.AgentActive))
	ResetAgent  = administers("parley/agent/reset", "Lift the suspension of an agent that repeated itself.", agentReset)

	SetContact   = administers("parley/contact/set", "Set which agents may write to an agent, and which may wake it.", contactSet)
	ListContacts = reads("parley/contact/list", "List the rules about writing to agents and waking them.", contactList)

	KeepAgent    = rpc.Within(rpc.Repository, administers("parley/agent/keep", "Run an agent on the hub's machine over ACP, and let mail start its turns.", keep))
	ListKept     = reads("parley/agent/kept", "List the agents that the hub runs.", keptList)
	StopAgent    = patient(rpc.Repository, administers("parley/agent/stop", "Stop an agent that the hub runs; its mail waits.", keptStop))
	RestartAgent = patient(rpc.Repository, administers("parley/agent/restart", "End the process of an agent that the hub runs, and let mail start it again.", keptRestart))
	LogAgent     = patient(maxKeptWait+rpc.Soon, reads("parley/agent/log", "Return the last lines of an agent that the hub runs, or wait for one.", keptLog))
	PromptAgent  = rpc.Within(rpc.Repository, administers("parley/agent/prompt", "Send a prompt of the operator to an agent that the hub runs.", keptPrompt))
	AnswerAgent  = rpc.Within(rpc.Repository, shows(administers("parley/agent/answer", "Answer a question of an agent that the hub runs, or deny it.", keptAnswer)))

	AddWindow     = administers("parley/agent/window/add", "Make a key with which a program shows one agent that the hub runs.", windowAdd)
	RemoveWindow  = administers("parley/agent/window/remove", "Revoke the key of a window.", windowRemove)
	ListShown     = shows(reads("parley/agent/session/list", "List the sessions of agents that the hub runs.", keptSessions))
	OpenSession   = rpc.Within(rpc.Repository, shows(administers("parley/agent/session/open", "Open a further session of an agent that the hub runs, in another folder.", openSession)))
	CloseSession  = shows(patient(rpc.Repository, administers("parley/agent/session/close", "End the process of a further session; its next prompt starts it again.", closeSession)))
	FollowSession = shows(patient(maxKeptWait+rpc.Soon, reads("parley/agent/session/events", "Return the events of a session, or wait for one.", sessionEvents)))
	PromptSession = rpc.Within(rpc.Repository, shows(administers("parley/agent/session/prompt", "Prompt a session of an agent that the hub runs.", promptSession)))
	CancelTurn    = rpc.Within(rpc.Repository, shows(administers("parley/agent/session/cancel", "Cancel a turn of a session.", cancelTurn)))

	ListOperators  = reads("parley/operator/list", "List the people who operate this hub.", operatorList)
	AddOperator    = administers("parley/operator/add", "Make a key for a further operator.", operatorAdd)
	RemoveOperator = administers("parley/operator/remove", "Revoke the key of a further operator.", operatorRemove)

	ListRoots  = reads("parley/root/list", "List the folders that the hub may read to check handoffs.", rootList)
	AddRoot    = rpc.Within(rpc.Repository, administers("parley/root/add", "Allow the hub to read a folder to check handoffs.", rootAdd))
	RemoveRoot = administers("parley/root/remove", "Forbid the hub to read a folder that was added.", rootRemove)

	WaitWake     = rpc.Within(mailroom.MaxWait+rpc.Soon, changes("wake/wait", "Serve a session as its waiter: return when a wake is due in it. No message is marked as delivered.", wakeWait))
	HandedWake   = changes("wake/handed", "Report the outcome of a wake: handed, held, refused or failed.", wakeHanded)
	ReportWake   = changes("wake/report", "Report the activity of a session and the wakes seen in it; the answer may have a notice to show.", wakeReport)
	ListSessions = reads("wake/sessions", "List sessions of agents, with the state of their wakes.", wakeSessions)
	AllowWake    = administers("wake/allow", "Record whether mail may start turns of an agent, which cost tokens.", wakeAllow)
	PauseWake    = administers("wake/pause", "Stop waking an agent, or all agents. Mail is still delivered.", wakePause(true))
	ResumeWake   = administers("wake/resume", "Let mail wake an agent again, or all agents, even disarmed ones.", wakePause(false))
	TestWake     = patient(rpc.Repository, administers("wake/test", "Show a test notice to an agent and wait for the proof; this starts one turn.", wakeTest))

	ProbeGateway = patient(rpc.Repository, administers("parley/gateway/probe", "Try every way in which the hub uses its OpenClaw gateway, and store the report; no turn begins.", gatewayProbe))

	ClaimItem   = changes("workq/claim", "Claim an item of the hub's own queue: it is yours until you release it or hand it over.", claimItem)
	ReleaseItem = changes("workq/release", "Release an item of the hub's own queue; the operator may release any.", releaseItem)
	AddItem     = changes("workq/add", "Put an item into the hub's own queue, for an agent that asks for the next one.", addItem)
	NextItem    = changes("workq/next", "Claim the item of the hub's own queue that is free for longest.", nextItem)
	FinishItem  = changes("workq/done", "Take an item out of the hub's own queue: its owner, or the operator.", finishItem)
	ListClaims  = reads("workq/list", "List the owners of items of the hub's own queue.", claimList)

	AskFiles     = changes("parley/reservations/ask", "Ask whether files of a working tree may be changed, and reserve them for the edit; for the guard beside an agent.", filesAsk)
	ReserveFiles = changes("parley/reservations/reserve", "Reserve files or patterns of a working tree before the work.", filesReserve)
	ReleaseFiles = changes("parley/reservations/release", "Release reserved files: your own, or as the operator those of any agent.", filesRelease)
	Files        = rpc.AsTool(changes("parley/files", "See which agents change files in your working tree; reserve or release files.", files), "acp_files", "Who changes a file, reserve files", filesSchema)
	ListFiles    = reads("parley/reservations/list", "List the files that agents change, by working tree, with the agents that wait for them.", filesList)

	AddCheck      = patient(rpc.Repository, administers("parley/check/add", "Allow a command for a repository, which the hub runs on commits.", checkAdd))
	ListChecks    = reads("parley/check/list", "List the checks of a repository, with those in its parley.yaml that are not trusted, or all checks.", checkList)
	ShowCheck     = reads("parley/check/show", "Show a check of a repository with its newest results.", checkShow)
	RemoveCheck   = patient(rpc.Repository, administers("parley/check/remove", "Remove a check of a repository; its results stay.", checkRemove))
	TrustChecks   = patient(rpc.Repository, administers("parley/check/trust", "Allow the checks in the parley.yaml of a repository, as the commit that is checked out has them.", checkTrust))
	RequireChecks = patient(rpc.Repository, administers("parley/check/require", "Set whether completions in a repository need passed checks.", checkRequire))
	RunCheck      = patient(check.MaxWait+rpc.Soon, changes("parley/check/run", "Run an allowed check on a commit, or return the kept result for the same tree and check.", checkRun))
	ShowResult    = patient(check.MaxWait+rpc.Soon, reads("parley/check/result", "Show a result of a check with the end of its output, or wait for it.", checkResult))
	ListResults   = reads("parley/check/results", "List the results of checks, newest first.", checkResults)

	SetLanding    = patient(rpc.Repository, administers("parley/landing/set", "Let changes land in a branch of a repository, and say how.", landingSet))
	ShowLanding   = reads("parley/landing/show", "Show how changes land in a branch of a repository.", landingShow)
	LandingList   = reads("parley/landing/list", "List the landing policies of this machine, with the gates that are open and the state of each target.", landingPolicies)
	LandingOff    = rpc.Within(rpc.Repository, administers("parley/landing/off", "End the landing queue of a branch; its entries are cancelled.", landingOff))
	Land          = changes("parley/landings/land", "Queue a branch, a commit or the work of a handoff to land: your own, or any as the operator.", land)
	ListLandings  = reads("parley/landings/list", "List the entries of landing queues with the head of the target.", landingList)
	ShowEntry     = reads("parley/landings/show", "Show an entry of a landing queue: difference, reviews, results and the output of the check that runs.", landingEntry)
	CancelLanding = changes("parley/landings/cancel", "Take an entry out of a landing queue: your own, or any as the operator.", landingCancel)
	RetryLanding  = changes("parley/landings/retry", "Queue an entry again that was returned or waits; the operator's call is a yes.", landingRetry)
	ApproveEntry  = administers("parley/landings/approve", "Let one commit of an entry land without a check, its review or its contracts.", landingApprove)
	UndoLanding   = changes("parley/landings/undo", "Queue a commit that takes back a landing.", landingUndo)
	GiveReview    = changes("parley/landings/review", "Answer a review: approve, or changes with findings.", reviewGive)
	ListReviews   = reads("parley/landings/reviews", "List the reviews that wait, or all.", reviewList)
	RecordUsage   = changes("parley/spend/record", "Record the tokens and costs of model calls of a turn; for the programs beside an agent.", spendRecord)
	ShowSpend     = reads("parley/spend/show", "Sum up tokens and costs by agent, task, handoff, team, model, day or run: all for auditors, else yours.", spendShow)
	CountTexts    = reads("parley/spend/read", "Count the texts of the hub that your model read; for the programs beside an agent.", spendRead)
	ListPrices    = reads("parley/spend/prices", "List the prices of models that estimates use.", spendPrices)
	SetPrices     = administers("parley/spend/prices/set", "Set prices of models, or replace the operator's list of prices.", spendSetPrices)
	SetBudget     = administers("parley/budget/set", "Bound the tokens, money or turns of an agent, a team, a handoff or the hub.", budgetSet)
	ListBudgets   = reads("parley/budget/list", "List budgets with their use.", budgetList)
	RemoveBudget  = administers("parley/budget/remove", "Remove a budget.", budgetRemove)

	ContinueTask  = patient(rpc.Repository, administers("parley/continuation/continue", "Hand the task of an agent that cannot go on to another one: an agent, a CLI in the same folder, or the same agent again.", continueTask))
	Continuations = reads("parley/continuation/list", "List the tasks whose agent could not go on: all for auditors, else yours.", continuationList)
	Compacting    = changes("parley/continuation/compact", "Keep a text about your open tasks, because your context is about to be shortened; for the programs beside an agent.", compacting)
	ListRescues   = reads("parley/rescue/list", "List the uncommitted work that the hub keeps: all for auditors, else yours.", rescueList)
	ShowRescue    = reads("parley/rescue/show", "Show kept work as a patch: any for the operator, else yours.", rescueShow)
	ApplyRescue   = patient(rpc.Repository, administers("parley/rescue/apply", "Bring kept work into a folder, as changes that are not committed.", rescueApply))
	ListKeptWork  = reads("parley/kept/list", "List the uncommitted work that the hub keeps of working trees, newest first: all for the operator, else that of your own acts.", keptWorkList)
	ShowKeptWork  = patient(rpc.Repository, reads("parley/kept/show", "Show kept work with its files and what they are now: all files for the operator, else those that you wrote.", keptWorkShow))
	BringBack     = patient(rpc.Repository, changes("parley/kept/back", "Bring kept work back: what the command in it changed and nothing changed since, named files, or all into a new folder. An agent brings back files that it wrote.", keptWorkBack))
	DropKeptWork  = patient(rpc.Repository, administers("parley/kept/drop", "Remove kept work, with the content that no other kept work has.", keptWorkDrop))
	DropRescue    = patient(rpc.Repository, administers("parley/rescue/drop", "Forget kept work.", rescueDrop))

	AddSource    = administers("parley/in/add", "Let events from outside, such as webhooks of GitHub, become messages to agents.", sourceAdd)
	ListSources  = reads("parley/in/list", "List the event sources with their counts.", sourceList)
	ShowSource   = reads("parley/in/show", "Show an event source with its rules, for the operator and auditors.", sourceShow)
	RemoveSource = administers("parley/in/remove", "Remove an event source; its messages stay.", sourceRemove)
	PollSource   = rpc.Within(rpc.Repository, administers("parley/in/poll", "Ask the API of a vendor for the events of a repository from now on, or stop that.", sourcePoll))

	AddSchedule    = administers("parley/every/add", "Send a message to an agent on a schedule.", scheduleAdd)
	ListSchedules  = reads("parley/every/list", "List the schedules: all for auditors, else those that send to you.", scheduleList)
	RemoveSchedule = administers("parley/every/remove", "Remove a schedule.", scheduleRemove)
	RunSchedule    = administers("parley/every/run", "Send the message of a schedule now.", scheduleRun)

	StopTurns = patient(rpc.Repository, administers("parley/pause", "Pause an agent, a team or all agents, and end their running turns.", stopTurns))

	OpenWeb     = administers("parley/web/open", "Make a link with which a browser is signed in as the operator, once, within a minute.", webOpen)
	InviteWeb   = administers("parley/web/invite", "Make a link with which a viewer is signed in, once.", webInvite)
	WebSessions = reads("parley/web/sessions", "List the sessions of browsers.", webSessions)
	RevokeWeb   = administers("parley/web/revoke", "End a session of a browser, or all.", webRevoke)

	Metrics = reads("parley/metrics", "Return figures about handoffs, tasks, gates, refusals, deliveries, wakes and runs.", showMetrics)
	Audit   = reads("parley/audit", "Read the journal: all entries for auditors, else those that concern you.", audit)
	Verify  = patient(rpc.Operator, reads("parley/audit/verify", "Compare everything with the journal.", verify))
	Prove   = reads("parley/proof/make", "Make the file with which strangers check what the hub says about a thing that you may read.", prove)

	RebuildTree   = patient(rpc.Operator, administers("parley/proof/rebuild", "Make the tree over the journal again.", rebuildTree))
	RenewLog      = administers("parley/proof/renew", "Begin a new log over the journal, with a name and a key of its own.", renewLog)
	AddWitness    = patient(rpc.Elsewhere, administers("parley/proof/witness", "Let a peer and this hub cosign the checkpoints of each other's journals.", addWitness))
	ListProofKeys = reads("parley/proof/keys", "List the public keys with which the hub signs proofs, the newest first.", proofKeys)

	Archive = patient(rpc.Operator, administers("parley/archive", "Move old entries into a file.", archive))
	Export  = patient(rpc.Operator, administers("parley/export", "Write everything as JSONL into a folder on the hub's machine.", export))
	Backup  = patient(rpc.Operator, administers("parley/backup", "Copy the hub's home into a folder on its machine.", backup))

	Forget  = patient(rpc.Operator, administers("parley/forget", "Remove the text of a message from everything that the hub keeps.", forget))
	StopHub = administers("parley/stop", "Stop the hub after the calls under way are answered.", stopHub)

	ListTargets = reads("parley/notify/list", "List the targets of notices to people, for the operator.", targetList)
	TestTarget  = patient(rpc.Repository, administers("parley/notify/test", "Send a test notice to a target, or to all.", targetTest))
	ReplayDead  = administers("parley/notify/replay", "Resend notices that a target did not accept.", targetReplay)

	Now      = reads("parley/now", "Return the current state of the hub: agents and their activity, tasks in progress, everything that waits for a person.", overview)
	ListHeld = reads("parley/held", "List messages and handoffs that wait for a human.", held)
	Approve  = administers("parley/approve", "Let a held message pass.", approve)
	Deny     = administers("parley/deny", "Make a held message fail.", deny)
)

// Operations is the table.
var Operations = rpc.Table[*Services]{
	Send, Respond, Query, Inbox, Status, Handoff, Team, TeamPolicy, TeamLog, Subscribe, Broadcast, ListTalks, Decide, ListDecisions, ListUndelivered, Retry, Whoami, Trace,
	BeginRun, MoveRun, EndRun, ShowRun, ListRuns, Recording, RepeatRun, DiffHandoff, ListAgents, AddAgent, AddKey, RevokeKeys, SetRole, PauseAgent, ResumeAgent, ResetAgent,
	SetContact, ListContacts, KeepAgent, ListKept, StopAgent, RestartAgent, LogAgent, PromptAgent, AnswerAgent,
	AddWindow, RemoveWindow, ListShown, OpenSession, CloseSession, FollowSession, PromptSession, CancelTurn,
	WaitWake, HandedWake, ReportWake, ListSessions, AllowWake, PauseWake, ResumeWake, TestWake, ProbeGateway, ClaimItem, ReleaseItem, AddItem, NextItem, FinishItem, ListClaims,
	AskFiles, ReserveFiles, ReleaseFiles, ListFiles, Files,
	SetLanding, ShowLanding, LandingList, LandingOff, Land, ListLandings, ShowEntry, CancelLanding, RetryLanding, ApproveEntry, UndoLanding, GiveReview, ListReviews,
	AddCheck, ListChecks, ShowCheck, RemoveCheck, TrustChecks, RequireChecks, RunCheck, ShowResult, ListResults,
	RecordUsage, ShowSpend, CountTexts, ListPrices, SetPrices, SetBudget, ListBudgets, RemoveBudget, StopTurns,
	AddSource, ListSources, ShowSource, RemoveSource, PollSource, AddSchedule, ListSchedules, RemoveSchedule, RunSchedule,
	ContinueTask, Continuations, Compacting, ListRescues, ShowRescue, ApplyRescue, DropRescue, ListKeptWork, ShowKeptWork, BringBack, DropKeptWork,
	ListOperators, AddOperator, RemoveOperator, OpenWeb, InviteWeb, WebSessions, RevokeWeb, ListRoots, AddRoot, RemoveRoot, Metrics, Audit, Verify, Prove, ListProofKeys, RebuildTree, RenewLog, AddWitness, Archive, Export, Backup, Forget, StopHub, ListTargets, TestTarget, ReplayDead, Now, ListHeld, Approve, Deny,
}

// An op is an operation of this table.
type op[P, R any] = rpc.Operation[*Services, P, R]

// reads defines an operation for agents of this hub and for viewers that changes nothing.
func reads[P, R any](method, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) op[P, R] {
	named := func(ctx context.Context, s *Services, a hub.Caller, p P) (R, error) {
		r, err := do(ctx, s, a, p)
		return r, s.shortenError(ctx, err)
	}
	return op[P, R]{Spec: rpc.Spec{Method: method, Doc: doc, Callers: rpc.Readers, Dialect: rpc.Strict, Deadline: rpc.Soon}, Do: named}
}

// changes defines an operation for agents of this hub.
func changes[P, R any](method, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) op[P, R] {
	o := reads(method, doc, do)
	o.Changes, o.Callers = true, rpc.Local
	return o
}

// readable opens an operation to viewers: it changes nothing for them.
func readable[P, R any](o op[P, R]) op[P, R] {
	o.Callers = rpc.Readers
	return o
}

// administers defines an operation for the operator.
func administers[P, R any](method, doc string, do func(context.Context, *Services, hub.Caller, P) (R, error)) op[P, R] {
	o := changes(method, doc, do)
	o.Callers = rpc.OperatorOnly
	return o
}

// shows opens an operation to the windows of kept agents.
func shows[P, R any](o op[P, R]) op[P, R] {
	o.Callers = []hub.CallerKind{hub.CallerOperator, hub.CallerWindow}
	return o
}

// patient marks an operation that may take minutes, and gives it a deadline.
func patient[P, R any](deadline time.Duration, o op[P, R]) op[P, R] {
	o.Patient = true
	o.Deadline = deadline
	return o
}
