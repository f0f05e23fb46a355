package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// Types of predicates. That of a check is in-toto's own.
const (
	statementType = "https://in-toto.io/Statement/v1"
	testResult    = "https://in-toto.dev/attestation/test-result/v0.1"

	ownTypes     = "urn:parley:attestation:"
	manifestType = ownTypes + "file:v1"
)

// A statement is an in-toto Statement v1.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// A subject is a thing that a statement is about, by its digests.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// A predicate has the record of a noun, and the row of the journal with its digest.
type predicate struct {
	Row    int64           `json:"row"`
	Record json.RawMessage `json:"record"`
}

// A testPredicate is the predicate of a check, in the form of in-toto. Its record is an annotation.
type testPredicate struct {
	Result        string       `json:"result"`
	Configuration []descriptor `json:"configuration"`
}

// A descriptor is a resource descriptor of in-toto.
type descriptor struct {
	Name        string            `json:"name"`
	Digest      map[string]string `json:"digest"`
	Annotations predicate         `json:"annotations"`
}

// A kind is a kind of noun about which the hub makes statements.
type kind struct {
	noun      string
	predicate string           // type
	actions   []actions.Action // of the rows that have the digest of a record
	fact      string           // member of their facts with the digest

	// digest returns the digest of a record, as a row has it, and the subject of that row.
	digest func(record []byte) (digest, subject string, err error)
	// subjects returns what a record is about.
	subjects func(record []byte) ([]subject, error)
}

// The kinds. A record whose digest is that of its JSON is read by no program before its digest is
// compared, so that records of other versions can be checked.
var (
	landingKind = kind{
		noun: "landing", predicate: ownTypes + "landing:v1", fact: "sha256",
		actions: []actions.Action{actions.LandingQueued, actions.LandingTried, actions.LandingLanded, actions.LandingReturned, actions.LandingCancelled, actions.LandingUndone},
		digest:  wholeJSON("landing", "id"),
		subjects: func(record []byte) ([]subject, error) {
			var e hub.LandingEntry
			err := json.Unmarshal(record, &e)
			out := commits(e.Commit, e.Tree)
			if e.LandedCommit != "" && e.LandedCommit != e.Commit {
				out = append(out, subject{"merge commit", map[string]string{"gitCommit": e.LandedCommit}})
			}
			return out, err
		},
	}
	reviewKind = kind{
		noun: "review", predicate: ownTypes + "review:v1", fact: "sha256",
		actions: []actions.Action{actions.ReviewRequested, actions.ReviewGiven},
		digest:  wholeJSON("review", "id"),
		subjects: func(record []byte) ([]subject, error) {
			var v hub.Review
			err := json.Unmarshal(record, &v)
			out := commits(v.Commit, "")
			if v.Difference != "" {
				out = append(out, subject{"difference", map[string]string{"sha256": v.Difference}})
			}
			return out, err
		},
	}
	checkKind = kind{
		noun: "check result", predicate: testResult, fact: "sha256",
		actions: []actions.Action{actions.CheckRun},
		digest:  wholeJSON("check result", "id"),
		subjects: func(record []byte) ([]subject, error) {
			var c hub.CheckResult
			err := json.Unmarshal(record, &c)
			return commits(c.Commit, c.Tree), err
		},
	}
	decisionKind = kind{
		noun: "decision", predicate: ownTypes + "decision:v1", fact: "sha256",
		actions: []actions.Action{actions.TeamDecided, actions.DeliberationDecided},
		digest: func(record []byte) (string, string, error) {
			return attest.RecordDigest("decision", string(record)), "", nil
		},
		subjects: itself("decision"),
	}
	handoffKind = kind{
		noun: "handoff", predicate: ownTypes + "handoff:v1", fact: "sha256",
		actions:  []actions.Action{actions.HandoffDrafted},
		digest:   handoffDigest,
		subjects: handoffSubjects,
	}
	runKind = kind{
		noun: "run", predicate: ownTypes + "run:v1", fact: "sha256",
		actions: []actions.Action{actions.RunStarting, actions.RunRunning, actions.RunChecking, actions.RunDone, actions.RunFailed, actions.RunInterrupted},
		digest: func(record []byte) (string, string, error) {
			var r runRecord
			err := json.Unmarshal(record, &r)
			return r.run().Digest(), string(r.ID), err
		},
		subjects: itself("run"),
	}
	messageKind = kind{
		noun: "message", predicate: ownTypes + "message:v1", fact: "sha256",
		actions:  []actions.Action{actions.MessageSent, actions.MessageHeld},
		digest:   messageDigest,
		subjects: messageSubjects,
	}

	contractKind = kind{
		noun: "contract", predicate: ownTypes + "contract:v1", fact: "sha256",
		actions: []actions.Action{
			actions.ContractProposed, actions.ContractAgreed, actions.ContractContested, actions.ContractRejected, actions.ContractUpdated, actions.ContractMerged, actions.ContractAdvanced,
			actions.ContractUsed, actions.ContractDeprecated, actions.ContractWithdrawn, actions.ContractHandedOver, actions.ContractTested, actions.WorkStarted, actions.WorkCompleted, actions.WorkVerified,
		},
		digest: func(record []byte) (string, string, error) {
			var c contractRecord
			err := json.Unmarshal(record, &c)
			return c.contract().Digest(), string(c.ID), err
		},
		subjects: func(record []byte) ([]subject, error) {
			var c contractRecord
			err := json.Unmarshal(record, &c)
			sum := sha256.Sum256([]byte(c.Content))
			return []subject{{"contract", map[string]string{"sha256": hex.EncodeToString(sum[:])}}}, err
		},
	}

	// actionsOfSteps are those of the rows that have the digest of a step of a handoff.
	actionsOfSteps = []actions.Action{
		actions.HandoffDrafted, actions.HandoffProposed, actions.HandoffValidating, actions.HandoffAccepted,
		actions.HandoffRejected, actions.HandoffActivated, actions.HandoffCompleted, actions.HandoffClosed,
	}

	kinds = []kind{landingKind, reviewKind, checkKind, decisionKind, handoffKind, runKind, messageKind, contractKind}
)

