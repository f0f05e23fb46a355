package continuation

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// An occasion is something that happens to a task whose agent could not go on.
type occasion string

const (
	agentStops   occasion = "its agent cannot go on"            // Stop
	personAsks   occasion = "a person has it continued"         // Continue
	timeComes    occasion = "it is time to offer it"            // offerAgain: patience is over, or the quota is full again
	noAnswer     occasion = "its offer is not answered in time" // recall
	isAccepted   occasion = "its offer is accepted"             // Moved
	isRejected   occasion = "its offer is rejected or recalled" // Moved
	ownerEnds    occasion = "its owner ends it"                 // Moved
	goesOn       occasion = "it has another owner, or none"     // settle
	agentReturns occasion = "its agent works again"             // Returned
)

// An act is what the service does on an occasion.
type act string

const (
	keepWork    act = "keep its work and ask successors" // make, handOn
	offerTask   act = "offer it to a successor"          // offer
	recallOffer act = "recall the offer"                 // recallOne
	takeTask    act = "its next owner has it"            // take
	refuseTask  act = "note who refused it"              // follow
	takeBack    act = "give it back to its agent"        // takeBack
	tellOffered act = "say that it is offered"           // Returned
	tellOwner   act = "say who has it"                   // tellOwner
)

// The states, short for the table. A task without a continuation has none.
const (
	none    hub.ContinuationState = ""
	waiting                       = hub.ContinuationWaiting
	offered                       = hub.ContinuationOffered
	taken                         = hub.ContinuationTaken
	refused                       = hub.ContinuationRefused
)

// A row says what the service does with a continuation in a state on an occasion, and the states in which it
// can be afterwards. An act can fail to find a successor: then the state stays.
type row struct {
	state hub.ContinuationState
	on    occasion
	do    act
	next  []hub.ContinuationState
}

// rows is the whole machine: on an occasion that has no row for a state, nothing is done. The moves between
// states are those of hub.Continuation.Advance.
var rows = []row{
	{none, agentStops, keepWork, []hub.ContinuationState{waiting}},
	{waiting, agentStops, keepWork, []hub.ContinuationState{waiting}},
	{none, personAsks, keepWork, []hub.ContinuationState{waiting}},
	{waiting, personAsks, keepWork, []hub.ContinuationState{waiting}},

	{waiting, timeComes, offerTask, []hub.ContinuationState{waiting, offered, taken}},
	{refused, timeComes, offerTask, []hub.ContinuationState{refused, offered}},
	{offered, noAnswer, recallOffer, []hub.ContinuationState{offered}}, // its handoff is rejected, which is the next occasion
	{offered, isAccepted, takeTask, []hub.ContinuationState{taken}},
	{offered, isRejected, refuseTask, []hub.ContinuationState{refused}},

	{waiting, ownerEnds, takeTask, []hub.ContinuationState{taken}},
	{waiting, goesOn, takeTask, []hub.ContinuationState{taken}},
	{refused, goesOn, takeTask, []hub.ContinuationState{taken}},

	{waiting, agentReturns, takeBack, []hub.ContinuationState{taken}},
	{offered, agentReturns, tellOffered, []hub.ContinuationState{offered}},
	{taken, agentReturns, tellOwner, []hub.ContinuationState{taken}},
}

// actOn returns what is done with a continuation in a state on an occasion; "" for nothing.
func actOn(state hub.ContinuationState, on occasion) act {
	i := slices.IndexFunc(rows, func(r row) bool { return r.state == state && r.on == on })
	if i < 0 {
		return ""
	}
	return rows[i].do
}

// statesOn returns the states in which something is done on an occasion.
func statesOn(on occasion) (out []hub.ContinuationState) {
	for _, r := range rows {
		if r.on == on {
			out = append(out, r.state)
		}
	}
	return out
}

// stateOf returns the state of a continuation; none for nil.
func stateOf(c *hub.Continuation) hub.ContinuationState {
	if c == nil {
		return none
	}
	return c.State
}
