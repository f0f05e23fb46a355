package hub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
)

// An Action is the kind of event that a journal entry records.
type Action string

// The actions.
const (
	ActionMessageSent      Action = "message.sent"
	ActionMessageHeld      Action = "message.held" // sent, but waits for a human
	ActionMessageApproved  Action = "message.approved"
	ActionMessageDenied    Action = "message.denied"
	ActionMessageDelivered Action = "message.delivered" // by one recipient
	ActionMessageRead      Action = "message.read"      // by one recipient
	ActionMessageExpired   Action = "message.expired"
	ActionMessageRetried   Action = "message.retried" // an undelivered message was sent again
	ActionNoticeLate       Action = "notice.late"     // a notice of the hub that a later message lists
	ActionChannelTried     Action = "channel.tried"   // an attempt over a channel other than the inbox

	ActionDeliveryMoved Action = "delivery.moved" // a row of another channel than the inbox: the notice of a message got further

	ActionWaitBegan      Action = "wait.began"      // something waits for a person
	ActionWaitEnded      Action = "wait.ended"      // and was answered, or is over
	ActionPeopleNotified Action = "notify.sent"     // a target took a notice
	ActionNoticeDead     Action = "notify.dead"     // a target did not take a notice, and it was given up
	ActionNoticeReplayed Action = "notify.replayed" // the operator has dead letters sent again

	ActionWakeAllowed  Action = "wake.allowed" // or forbidden again: mail may start turns of an agent
	ActionWakePaused   Action = "wake.paused"
	ActionWakeResumed  Action = "wake.resumed"
	ActionWakeDisarmed Action = "wake.disarmed" // the wakes of an agent led to nothing
	ActionWakeProbed   Action = "wake.probed"

	ActionGatewayProbed Action = "gateway.probed" // with a finding for each way of using it

	ActionAgentKept      Action = "agent.kept" // the hub runs the agent
	ActionAgentStopped   Action = "agent.stopped"
	ActionAgentRestarted Action = "agent.restarted"
	ActionAgentAnswered  Action = "agent.answered" // a question of a kept agent
	ActionAgentPrompted  Action = "agent.prompted" // by the operator

	ActionHandoffDrafted    Action = "handoff.draft"
	ActionHandoffProposed   Action = "handoff.proposed"
	ActionHandoffValidating Action = "handoff.validating"
	ActionHandoffAccepted   Action = "handoff.accepted"
	ActionHandoffRejected   Action = "handoff.rejected"
	ActionHandoffActivated  Action = "handoff.activated"
	ActionHandoffCompleted  Action = "handoff.completed"
	ActionHandoffClosed     Action = "handoff.closed"
	ActionHandoffApproved   Action = "handoff.approved"      // by the operator; the receiver may accept it now
	ActionHandoffForTeam    Action = "handoff.team_approved" // by a member of the team that it goes into
	ActionHandoffEscalated  Action = "handoff.escalated"     // it is late, and the coordinators were told
	ActionHandoffOwned      Action = "handoff.owned"         // the operator confirmed the owner of an item in its queue, or had the hub try again

	ActionClaimed       Action = "claim.made" // an agent owns an item of the hub's own queue
	ActionClaimMoved    Action = "claim.moved"
	ActionClaimReleased Action = "claim.released"
	ActionItemAdded     Action = "item.added" // to the hub's own queue
	ActionItemDone      Action = "item.done"  // it left that queue

	ActionSubscribed   Action = "subscription.added"
	ActionUnsubscribed Action = "subscription.removed"

	ActionDeliberationMoved   Action = "deliberation.moved"   // a negotiation or disagreement has a new state
	ActionDeliberationDecided Action = "deliberation.decided" // it ended in a decision

	ActionTeamCreated  Action = "team.created"
	ActionTeamMoved    Action = "team.moved" // a team has another lifecycle
	ActionTeamJoined   Action = "team.joined"
	ActionTeamLeft     Action = "team.left"
	ActionTeamRole     Action = "team.role"   // a role was proposed or changed
	ActionTeamPolicy   Action = "team.policy" // the operator changed a cell of the matrix
	ActionTeamTask     Action = "team.task"   // a task was made, assigned or moved
	ActionTeamDecided  Action = "team.decided"
	ActionTeamArtifact Action = "team.artifact" // an artifact of a team has another version
	ActionTeamConflict Action = "team.conflict" // a conflict of two versions began or moved
	ActionTeamHeld     Action = "team.held"     // an operation waits for the operator
	ActionTeamGate     Action = "team.gate"     // the operator approved or denied a held operation

	ActionRunStarting    Action = "run.starting"
	ActionRunRunning     Action = "run.running"
	ActionRunChecking    Action = "run.checking"
	ActionRunDone        Action = "run.done"
	ActionRunFailed      Action = "run.failed"
	ActionRunInterrupted Action = "run.interrupted"

	ActionProjectCreated    Action = "project.created"
	ActionProjectChanged    Action = "project.changed"
	ActionProjectMerged     Action = "project.merged"   // with the copy of another hub
	ActionProjectConflict   Action = "project.conflict" // a write of a member lost against one that did not know it
	ActionRepoAdded         Action = "repo.added"
	ActionRepoClaimed       Action = "repo.claimed"
	ActionRepoMerged        Action = "repo.merged"
	ActionRepoLost          Action = "repo.lost" // a claim did not stand against an earlier one
	ActionContractProposed  Action = "contract.proposed"
	ActionContractAgreed    Action = "contract.agreed" // by one repository
	ActionContractContested Action = "contract.change_requested"
	ActionContractRejected  Action = "contract.rejected"
	ActionContractUpdated   Action = "contract.updated"
	ActionContractMerged    Action = "contract.merged"
	ActionContractConflict  Action = "contract.conflict" // a content or a move lost against another one of its version
	ActionContractAdvanced  Action = "contract.settled"  // it advanced because the project changed
	ActionContextShared     Action = "context.shared"
	ActionContextReplaced   Action = "context.replaced" // another hub has another packet under its id
	ActionWorkStarted       Action = "implementation.started"
	ActionWorkCompleted     Action = "implementation.completed"
	ActionWorkVerified      Action = "implementation.verified"
	ActionRepoReleased      Action = "repo.released" // its agent gave it back
	ActionFileShared        Action = "file.shared"
	ActionFileRequested     Action = "file.requested"
	ActionPeerUp            Action = "peer.up"   // it confirms what it gets
	ActionPeerDown          Action = "peer.down" // it failed several times in a row
	ActionDeadLetter        Action = "peer.dead_letter"
	ActionPeerSync          Action = "peer.sync"         // the operator had everything compared
	ActionDiscovered        Action = "peer.discovered"   // the operator searched an exchange
	ActionEnlisted          Action = "peer.enlisted"     // the operator registered this hub in an exchange
	ActionCopyRefused       Action = "peer.copy_refused" // a copy that this hub does not take from a peer
	ActionClockAhead        Action = "peer.clock_ahead"  // a peer sent times that lie in the future

	ActionWebInvited   Action = "web.invited"    // the operator made a link for a viewer
	ActionWebSignedIn  Action = "web.signed_in"  // a browser got a session
	ActionWebSignedOut Action = "web.signed_out" // a session ended before its time

	ActionRootAdded   Action = "root.added"
	ActionRootRemoved Action = "root.removed"

	ActionArchived         Action = "journal.archived"          // old entries and messages went into an archive
	ActionArchiveRewritten Action = "journal.archive_rewritten" // an archive was written again without the text of a message
	ActionMessageForgotten Action = "message.forgotten"         // the operator removed the text of a message

	ActionAgentAdded   Action = "agent.added"
	ActionAgentPaused  Action = "agent.paused"
	ActionAgentResumed Action = "agent.resumed"
	ActionAgentRole    Action = "agent.role"
	ActionContactRule  Action = "agent.contact" // the operator changed who may write to an agent, or wake it
	ActionKeyMinted    Action = "key.minted"
	ActionKeyRevoked   Action = "key.revoked"

	ActionClaimIgnored Action = "identity.claim_ignored" // a sender that the input claimed
	ActionRefused      Action = "call.refused"           // several refusals alike are one entry with a count
	ActionBreakerOpen  Action = "breaker.open"
	ActionBreakerReset Action = "breaker.reset"
	ActionArtifactPut  Action = "artifact.put"
	ActionHubStarted   Action = "hub.started"
)