// wholeJSON is the digest of a record whose row has the digest of its JSON. id is the member that is the
// subject of the row.
func wholeJSON(noun, id string) func([]byte) (string, string, error) {
	return func(record []byte) (string, string, error) {
		var members map[string]json.RawMessage
		var subject string
		err := json.Unmarshal(record, &members)
		if err == nil {
			err = json.Unmarshal(members[id], &subject)
		}
		return attest.RecordDigest(noun, string(record)), subject, err
	}
}

// itself is the subject of a record that is about no commit: its own bytes.
func itself(noun string) func([]byte) ([]subject, error) {
	return func(record []byte) ([]subject, error) {
		sum := sha256.Sum256(record)
		return []subject{{noun, map[string]string{"sha256": hex.EncodeToString(sum[:])}}}, nil
	}
}

// commits returns a commit and its tree as subjects.
func commits(commit, tree string) (out []subject) {
	out = append(out, subject{"commit", map[string]string{"gitCommit": commit}})
	if tree != "" {
		out = append(out, subject{"tree", map[string]string{"gitTree": tree}})
	}
	return out
}

// A handoffRecord has everything in a handoff that never changes, and some steps of its history. Each
// step has the row with its digest.
type handoffRecord struct {
	ID         hub.HandoffID   `json:"id"`
	ThreadID   string          `json:"thread_id"`
	TaskID     string          `json:"task_id"`
	From       hub.AgentID     `json:"from"`
	To         hub.AgentID     `json:"to"`
	Title      string          `json:"title"`
	Reason     string          `json:"reason"`
	Hash       string          `json:"package_hash"`
	Previous   hub.HandoffID   `json:"previous,omitempty"`
	NeedsHuman bool            `json:"needs_human"`
	Deadline   hub.Time        `json:"deadline,omitzero"`
	Initiated  hub.Time        `json:"initiated_at,omitzero"`
	Team       hub.TeamID      `json:"team,omitempty"`
	Package    json.RawMessage `json:"package,omitempty"` // with its text only if that was asked for
	Steps      []stepRecord    `json:"steps"`
}

