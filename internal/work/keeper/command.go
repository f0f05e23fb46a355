package keeper

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// PolicyBuild is PolicyWrite with the right to have any command run by the hub, confined, in the
// agent's folder. The agent's own shell stays denied.
const PolicyBuild sandbox.Policy = "build"

// maxCommand is the size of a command of an agent in bytes.
const maxCommand = 16 << 10

// A Command is run by the hub for a kept agent, in the agent's folder: an allowed check by its
// name, or a line of the shell. One of the two is set.
type Command struct {
	Check string
	Line  string
	Wait  time.Duration // for its end
}

// text returns the command as people read it.
func (c Command) text() string { return cmp.Or(c.Line, "check "+c.Check) }

// An Outcome is the state of a command, or its end. It counts for nothing but the agent's own
// knowledge: the folder is not a commit, and the agent may have changed whatever judges it.
type Outcome struct {
	Check      string         `json:"check,omitempty"`
	Command    string         `json:"command,omitempty"`
	State      hub.CheckState `json:"state"` // running until it has ended
	ExitCode   int            `json:"exit_code"`
	DurationMS int64          `json:"duration_ms"`
	Output     string         `json:"output"` // its end
	Reason     string         `json:"reason,omitempty"`
	Notes      []string       `json:"notes,omitempty"` // about files that other agents hold
}

// Commands finds the checks of repositories, and runs commands confined.
type Commands interface {
	// Allowed returns a check that the operator allowed for the repository around a folder. It
	// reports CodeNotFound, with the names that there are, for another name.
	Allowed(ctx context.Context, folder, name string) (hub.RepositoryCheck, error)
	// RunIn runs the command of a check in the folder of an agent until its end, confined, and
	// with a home folder of the agent's own. The repository of the folder is not written to. It
	// reports CodeNotEnabled on a machine that cannot confine a command.
	RunIn(ctx context.Context, agent hub.AgentID, folder string, c hub.RepositoryCheck) (Outcome, error)
	// Confines reports CodeNotEnabled on a machine that cannot confine a command.
	Confines() error
}

// A commandRun is a command of an agent that runs, or whose end was not read yet.
type commandRun struct {
	command Command
	cancel  context.CancelFunc
	done    chan struct{} // closed when outcome and err are set
	outcome Outcome
	err     error
}

// RunCommand runs a command in the folder of the kept agent that asks, or waits for the one that it
// asked for before. An agent has one command at a time. The outcome is that of the moment when the
// wait ends.
func (k *Keeper) RunCommand(ctx context.Context, actor hub.Caller, c Command) (Outcome, error) {
	const op = "keeper.RunCommand"
	r, check, err := k.permitted(ctx, op, actor, c)
	if err != nil {
		return Outcome{}, err
	}
	e, err := k.startCommand(ctx, op, actor, r, c, check)
	if err != nil {
		return Outcome{}, err
	}

	timer := time.NewTimer(c.Wait)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
		return Outcome{Check: c.Check, Command: c.Line, State: hub.ResultRunning, ExitCode: -1}, nil
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	k.mu.Lock()
	if k.commands[actor.ID] == e {
		delete(k.commands, actor.ID) // the next question runs it again
	}
	k.mu.Unlock()
	return e.outcome, e.err
}

// permitted returns the record of the agent that asks for a command, and the command as a check, if
// the agent's policy allows it.
func (k *Keeper) permitted(ctx context.Context, op string, actor hub.Caller, c Command) (r record, check hub.RepositoryCheck, err error) {
	if actor.Kind == hub.CallerAgent {
		r, err = k.own(ctx, op, actor.ID)
	}
	if r.Agent == "" && (err == nil || hub.CodeOf(err) == hub.CodeNotFound) {
		return r, check, hub.Errorf(hub.CodeDenied, op, "the hub runs commands only for the agents that it keeps").WithHint("run it in your own shell")
	}
	if err == nil {
		err = c.check(op, r)
	}
	if err != nil {
		return r, check, err
	}

	if c.Line != "" {
		check = hub.RepositoryCheck{Name: "command", Command: []string{"sh", "-c", c.Line}, Network: &r.Network}
		return r, check, nil
	}
	check, err = k.o.Commands.Allowed(ctx, r.Dir, c.Check)
	check.Unconfined = false // that is the operator's yes to a commit, not to what lies in the folder
	return r, check, err
}

