package hub

import (
	"cmp"
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
	RunChecking    RunState = "checking"    // the agent has ended; its report is being checked
	RunDone        RunState = "done"        // there is a report and a verdict
	RunFailed      RunState = "failed"      // the agent could not be run, broke down or gave no report
	RunInterrupted RunState = "interrupted" // the run was stopped, or its supervisor ended
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

// A RunVerdict is the result of comparing an agent's report with the facts.
type RunVerdict string

// The verdicts. A claim that could not be checked is neither confirmed nor
// contradicted; one such claim makes the verdict unverified. The verdict of an agent on
// its own work is claimed, whatever it says.
const (
	RunConfirmed    RunVerdict = "confirmed"
	RunContradicted RunVerdict = "contradicted"
	RunUnverified   RunVerdict = "unverified"
	RunClaimed      RunVerdict = "claimed"
)

// Known reports whether v is the result of a check. RunClaimed is none.
func (v RunVerdict) Known() bool {
	return v == RunConfirmed || v == RunContradicted || v == RunUnverified
}

// A Contradiction is a claim that does not hold.
type Contradiction struct {
	Kind  string `json:"kind"`
	Claim string `json:"claim"` // the agent's words
	Found string `json:"found"` // the facts
}

// A Run is one task given to one agent process, with its report and verdict. The
// task, its agent and its owner never change; a run that is over changes no
// more.
type Run struct {
	ID       RunID     `json:"run_id"`
	Agent    AgentID   `json:"agent"` // the agent that works
	By       AgentID   `json:"by"`    // the authenticated caller that started the run
	Task     string    `json:"task"`
	Dir      string    `json:"dir"` // where the agent works
	ThreadID string    `json:"thread_id"`
	Handoff  HandoffID `json:"handoff_id,omitempty"` // the handoff that brought the task
	Key      KeyID     `json:"key"`                  // lent to the agent for the time of the run

	State          RunState        `json:"state"`
	Session        string          `json:"session_id,omitempty"`      // of the agent
	StopReason     string          `json:"stop_reason"`               // why the agent stopped, in its own words or ours
	Reason         string          `json:"reason"`                    // why there is no verdict on a report; empty if there is one
	Report         json.RawMessage `json:"report"`                    // the agent's claims; null if there are none
	Verdict        RunVerdict      `json:"verdict"`                   // empty until the run is over
	VerdictBy      AgentID         `json:"verdict_by,omitempty"`      // the author of the verdict; empty in runs that earlier versions ended
	ClaimedVerdict RunVerdict      `json:"claimed_verdict,omitempty"` // the word of the author, if Verdict is RunClaimed
	VerdictNote    string          `json:"verdict_note,omitempty"`    // the restriction of the verdict in words; follows from the members above and is not stored
	Contradictions []Contradiction `json:"contradictions"`
	Evidence       json.RawMessage `json:"evidence"`   // the facts; null if nothing was checked
	Message        EnvelopeID      `json:"message_id"` // the message about the end of the run; empty until then

	StartedAt Time `json:"started_at,omitzero"`
	ExpiresAt Time `json:"expires_at,omitzero"` // the run counts as interrupted after this time
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

// Judged returns r with the verdict of an author. The hub checks the runs that it
// executes, and the operator's command those that the operator began. The verdict of any
// other author is claimed: an agent speaks about its own work.
func (r Run) Judged(v RunVerdict, by AgentID) Run {
	r.Verdict, r.ClaimedVerdict = v, ""
	r.VerdictBy = by
	if checked := by == Self || (by == Operator && r.By == Operator); !checked {
		r.Verdict, r.ClaimedVerdict = RunClaimed, v
	}
	r.VerdictNote = r.Note()
	return r
}

// Note returns the restriction of the verdict in words, "" for a verdict of a check.
func (r Run) Note() string {
	switch {
	case r.Verdict == RunClaimed:
		return "says " + string(r.VerdictBy) + ", not checked"
	case r.Verdict != "" && r.VerdictBy == "":
		return "by the rules of then"
	}
	return ""
}

// VerdictText returns the verdict with its restriction, "" if there is none yet.
func (r Run) VerdictText() string {
	if note := r.Note(); note != "" {
		return string(r.Verdict) + " (" + note + ")"
	}
	return string(r.Verdict)
}

// SentVerdict returns the verdict as its author reached it.
func (r Run) SentVerdict() RunVerdict { return cmp.Or(r.ClaimedVerdict, r.Verdict) }

// Checked reports whether the hub or its operator executed the run and reached its
// verdict. Earlier versions let only the operator end a run that the operator began.
func (r Run) Checked() bool {
	return r.Verdict.Known() && (r.VerdictBy != "" || r.By == Operator)
}

// Concerns reports whether an agent works in the run or started it.
func (r Run) Concerns(agent AgentID) bool { return agent == r.Agent || agent == r.By }

// Withheld returns the run without its task, report and evidence, as it is shown where the
// text of a restricted handoff must not be.
func (r Run) Withheld() Run {
	r.Task = RestrictedText
	r.Report, r.Evidence = nil, nil
	r.Contradictions = nil
	return r
}

// RunKeyLabel begins the label of a key that is lent for a run; the id of the run
// follows.
const RunKeyLabel = "run-"

// A RunQuery chooses runs. Empty members do not restrict.
type RunQuery struct {
	Viewer  AgentID // restricts to runs that this agent works in or started
	Agent   AgentID
	By      AgentID // the caller that started the run
	Handoff HandoffID
	Open    bool  // only those that are not over
	Cursor  RunID // the last one of the page before
	Limit   int   // how many at most; positive
}

// Words of a run's end that are not the agent's. They are reasons of a run
// that failed or was interrupted.
const (
	RunNoReport   = "no_report"   // the agent gave no report, even after a second request
	RunNotStarted = "not_started" // the agent could not be run
	RunBroke      = "broke"       // the agent's process ended, or its answers break the protocol
	RunTimeout    = "timeout"     // it took too long
	RunCancelled  = "cancelled"   // the person at the terminal stopped it
	RunLost       = "lost"        // the supervisor of the run ended
)