// A stepRecord is one step of a handoff. Checks keep their bytes, of which the row has the digest.
type stepRecord struct {
	Row    int64             `json:"row"`
	State  hub.HandoffState  `json:"state"`
	At     hub.Time          `json:"at,omitzero"`
	Actor  hub.AgentID       `json:"actor"`
	Note   string            `json:"note"`
	Checks []json.RawMessage `json:"checks"`
}

// digest returns the digest of the step as its row has it.
func (s stepRecord) digest() string {
	at := ""
	if !s.At.IsZero() {
		at = s.At.String()
	}
	texts := []string{"step", string(s.State), at, string(s.Actor), s.Note, strconv.Itoa(len(s.Checks))}
	for _, c := range s.Checks {
		texts = append(texts, string(c))
	}
	return attest.RecordDigest(texts...)
}

func handoffDigest(record []byte) (string, string, error) {
	var h handoffRecord
	if err := json.Unmarshal(record, &h); err != nil {
		return "", "", err
	}
	if len(h.Package) > 0 {
		if hash, err := shape.PackageHash(h.Package); err != nil || hash != h.Hash {
			return "", "", fmt.Errorf("its package is not the one with the hash %.12s", h.Hash)
		}
	}
	d := hub.Handoff{
		ID: h.ID, ThreadID: h.ThreadID, TaskID: h.TaskID, From: h.From, To: h.To, Title: h.Title, Reason: h.Reason, Hash: h.Hash,
		Previous: h.Previous, NeedsHuman: h.NeedsHuman, Deadline: h.Deadline, InitiatedAt: h.Initiated, Team: h.Team,
	}
	return d.Digest(), string(h.ID), nil
}

// change returns what the hub saw of the work when the task was completed, if it was.
func (h handoffRecord) change() *hub.WorkChange {
	for _, s := range slices.Backward(h.Steps) {
		for _, raw := range s.Checks {
			var c hub.Check
			if s.State == hub.HandoffCompleted && json.Unmarshal(raw, &c) == nil && c.Change != nil {
				return c.Change
			}
		}
	}
	return nil
}

func handoffSubjects(record []byte) ([]subject, error) {
	var h handoffRecord
	if err := json.Unmarshal(record, &h); err != nil {
		return nil, err
	}
	out := []subject{{"package", map[string]string{"sha256": h.Hash}}}
	if c := h.change(); c != nil && c.Now.Commit != "" {
		out = append(commits(c.Now.Commit, c.Now.Tree), out...)
	}
	return out, nil
}

// A runRecord has the members of a run that its digest has.
type runRecord struct {
	ID             hub.RunID           `json:"run_id"`
	Agent          hub.AgentID         `json:"agent"`
	By             hub.AgentID         `json:"by"`
	Task           string              `json:"task"`
	Dir            string              `json:"dir"`
	ThreadID       string              `json:"thread_id"`
	Handoff        hub.HandoffID       `json:"handoff_id"`
	Key            hub.KeyID           `json:"key"`
	State          hub.RunState        `json:"state"`
	Session        string              `json:"session_id"`
	StopReason     string              `json:"stop_reason"`
	Reason         string              `json:"reason"`
	Report         string              `json:"report"` // JSON in a text, whose bytes are part of the digest
	Verdict        hub.RunVerdict      `json:"verdict"`
	VerdictBy      hub.AgentID         `json:"verdict_by"`
	ClaimedVerdict hub.RunVerdict      `json:"claimed_verdict"`
	Contradictions []hub.Contradiction `json:"contradictions"`
	Evidence       string              `json:"evidence"` // as Report
	Message        hub.EnvelopeID      `json:"message_id"`
	StartedAt      hub.Time            `json:"started_at,omitzero"`
	ExpiresAt      hub.Time            `json:"expires_at,omitzero"`
	EndedAt        hub.Time            `json:"ended_at,omitzero"`
}

