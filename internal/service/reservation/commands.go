package reservation

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// WholeTurn is the command of the two questions about a whole turn of an agent whose commands the
// hub cannot see. It does nothing: files are compared between the questions, and a change that
// another look finds is not explained by it.
const WholeTurn = ":"

const (
	commandsKey = "reservations/commands" // where the commands are stored that run
	maxCommands = 1000                    // that run at once; the oldest ones give way to new ones
	runsWithin  = time.Hour               // for a command whose end was not reported, of a session about which nothing is known
)

// A command is a shell command of an agent that runs in a working tree. It is stored: also a hub
// that starts again knows which agents may have changed a file.
type command struct {
	Tree    string      `json:"tree"`
	Agent   hub.AgentID `json:"agent"`
	Session string      `json:"session,omitempty"`
	Digest  string      `json:"digest"` // of its text
	Since   hub.Time    `json:"since,omitzero"`
	Commits bool        `json:"commits,omitempty"` // git's hook asked about a commit of the agent while it ran
}

// isSame reports whether two records are of one command.
func (c command) isSame(o command) bool {
	return c.Tree == o.Tree && c.Agent == o.Agent && c.Session == o.Session && c.Digest == o.Digest
}

// mayRun reports whether a command whose end was not reported may still run.
func (c command) mayRun(life Life, now hub.Time) bool {
	switch {
	case life.Known && life.Over:
		return false
	case life.Busy:
		return true
	case life.Known && life.Seen.After(c.Since.Time): // its turn is over
		return false
	}
	return now.Sub(c.Since.Time) < runsWithin
}

// command returns the record of the command of a question.
func (x *question) command(now hub.Time) command {
	sum := sha256.Sum256([]byte(x.Command))
	return command{Tree: keyOf(x.tree), Agent: x.actor.ID, Session: x.Session, Digest: hex.EncodeToString(sum[:8]), Since: now}
}

// runs reports whether a question is about a command of an agent.
func (x *question) runs() bool {
	return x.Command != "" && x.Command != WholeTurn && !x.actor.IsOperator()
}

// running returns the commands that run in a working tree.
func (s *Service) running(r hub.Reader, tree hub.WorkingTree) ([]command, error) {
	all, err := hub.ReadMeta[[]command](r, commandsKey)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	var out []command
	for _, c := range all {
		if c.Tree != keyOf(tree) {
			continue
		}
		life, err := s.sessions.Life(r, c.Agent, c.Session)
		if err != nil {
			return nil, err
		}
		if c.mayRun(life, now) {
			out = append(out, c)
		}
	}
	return out, nil
}

// keepCommands stores the commands that run after a question: its own begins or ends.
func (b *board) keepCommands(x *question) error {
	isCommit := x.Kind == Commit && !b.actor.IsOperator()
	isCommand := x.runs() && (x.Kind == Edit || x.Kind == After)
	if !isCommit && !isCommand {
		return nil
	}
	all, err := hub.ReadMeta[[]command](b.tx, commandsKey)
	if err != nil {
		return err
	}
	own := x.command(b.now)
	before := len(all)
	isChanged := false
	if isCommit {
		for i, c := range all {
			isOfCaller := c.Tree == own.Tree && c.Agent == own.Agent && !c.Commits
			all[i].Commits = c.Commits || isOfCaller
			isChanged = isChanged || isOfCaller
		}
	} else {
		all = slices.DeleteFunc(all, own.isSame)
		isChanged = len(all) != before
	}
	if x.Kind == Edit && b.answer.Decision == Allow {
		all = append(all[max(0, len(all)-maxCommands+1):], own)
		isChanged = true
	}
	if !isChanged {
		return nil
	}
	return hub.WriteMeta(b.tx, commandsKey, all)
}

// A report is what a question says about changes of files that were made.
type report struct {
	by      hub.AgentID
	edits   []string        // the files that it reports by name
	command bool            // it reports the end of a command
	commits bool            // which commits, by its text
	text    effects.Effects // of the command
	changed []string        // files of others that are not as they were when the command began
}

// reported returns what the question reports.
func (x *question) reported() report {
	if x.Kind != After || x.actor.IsOperator() {
		return report{}
	}
	out := report{by: x.actor.ID, edits: x.names, command: x.runs()}
	out.text = x.does
	out.commits = slices.ContainsFunc(out.text.Git, func(g effects.Git) bool { return g.Verb == effects.Commit })
	return out
}

// names returns whether the text of a command names a file, given by its absolute path. It takes at
// most maxSteps for all files; what they do not suffice for is not named.
func (r report) names() func(file string) bool {
	written := effects.Compile(r.text.Writes...)
	var touched []func(file string, steps *int) bool
	isSwitch := false
	for _, g := range r.text.Git {
		isSwitch = isSwitch || g.Verb == effects.Switch
		touched = append(touched, g.Compile())
	}
	steps := 0
	return func(file string) bool {
		touches := func(touches func(string, *int) bool) bool { return steps <= maxSteps && touches(file, &steps) }
		return steps <= maxSteps && (written.Count(file, &steps) || isSwitch || slices.ContainsFunc(touched, touches))
	}
}

// An origin says which agents may have changed a file since the hub last looked at it.
type origin struct {
	holder  bool        // the holder reports the change, or its command names the file
	edited  bool        // it reports an edit of the file
	runs    bool        // a command of the holder ran, or its edit is under way
	commits bool        // a command of the holder ran that commits
	other   hub.AgentID // another agent of which a command ran, or that reports an edit of the file; empty for none
	reports bool        // it reports that now
	during  bool        // it ran a command whose text does not name the file
}

// originOf returns the origin of a change of the file of a reservation. An agent that shares the
// file counts as its holder.
func (k facts) originOf(r hub.Reservation) origin {
	isHolder := func(agent hub.AgentID) bool {
		return agent == r.Holder || slices.Contains(k.sharers[r.ID], agent)
	}
	o := origin{runs: !r.Asked.IsZero()}
	for _, c := range k.running {
		switch {
		case isHolder(c.Agent):
			o.runs = true
			o.commits = o.commits || c.Commits
		case o.other == "":
			o.other = c.Agent
			o.during = true
		}
	}

	by := k.report.by
	isNamed := slices.Contains(k.report.edits, r.Path)
	isChanged := k.report.command || slices.Contains(k.report.changed, r.Path)
	switch {
	case by == "":
	case isHolder(by):
		o.edited = isNamed
		o.holder = isNamed || k.named[r.ID]
		o.runs = o.runs || k.report.command
		o.commits = o.commits || k.report.commits
	case isNamed || isChanged:
		o.other = by
		o.reports = true
		o.during = !isNamed
	}
	return o
}
