package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// leave ends the launch: the hub is told that its sessions ended, its key is revoked
// and its folder is removed. A hub that is away is told by the next launch.
func (l *Launch) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l.identity.Last = hub.At(time.Now())
	if err := l.identity.Save(l.Home); err != nil {
		l.Note(err.Error())
	}
	conversation := l.endSessions(ctx)
	unread := 0
	if in, err := rpc.Call(ctx, l.agent, api.Inbox, api.InboxParams{NewOnly: true, Peek: true}); err == nil {
		unread = in.Unread
	}

	if _, err := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: l.identity.Agent, Label: l.label}); err != nil && l.folder != "" {
		os.Remove(filepath.Join(l.folder, cli.KeyFile)) // the rest stays for the next launch, which revokes the key
		return
	}
	if l.folder != "" {
		os.RemoveAll(l.folder)
	}
	l.part(conversation, unread)
}

// endSessions tells the hub that the sessions of this launch ended, and returns the id of
// the last conversation among them, "" if there was none.
func (l *Launch) endSessions(ctx context.Context) (conversation string) {
	list, err := rpc.Call(ctx, l.agent, api.ListSessions, api.AgentNameParams{})
	if err != nil {
		return ""
	}
	for _, wakes := range list.Agents {
		for _, s := range wakes.Sessions { // the newest first
			if s.Process != os.Getpid() {
				continue
			}
			if s.ID != wake.Opening {
				conversation = cmp.Or(conversation, s.ID)
			}
			if s.State != wake.SessionEnded {
				rpc.Call(ctx, l.agent, api.ReportWake, wake.Report{Key: s.Key, Event: wake.EventEnd, Quiet: true}) // else the hub finds out by itself
			}
		}
	}
	return conversation
}

// part tells how to take the agent and its conversation up again, and what stays.
func (l *Launch) part(conversation string, unread int) {
	again := fmt.Sprintf("parley %s --as %s", l.CLI.Name, l.identity.Agent)
	if args := l.CLI.Resume(conversation); conversation != "" && args != nil {
		again += " -- " + strings.Join(args, " ")
	}
	if l.CLI.Parting != "" && conversation != "" {
		fmt.Fprintln(l.Text, l.CLI.Parting)
	}
	fmt.Fprintf(l.Text, "%s is idle on the hub; resume it with: %s\n", l.identity.Agent, again)
	if unread > 0 {
		fmt.Fprintf(l.Text, "unread messages: %d\n", unread)
	}
	fmt.Fprintln(l.Text, `the hub keeps running; "parley stop" stops it`)
}

// clean removes the folders of launches that were killed and revokes their keys.
func (l *Launch) clean(ctx context.Context) {
	records, err := filepath.Glob(filepath.Join(l.Home, Dir, "*", cli.RecordFile))
	if err != nil {
		return
	}
	waiters, err := filepath.Glob(filepath.Join(l.Home, Dir, "*.waiter"))
	if err != nil {
		return
	}
	for _, file := range waiters {
		if !heldByProcess(file) {
			os.Remove(file)
		}
	}
	for _, file := range records {
		var r cli.Launch
		raw, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(raw, &r) != nil || process.Alive(r.Process) {
			continue
		}
		if _, err := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: r.Agent, Label: r.Label}); err == nil || hub.CodeOf(err) == hub.CodeNotFound {
			os.RemoveAll(filepath.Dir(file))
		}
	}
}

// retireAfter is the time without a launch after which an identity that launch made
// is retired.
const retireAfter = 14 * 24 * time.Hour

// retire pauses identities that launch made and that were not used for long, and
// revokes their keys, unless mail or a task waits for them. A failure is left to the
// next launch.
func (l *Launch) retire(ctx context.Context) {
	var old []Identity
	for _, i := range Identities(l.Home) {
		isUnused := time.Since(i.Last.Time) > retireAfter && i.Agent != l.As
		if i.Made && isUnused && !process.Alive(i.Process) {
			old = append(old, i)
		}
	}
	if len(old) == 0 {
		return
	}
	list, err := rpc.Call(ctx, l.client, api.ListAgents, api.None{})
	if err != nil {
		return
	}

	for _, i := range old {
		if slices.ContainsFunc(list.Agents, func(p api.AgentProfile) bool { return p.ID == i.Agent && p.Unread > 0 }) || l.hasTask(ctx, i.Agent) {
			continue
		}
		_, revoked := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: i.Agent})
		_, paused := rpc.Call(ctx, l.client, api.PauseAgent, api.AgentParams{ID: i.Agent})
		_, denied := rpc.Call(ctx, l.client, api.AllowWake, api.WakeAllowParams{Agent: i.Agent})
		if errors.Join(revoked, paused, denied) == nil && os.Remove(identityFile(l.Home, i.Agent)) == nil {
			fmt.Fprintf(l.Text, "%s was not used for 14 days and is retired; run \"parley agent resume %[1]s\" to bring it back\n", i.Agent)
		}
	}
}

// hasTask reports whether a task that is not over waits for an agent or came from it.
// It reports true if the hub does not say.
func (l *Launch) hasTask(ctx context.Context, agent hub.AgentID) bool {
	from, err := json.Marshal(agent)
	if err != nil {
		return true
	}
	for _, p := range []api.HandoffParams{{Action: "list", To: agent}, {Action: "list", From: from}} {
		got, err := rpc.Call(ctx, l.client, api.Handoff, p)
		if err != nil || got.Listing == nil {
			return true
		}
		for _, h := range got.Listing.Handoffs {
			if h.Status != hub.HandoffClosed && h.Status != hub.HandoffRejected {
				return true
			}
		}
	}
	return false
}

// An Undone is what Undo forgot. It is the answer of launch --undo with --json.
type Undone struct {
	CLI    string        `json:"cli"`
	Agents []hub.AgentID `json:"agents"`
	Files  bool          `json:"files,omitempty"` // entries in files of the CLI were removed
}

// Undo forgets the launches of the CLI: their identities and answers, their keys, and a
// connection that launch made. It reports CodeConflict if one of them still runs.
func (l *Launch) Undo(ctx context.Context) (out Undone, err error) {
	out = Undone{CLI: l.CLI.Name, Agents: []hub.AgentID{}}
	if l.client, err = l.Client(); err != nil {
		return out, err
	}
	l.clean(ctx)
	for _, i := range Identities(l.Home) {
		if i.CLI != l.CLI.Name {
			continue
		}
		if !i.Connected && process.Alive(i.Process) {
			return out, hub.Errorf(hub.CodeConflict, "launch.Undo", "%s is still running as %s", l.CLI.Title, i.Agent).WithHint("quit it first")
		}
		if err := l.forget(ctx, i); err != nil {
			return out, err
		}
		out.Files = out.Files || i.Connected
		out.Agents = append(out.Agents, i.Agent)
	}
	return out, nil
}

// forget switches the wakes of an identity off, takes out its connection if launch made
// one, and removes its record.
func (l *Launch) forget(ctx context.Context, i Identity) error {
	if _, err := rpc.Call(ctx, l.client, api.AllowWake, api.WakeAllowParams{Agent: i.Agent, Allow: false}); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if i.Connected {
		if err := l.disconnect(ctx, i.Agent); err != nil {
			return err
		}
	}
	if err := os.Remove(identityFile(l.Home, i.Agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
