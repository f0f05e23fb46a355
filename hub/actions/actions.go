// Package actions lists the actions that the journal records: what was done, as it is stored and
// sent in each entry. A word never changes its meaning, and none is ever reused.
package actions

// An Action is the kind of event that a journal entry records.
type Action string

// The actions.
const (
	MessageSent      Action = "message.sent"
	MessageHeld      Action = "message.held" // sent, but waits for a human
	MessageApproved  Action = "message.approved"
	MessageDenied    Action = "message.denied"
	MessageDelivered Action = "message.delivered" // by one recipient
	MessageRead      Action = "message.read"      // by one recipient
	MessageExpired   Action = "message.expired"
	MessageRetried   Action = "message.retried" // an undelivered message was sent again
	NoticeLate       Action = "notice.late"     // a notice of the hub that a later message lists
	ChannelTried     Action = "channel.tried"   // an attempt over a channel other than the inbox

	DeliveryMoved Action = "delivery.moved" // a row of another channel than the inbox: the notice of a message got further

	WaitBegan      Action = "wait.began"      // something waits for a person
	WaitEnded      Action = "wait.ended"      // and was answered, or is over
	PeopleEvent    Action = "people.event"    // something happened that people asked to hear of
	PeopleNotified Action = "notify.sent"     // a target took a notice
	NoticeDead     Action = "notify.dead"     // a target did not take a notice, and it was given up
	NoticeReplayed Action = "notify.replayed" // the operator has dead letters sent again

	WakeAllowed  Action = "wake.allowed" // or forbidden again: mail may start turns of an agent
	WakePaused   Action = "wake.paused"
	WakeResumed  Action = "wake.resumed"
	WakeDisarmed Action = "wake.disarmed" // the wakes of an agent led to nothing
	WakeProbed   Action = "wake.probed"

	ReservationTaken    Action = "reservation.taken"
	ReservationReleased Action = "reservation.released" // with the reason: commit, undone, restored, release, done, session, idle or operator
	ReservationOrphaned Action = "reservation.orphaned" // its holder is gone, with changes that are not committed
	ReservationViolated Action = "reservation.violated" // a command of another agent changed the file

	CheckAdded   Action = "check.added"
	CheckRemoved Action = "check.removed"
	CheckTrusted Action = "check.trusted" // the checks in a file of a repository, or what they are required for
	CheckRun     Action = "check.run"     // with the result

	ReviewRequested Action = "review.asked"
	ReviewGiven     Action = "review.given" // or replaced by the review of a later commit

	LandingSet       Action = "landing.set"       // the operator set or removed the policy of a branch
	LandingQueued    Action = "landing.queued"    // an entry is in the queue, or waits
	LandingTried     Action = "landing.tried"     // entries are merged and checked, or the target is about to be moved
	LandingLanded    Action = "landing.landed"    // the target branch has the change
	LandingReturned  Action = "landing.returned"  // to its owner, with the reason
	LandingUndone    Action = "landing.undone"    // the target does not have the change any more
	LandingCancelled Action = "landing.cancelled" // by its owner or the operator

	UsageRecorded Action = "usage.recorded" // the sums of one turn
	BudgetSet     Action = "budget.set"     // or removed
	BudgetWarned  Action = "budget.told"    // 80 % are used
	PricesSet     Action = "prices.set"     // of models, by the operator
	BudgetSpent   Action = "budget.spent"   // no turn begins any more

	ContinuationMade  Action = "continuation.made"  // an agent cannot go on with a task, which waits or is offered
	ContinuationTaken Action = "continuation.taken" // the next owner has it
	RescueMade        Action = "rescue.made"        // uncommitted work is kept
	RescueDropped     Action = "rescue.dropped"

	WorkKept      Action = "work.kept"      // the uncommitted state of a working tree is in the hub's store
	WorkBack      Action = "work.back"      // files of kept work were brought back
	WorkDropped   Action = "work.dropped"   // by the operator, or because its time is over
	WorkDestroyed Action = "work.destroyed" // a command changed or removed uncommitted content of others, which is kept

	GatewayProbed Action = "gateway.probed" // with a finding for each way of using it

	AgentKept      Action = "agent.kept" // the hub runs the agent
	AgentStopped   Action = "agent.stopped"
	AgentRestarted Action = "agent.restarted"
	AgentCommand   Action = "agent.command"  // the hub ran a command for a kept agent
	AgentAnswered  Action = "agent.answered" // a question of a kept agent
	AgentPrompted  Action = "agent.prompted" // by the operator

	HandoffDrafted    Action = "handoff.draft"
	HandoffProposed   Action = "handoff.proposed"
	HandoffValidating Action = "handoff.validating"
	HandoffAccepted   Action = "handoff.accepted"
	HandoffRejected   Action = "handoff.rejected"
	HandoffActivated  Action = "handoff.activated"
	HandoffCompleted  Action = "handoff.completed"
	HandoffClosed     Action = "handoff.closed"
	HandoffApproved   Action = "handoff.approved"      // by the operator; the receiver may accept it now
	HandoffForTeam    Action = "handoff.team_approved" // by a member of the team that it goes into
	HandoffEscalated  Action = "handoff.escalated"     // it is late, and the coordinators were told
	HandoffOwned      Action = "handoff.owned"         // the operator confirmed the owner of an item in its queue, or had the hub try again

	Claimed       Action = "claim.made" // an agent owns an item of the hub's own queue
	ClaimMoved    Action = "claim.moved"
	ClaimReleased Action = "claim.released"
	ItemAdded     Action = "item.added" // to the hub's own queue
	ItemDone      Action = "item.done"  // it left that queue

	Subscribed   Action = "subscription.added"
	Unsubscribed Action = "subscription.removed"

	DeliberationMoved   Action = "deliberation.moved"   // a negotiation or disagreement has a new state
	DeliberationDecided Action = "deliberation.decided" // it ended in a decision

	TeamCreated  Action = "team.created"
	TeamMoved    Action = "team.moved" // a team has another lifecycle
	TeamJoined   Action = "team.joined"
	TeamLeft     Action = "team.left"
	TeamRole     Action = "team.role"   // a role was proposed or changed
	TeamPolicy   Action = "team.policy" // the operator changed a cell of the matrix
	TeamTask     Action = "team.task"   // a task was made, assigned or moved
	TeamDecided  Action = "team.decided"
	TeamArtifact Action = "team.artifact" // an artifact of a team has another version
	TeamConflict Action = "team.conflict" // a conflict of two versions began or moved
	TeamHeld     Action = "team.held"     // an operation waits for the operator
	TeamGate     Action = "team.gate"     // the operator approved or denied a held operation

	RunStarting    Action = "run.starting"
	RunRunning     Action = "run.running"
	RunChecking    Action = "run.checking"
	RunDone        Action = "run.done"
	RunFailed      Action = "run.failed"
	RunInterrupted Action = "run.interrupted"

	ProjectCreated    Action = "project.created"
	ProjectChanged    Action = "project.changed"
	ProjectMerged     Action = "project.merged"   // with the copy of another hub
	ProjectConflict   Action = "project.conflict" // a write of a member lost against one that did not know it
	RepoAdded         Action = "repo.added"
	RepoClaimed       Action = "repo.claimed"
	RepoMerged        Action = "repo.merged"
	RepoLost          Action = "repo.lost" // a claim did not stand against an earlier one
	ContractProposed  Action = "contract.proposed"
	ContractAgreed    Action = "contract.agreed" // by one repository
	ContractContested Action = "contract.change_requested"
	ContractRejected  Action = "contract.rejected"
	ContractUpdated   Action = "contract.updated"
	ContractMerged    Action = "contract.merged"
	ContractConflict  Action = "contract.conflict" // a content or a move lost against another one of its version
	ContractAdvanced  Action = "contract.settled"  // it advanced because the project changed

	ContractUsed       Action = "contract.used"       // a repository declared the parts that it uses, or that it uses none
	ContractDeprecated Action = "contract.deprecated" // a part of it, or the whole, ends on a day
	ContractWithdrawn  Action = "contract.withdrawn"  // a part of it, or the whole, ended
	ContractHandedOver Action = "contract.provider"   // a repository is to provide it, or does so now
	ContractTested     Action = "contract.test"       // a check of a repository became its test, or no longer is
	ContractsReady     Action = "contract.ready"      // the answer yes about a commit, with its evidence
	EnvironmentChanged Action = "project.environment" // it was declared or removed
	ResultRecorded     Action = "contract.result"     // of a test of a commit against a version
	Deployed           Action = "repo.deployed"       // a commit runs in an environment

	ContextShared   Action = "context.shared"
	ContextReplaced Action = "context.replaced" // another hub has another packet under its id
	WorkStarted     Action = "implementation.started"
	WorkCompleted   Action = "implementation.completed"
	WorkVerified    Action = "implementation.verified"
	RepoReleased    Action = "repo.released" // its agent gave it back
	FileShared      Action = "file.shared"
	FileRequested   Action = "file.requested"
	PeerUp          Action = "peer.up"         // it confirms what it gets
	PeerDown        Action = "peer.down"       // it failed several times in a row
	PeerIdentified  Action = "peer.identified" // the check of its id changed the trust in it
	DeadLetter      Action = "peer.dead_letter"
	PeerSync        Action = "peer.sync"         // the operator had everything compared
	Discovered      Action = "peer.discovered"   // the operator searched an exchange
	Enlisted        Action = "peer.enlisted"     // the operator registered this hub in an exchange
	CopyRefused     Action = "peer.copy_refused" // a copy that this hub does not take from a peer
	ClockAhead      Action = "peer.clock_ahead"  // a peer sent times that lie in the future

	WebInvited   Action = "web.invited"    // the operator made a link for a viewer
	WebSignedIn  Action = "web.signed_in"  // a browser got a session
	WebSignedOut Action = "web.signed_out" // a session ended before its time

	SourceAdded   Action = "source.added" // of events from outside
	SourceChanged Action = "source.changed"
	SourceRemoved Action = "source.removed"

	ScheduleAdded   Action = "schedule.added"
	ScheduleRemoved Action = "schedule.removed"

	RootAdded   Action = "root.added"
	RootRemoved Action = "root.removed"

	Archived         Action = "journal.archived"          // old entries and messages went into an archive
	ArchiveRewritten Action = "journal.archive_rewritten" // an archive was written again without the text of a message
	MessageForgotten Action = "message.forgotten"         // the operator removed the text of a message

	AgentAdded   Action = "agent.added"
	AgentPaused  Action = "agent.paused"
	AgentResumed Action = "agent.resumed"
	AgentRole    Action = "agent.role"
	ContactRule  Action = "agent.contact" // the operator changed who may write to an agent, or wake it
	KeyMinted    Action = "key.minted"
	KeyRevoked   Action = "key.revoked"

	ClaimIgnored Action = "identity.claim_ignored" // a sender that the input claimed
	Refused      Action = "call.refused"           // several refusals alike are one entry with a count
	BreakerOpen  Action = "breaker.open"
	BreakerReset Action = "breaker.reset"
	ArtifactPut  Action = "artifact.put"
	HubStarted   Action = "hub.started"
	LogKey       Action = "log.key"     // the key that signs checkpoints of the journal from now on
	LogWitness   Action = "log.witness" // a peer cosigns them, and this hub cosigns those of the peer
)

// The actions about other hubs, invites and tokens.
const (
	PeerAdded      Action = "peer.added"      // by the operator, or with an invite
	PeerRegistered Action = "peer.registered" // by itself; it waits for the operator
	PeerMoved      Action = "peer.moved"      // to another endpoint
	PeerApproved   Action = "peer.approved"
	PeerRemoved    Action = "peer.removed"
	InviteMade     Action = "invite.made"
	InviteRedeemed Action = "invite.redeemed"
	InviteRevoked  Action = "invite.revoked"
	TokenMinted    Action = "token.minted"
	TokenRevoked   Action = "token.revoked" // by the operator, or with its agent or peer
	TokenUsed      Action = "token.used"    // several uses alike are one entry with a count
)