// check refuses a command that the policy of an agent does not allow, and one that cannot be run.
func (c Command) check(op string, r record) error {
	keep := fmt.Sprintf("parley agent keep %s --policy", r.Agent)
	switch {
	case r.Stopped:
		return hub.Errorf(hub.CodeConflict, op, "%s is stopped", r.Agent)
	case r.Policy == sandbox.PolicyRead:
		return hub.Errorf(hub.CodeDenied, op, "your policy is read: it lets you run nothing").WithHint("the operator can change that: %s write", keep)
	case (c.Check == "") == (c.Line == ""):
		return hub.Errorf(hub.CodeInvalid, op, "command is required: the name of a check, or for the action run a line of the shell")
	case c.Line != "" && r.Policy != PolicyBuild:
		return hub.Errorf(hub.CodeDenied, op, "your policy is %s: it lets you run the checks of the repository, not other commands", r.Policy).
			WithHint("{handoff.check} runs a check; the operator can allow commands: %s build", keep)
	case len(c.Line) > maxCommand:
		return hub.Errorf(hub.CodeTooLarge, op, "the command has %d bytes, at most %d are allowed", len(c.Line), maxCommand).WithHint("write a script into your folder and run it")
	case strings.ContainsRune(c.Line, 0):
		return hub.Errorf(hub.CodeInvalid, op, "the command contains a zero byte")
	}
	return nil
}

// startCommand returns the command of an agent that is under way or was not read yet, if it is the same,
// else one that it starts.
func (k *Keeper) startCommand(ctx context.Context, op string, actor hub.Caller, r record, c Command, check hub.RepositoryCheck) (*commandRun, error) {
	same := func(e *commandRun) bool { return e.command.Check == c.Check && e.command.Line == c.Line }
	k.mu.Lock()
	e := k.commands[actor.ID]
	k.mu.Unlock()
	if e != nil && same(e) {
		return e, nil
	}

	// Files that other agents hold are looked up before the command starts.
	guard := k.guardOf(actor, r)
	change := acp.Change{Command: commandLine(check), Dir: r.Dir}
	if refusal := guard.refuses(ctx, change); refusal != "" {
		return nil, hub.Errorf(hub.CodeDenied, op, "%s", refusal)
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.commands[actor.ID]; e != nil {
		select {
		case <-e.done: // nobody reads its end any more
		default:
			if same(e) {
				return e, nil
			}
			return nil, hub.Errorf(hub.CodeConflict, op, "%q still runs", e.command.text()).WithHint("wait for its end with the same call")
		}
	}
	if k.ctx == nil || k.agents[actor.ID] == nil {
		return nil, hub.Errorf(hub.CodeConflict, op, "%s is stopped", actor.ID)
	}
	running, cancel := context.WithCancel(k.ctx)
	e = &commandRun{command: c, cancel: cancel, done: make(chan struct{})}
	k.commands[actor.ID] = e
	k.wg.Go(func() {
		defer cancel()
		defer close(e.done)
		e.outcome, e.err = k.run(running, actor, r, e.command, check, guard, change)
	})
	return e, nil
}

// run runs a command to its end and writes it into the log of the agent and the journal.
func (k *Keeper) run(ctx context.Context, actor hub.Caller, r record, c Command, check hub.RepositoryCheck, guard commandGuard, change acp.Change) (out Outcome, err error) {
	err = hub.Contain("keeper.RunCommand", func() (err error) {
		out, err = k.o.Commands.RunIn(ctx, actor.ID, r.Dir, check)
		return err
	})
	if err != nil {
		return out, err
	}
	out.Check = c.Check
	out.Command = c.Line
	after := context.WithoutCancel(ctx)
	out.Notes = guard.notes(after, change)

	k.mu.Lock()
	log := k.linesOf(actor.ID)
	k.mu.Unlock()
	log.add("command", fmt.Sprintf("%s: %s", c.text(), out.State))
	sum := sha256.Sum256([]byte(strings.Join(check.Command, "\x00")))
	return out, k.store.Update(after, hub.SurvivesKill, func(tx hub.Tx) error {
		facts := commandFacts{Check: c.Check, Command: hex.EncodeToString(sum[:]), Folder: r.Dir, State: out.State, ExitCode: out.ExitCode}
		_, err := tx.Append(actor.Entry(k.o.Clock.Now(), actions.AgentCommand, "kept/"+string(actor.ID), facts))
		return err
	})
}

// commandFacts are the facts of the journal entry about a command.
type commandFacts struct {
	Check    string         `json:"check,omitempty"`
	Command  string         `json:"command_sha256"` // of the words, each but the first after a zero byte
	Folder   string         `json:"folder"`
	State    hub.CheckState `json:"state"`
	ExitCode int            `json:"exit_code"`
}

// commandLine returns the command of a check as a line of the shell, for the guard.
func commandLine(c hub.RepositoryCheck) string {
	if n := len(c.Command); n == 3 && slices.Equal(c.Command[:2], []string{"sh", "-c"}) {
		return c.Command[2]
	}
	return hub.CommandText(c.Command)
}

// A commandGuard asks about the files that a command changes, as the agent. It is nil if nothing
// guards files.
type commandGuard struct{ *acpguard.Guard }

// guardOf returns the guard of one command of an agent.
func (k *Keeper) guardOf(actor hub.Caller, r record) commandGuard {
	if k.o.AskFiles == nil {
		return commandGuard{}
	}
	return commandGuard{acpguard.New(r.Dir, k.asking(actor), acpguard.Options{
		Session:        SessionID + "/command",
		DenyUnanswered: k.o.DenyUnanswered != nil && k.o.DenyUnanswered(r.Dir),
	})}
}

// refuses returns why a command may not run, "" if it may.
func (g commandGuard) refuses(ctx context.Context, c acp.Change) string {
	if g.Guard == nil {
		return ""
	}
	return g.Before(ctx, c)
}

// notes tells the hub that a command has ended, and returns the notes about other agents' files.
func (g commandGuard) notes(ctx context.Context, c acp.Change) []string {
	if g.Guard == nil {
		return nil
	}
	g.After(ctx, c)
	return g.Unread()
}

// endCommand ends the command of an agent that stops, and waits for its end.
func (k *Keeper) endCommand(name hub.AgentID) {
	k.mu.Lock()
	e := k.commands[name]
	delete(k.commands, name)
	k.mu.Unlock()
	if e != nil {
		e.cancel()
		<-e.done
	}
}

// permits returns the policy by which requests of the agent for permission are decided.
func (d Definition) permits() sandbox.Policy {
	if d.Policy == PolicyBuild {
		return sandbox.PolicyWrite
	}
	return d.Policy
}

// steerTime bounds the giving of words to an agent in its turn.
const steerTime = 5 * time.Second

// explainRefusal tells the agent in the turn that runs what the hub runs for it, since the answer to a
// request for permission has no room for words. The request is still open, so that the words come with
// its answer. An agent that takes no words in a turn reads them at the beginning of the next one.
func (a *agent) explainRefusal(ctx context.Context, text string) {
	a.mu.Lock()
	process, turn := a.working, a.turn
	isTold := a.steered == turn
	a.shellless = !isTold
	a.mu.Unlock()
	if isTold || process == nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, steerTime)
	defer cancel()
	taken, err := process.Steer(ctx, text)
	if err != nil {
		a.log.add("problem", err.Error())
	}
	if !taken {
		return
	}
	a.log.add("told", text)
	a.mu.Lock()
	a.shellless, a.steered = false, turn
	a.mu.Unlock()
}