// An Outcome says how an action ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeRefused Outcome = "refused"
	OutcomeFailed  Outcome = "failed"
)

// An Entry is one row of the journal. It holds facts and hashes, never a
// payload and never a secret.
type Entry struct {
	Seq     int64           `json:"seq"` // given by the store; no gaps
	At      Time            `json:"at,omitzero"`
	Actor   AgentID         `json:"actor"`
	Action  Action          `json:"action"`
	Subject string          `json:"subject,omitempty"` // id of the thing concerned
	Outcome Outcome         `json:"outcome"`
	Facts   json.RawMessage `json:"facts,omitempty"` // an object; its bytes are part of the hash
	Hash    string          `json:"hash"`            // hex; see Chain
}

// A Head names the newest entry of a journal. A copy of it outside the store
// shows later whether the entries up to it are still the same.
type Head struct {
	Seq  int64  `json:"seq"` // 0 if the journal is empty
	Hash string `json:"hash"`
	At   Time   `json:"at,omitzero"`
}

// HeadOf returns the head of the journal in a snapshot.
func HeadOf(r JournalReader) (Head, error) {
	newest, err := r.Journal(JournalQuery{Newest: true, Limit: 1})
	if err != nil || len(newest) == 0 {
		return Head{}, err
	}
	return Head{newest[0].Seq, newest[0].Hash, newest[0].At}, nil
}

// Chain returns the hash of e as the successor of the entry whose hash is
// prev ("" for the first): the SHA-256 of prev and of e's other members, each
// preceded by its length.
func (e Entry) Chain(prev string) string {
	b := make([]byte, 0, 512+len(e.Facts))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	for _, s := range [...]string{prev, e.At.String(), string(e.Actor), string(e.Action), e.Subject, string(e.Outcome)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(e.Facts)))
	b = append(b, e.Facts...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