func recordOfRun(r hub.Run) runRecord {
	return runRecord{
		r.ID, r.Agent, r.By, r.Task, r.Dir, r.ThreadID, r.Handoff, r.Key, r.State, r.Session, r.StopReason, r.Reason, string(r.Report), r.Verdict, r.VerdictBy,
		r.ClaimedVerdict, r.Contradictions, string(r.Evidence), r.Message, r.StartedAt, r.ExpiresAt, r.EndedAt,
	}
}

func (r runRecord) run() hub.Run {
	return hub.Run{
		ID: r.ID, Agent: r.Agent, By: r.By, Task: r.Task, Dir: r.Dir, ThreadID: r.ThreadID, Handoff: r.Handoff, Key: r.Key, State: r.State, Session: r.Session,
		StopReason: r.StopReason, Reason: r.Reason, Report: json.RawMessage(r.Report), Verdict: r.Verdict, VerdictBy: r.VerdictBy, ClaimedVerdict: r.ClaimedVerdict,
		Contradictions: r.Contradictions, Evidence: json.RawMessage(r.Evidence), Message: r.Message, StartedAt: r.StartedAt, ExpiresAt: r.ExpiresAt, EndedAt: r.EndedAt,
	}
}

// A contractRecord has the members of a contract's present version that its digest has.
type contractRecord struct {
	Project         coord.ProjectID        `json:"project_id"`
	ID              coord.ContractID       `json:"contract_id"`
	Type            coord.ContractType     `json:"type"`
	Name            string                 `json:"name"`
	Version         int                    `json:"version"`
	Status          coord.ContractStatus   `json:"status"`
	Content         string                 `json:"content"` // JSON in a text, whose bytes are part of the digest
	ProposedBy      coord.RepoID           `json:"proposed_by"`
	Implementations []coord.Implementation `json:"implementations"`
	Agreements      []coord.Agreement      `json:"agreements"`
	CreatedAt       coord.Instant          `json:"created_at"`
	UpdatedAt       coord.Instant          `json:"updated_at"`
	ReopenedAt      coord.Instant          `json:"reopened_at"` // agreements up to this time do not count
	Terms           coord.Terms            `json:"terms,omitzero"`
}

func recordOfContract(c coord.Contract) contractRecord {
	return contractRecord{
		c.Project, c.ID, c.Type, c.Name, c.Version, c.Status, string(c.Content), c.ProposedBy, c.Implementations, c.Agreements, c.CreatedAt, c.UpdatedAt, c.ReopenedAt, c.Terms,
	}
}

func (c contractRecord) contract() coord.Contract {
	return coord.Contract{
		Project: c.Project, ID: c.ID, Type: c.Type, Name: c.Name, Version: c.Version, Status: c.Status, Content: json.RawMessage(c.Content), ProposedBy: c.ProposedBy,
		Implementations: c.Implementations, Agreements: c.Agreements, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, ReopenedAt: c.ReopenedAt, Terms: c.Terms,
	}
}

// A messageRecord is a message without its text, or with it. Everything in it but the text is in
// the row itself.
type messageRecord struct {
	ID       hub.EnvelopeID `json:"id"`
	Digest   string         `json:"sha256"` // of the envelope
	Payload  string         `json:"payload_sha256"`
	Envelope *hub.Envelope  `json:"envelope,omitempty"`
}

func messageDigest(record []byte) (string, string, error) {
	var m messageRecord
	if err := json.Unmarshal(record, &m); err != nil {
		return "", "", err
	}
	if m.Envelope != nil {
		sum := sha256.Sum256(m.Envelope.Payload)
		fits := m.Envelope.ID == m.ID && m.Envelope.Digest() == m.Digest && hex.EncodeToString(sum[:]) == m.Payload
		if !fits {
			return "", "", fmt.Errorf("its text is not the one with the hash %.12s", m.Digest)
		}
	}
	return m.Digest, string(m.ID), nil
}

func messageSubjects(record []byte) ([]subject, error) {
	var m messageRecord
	err := json.Unmarshal(record, &m)
	return []subject{{"message", map[string]string{"sha256": m.Payload}}}, err
}