// unexplained returns the beginning of a turn in which the agent reads what the hub runs for it: a
// command was refused in the last turn, which ended well, and a task of the agent is open. It is "" if
// none is needed.
func (a *agent) unexplained(ctx context.Context, r result) string {
	a.mu.Lock()
	isDue := a.shellless && r.ok()
	a.mu.Unlock()
	isRunnable := a.record.permits() == sandbox.PolicyWrite // a person answers under ask
	hasTask := a.o.OpenTasks != nil && isDue && a.o.OpenTasks(ctx, a.name)
	if !isRunnable || !hasTask {
		return ""
	}
	return "[parley] A command of your own shell was refused. Go on with your task; the hub runs commands for you.\n"
}

// aboutCommands returns the text about commands that the hub runs for the agent, in a new session
// and after a command of its own was refused; "" in other turns, and for an agent that may run none.
func (a *agent) aboutCommands() string {
	a.mu.Lock()
	isDue := a.fresh || a.shellless
	a.shellless = false
	a.mu.Unlock()
	if !isDue {
		return ""
	}
	return commandsText(a.record.Policy)
}

// commandsText returns the words about commands that the hub runs under a policy.
func commandsText(p sandbox.Policy) string {
	const check, commit = "a check of this repository: acp_handoff with action check and command NAME", "To commit: give commit_message when you complete the task."
	switch p {
	case sandbox.PolicyAsk:
		return "[parley] Each command of your own shell waits for a person's yes. The hub runs without one " + check + ". " + commit
	case sandbox.PolicyWrite:
		return "[parley] Your own shell is off, also for git. The hub runs " + check + ". " + commit
	case PolicyBuild:
		return "[parley] Your own shell is off, also for git. The hub runs any command in this folder: acp_handoff with action run and command LINE; " + check + ". " + commit
	}
	return ""
}
