package hub

import (
	"encoding/json"
	"slices"
)

// A RunID is a UUIDv7, like an EnvelopeID.
type RunID string

// Valid reports whether id is a UUIDv7 in lower case.
func (id RunID) Valid() bool { return EnvelopeID(id).Valid() }

// Time returns the instant that the id was made, to the millisecond.
func (id RunID) Time() Time { return EnvelopeID(id).Time() }

// A RunState says how far a run has come.
type RunState string

// The states of a run.
const (
	RunStarting    RunState = "starting"    // the agent is being started
	RunRunning     RunState = "running"     // it works on the task
	RunChecking    RunState = "checking"    // it has ended; what it reports is being checked
	RunDone        RunState = "done"        // there is a report and a verdict
	RunFailed      RunState = "failed"      // the agent could not be run, broke down or gave no report
	RunInterrupted RunState = "interrupted" // somebody stopped it, or who watched over it is gone
)

// RunStates lists every state in the order of a run's life.
var RunStates = []RunState{RunStarting, RunRunning, RunChecking, RunDone, RunFailed, RunInterrupted}

// runNext is the whole state machine. A state without an entry is final.
var runNext = map[RunState][]RunState{
	RunStarting: {RunRunning, RunFailed, RunInterrupted},
	RunRunning:  {RunChecking, RunFailed, RunInterrupted},
	RunChecking: {RunDone, RunFailed, RunInterrupted},
}

// CanBecome reports whether a run in state s may move to next.
func (s RunState) CanBecome(next RunState) bool { return slices.Contains(runNext[s], next) }

// Known reports whether s is one of RunStates.
func (s RunState) Known() bool { return slices.Contains(RunStates, s) }

// Over reports whether a run in state s has ended.
func (s RunState) Over() bool { return s.Known() && runNext[s] == nil }

// A RunVerdict says whether what an agent reports is true.
type RunVerdict string

// The verdicts. What could not be looked at is neither confirmed nor
// contradicted.
const (
	RunConfirmed    RunVerdict = "confirmed"
	RunContradicted RunVerdict = "contradicted"
	RunUnverified   RunVerdict = "unverified"
)

// Known reports whether v is a verdict.
func (v RunVerdict) Known() bool {
	return v == RunConfirmed || v == RunContradicted || v == RunUnverified
}

// A Contradiction is a claim that does not hold.
type Contradiction struct {
	Kind  string `json:"kind"`
	Claim string `json:"claim"` // what the agent says
	Found string `json:"found"` // what is there
}

// A Run is one agent at work on one task, and what became of it. What was asked
// for never changes; once the run is over nothing of it does.
type Run struct {
	ID       RunID     `json:"run_id"`
	Agent    AgentID   `json:"agent"` // who works
	By       AgentID   `json:"by"`    // who wants it done; who authenticated
	Task     string    `json:"task"`
	Dir      string    `json:"dir"` // where the agent works
	ThreadID string    `json:"thread_id"`
	Handoff  HandoffID `json:"handoff_id,omitempty"` // that the task came by
	Key      KeyID     `json:"key"`                  // lent to the agent for the time of the run

	State          RunState        `json:"state"`
	Session        string          `json:"session_id,omitempty"` // of the agent
	StopReason     string          `json:"stop_reason"`          // why the agent stopped, in its own words or ours
	Reason         string          `json:"reason"`               // why there is no verdict on a report; empty if there is one
	Report         json.RawMessage `json:"report"`               // what the agent claims; null if nothing
	Verdict        RunVerdict      `json:"verdict"`              // empty until the run is over
	Contradictions []Contradiction `json:"contradictions"`
	Evidence       json.RawMessage `json:"evidence"`   // what was found; null if nothing was looked at
	Message        EnvelopeID      `json:"message_id"` // that told of the end; empty until then

	StartedAt Time `json:"started_at"`
	ExpiresAt Time `json:"expires_at,omitzero"` // it counts as interrupted from then on
	EndedAt   Time `json:"ended_at,omitzero"`
}

// Advance returns r moved to next at the given time. It reports CodeConflict
// when the state machine has no such move, and then returns r unchanged.
func (r Run) Advance(next RunState, now Time) (Run, error) {
	if !r.State.CanBecome(next) {
		return r, Errorf(CodeConflict, "hub.Advance", "run %s is %s and cannot become %s", r.ID, r.State, next)
	}
	r.State = next
	if next.Over() {
		r.EndedAt = now
	}
	return r, nil
}

// Concerns reports whether an agent works in the run or wants it done.
func (r Run) Concerns(agent AgentID) bool { return agent == r.Agent || agent == r.By }

// RunKeyLabel begins the label of a key that is lent for a run; the id of the run
// follows.
const RunKeyLabel = "run-"

// A RunQuery chooses runs. Empty members do not restrict.
type RunQuery struct {
	Viewer  AgentID // restricts to runs that this agent works in or asked for
	Agent   AgentID
	Handoff HandoffID
	Open    bool  // only those that are not over
	Cursor  RunID // the last one of the page before
	Limit   int   // how many at most; positive
}

// Words of a run's end that are not the agent's. They are reasons of a run
// that failed or was interrupted.
const (
	RunNoReport   = "no_report"   // the agent gave none, though it was asked twice
	RunNotStarted = "not_started" // the agent could not be run
	RunBroke      = "broke"       // the agent is gone or cannot be understood
	RunTimeout    = "timeout"     // it took too long
	RunCancelled  = "cancelled"   // the person at the terminal stopped it
	RunLost       = "lost"        // who watched over it is gone
)
