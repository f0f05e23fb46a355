package keeper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A Session is a conversation with a kept agent that windows can show: the kept one, which mail
// prompts, too, or a further one, which only windows prompt.
type Session struct {
	ID      string      `json:"id"` // the name of the agent for the kept one
	Agent   hub.AgentID `json:"agent"`
	Dir     string      `json:"dir"`
	Title   string      `json:"title,omitempty"`
	Updated hub.Time    `json:"updated,omitzero"`
	Last    int64       `json:"last"` // the number of its last event
}

// sessionsKey is the key of the further sessions of an agent in the store.
func sessionsKey(agent hub.AgentID) string { return "kept-sessions/" + string(agent) }

// maxSides is the number of further sessions of an agent that are stored; the one that was used
// least recently is dropped. As many that were never prompted are in memory.
const maxSides = 100

// windowsOf returns the windows of an agent whose keys are valid.
func windowsOf(r hub.Reader, agent hub.AgentID, now hub.Time) ([]Window, error) {
	keys, err := r.Keys(agent)
	var out []Window
	for _, k := range keys {
		if k.Window() && k.Live(now) {
			out = append(out, Window{strings.TrimPrefix(k.Label, hub.WindowKeyLabel), k.Hint, k.CreatedAt})
		}
	}
	return out, err
}

// Keeps reports CodeNotFound unless the hub keeps an agent.
func (k *Keeper) Keeps(ctx context.Context, name hub.AgentID) error {
	_, err := k.find(ctx, "keeper.Keeps", name)
	return err
}

// feedOf returns the feed of a session; "" is the kept one. The caller holds mu.
func (k *Keeper) feedOf(name hub.AgentID, session string) *feed {
	file := "kept.jsonl"
	if _, id, further := strings.Cut(session, "/"); further {
		file = id + ".jsonl"
	}
	path := filepath.Join(k.o.Home, "kept", string(name), file)
	if k.feeds[path] == nil {
		kept := path
		if k.o.Home == "" {
			kept = "" // in memory alone
		}
		k.feeds[path] = openFeed(kept, func(err error) { k.o.Log.Warn("history of a session", "agent", name, "err", err) })
	}
	return k.feeds[path]
}

// deskOf returns the questions of an agent. The caller holds mu.
func (k *Keeper) deskOf(name hub.AgentID) *desk {
	if k.desks[name] == nil {
		k.desks[name] = &desk{last: &k.questions}
	}
	return k.desks[name]
}

// releaseFeeds closes the files of all feeds.
func (k *Keeper) releaseFeeds() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.feeds {
		f.release()
	}
}

// forgetSessions removes the history of an agent and its further sessions.
func (k *Keeper) forgetSessions(ctx context.Context, name hub.AgentID) {
	dir := filepath.Join(k.o.Home, "kept", string(name))
	k.mu.Lock()
	for path, f := range k.feeds {
		if filepath.Dir(path) == dir {
			f.forget()
			delete(k.feeds, path)
		}
	}
	for id, s := range k.sides {
		if s.Agent == name {
			delete(k.sides, id)
		}
	}
	k.mu.Unlock()

	err := k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		return hub.WriteMeta(tx, sessionsKey(name), []sideRecord(nil))
	})
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		k.o.Log.Warn("the history of a kept agent is left", "agent", name, "err", err)
	}
}

// SessionsOf returns the sessions of a kept agent, or those of all that the caller operates if
// no agent is named: the kept ones first, then the further ones, the oldest first.
func (k *Keeper) SessionsOf(ctx context.Context, actor hub.Caller, name hub.AgentID) ([]Session, error) {
	const op = "keeper.Sessions"
	if shown, _ := actor.Window(); name == "" {
		name = shown
	}
	if err := actor.OperatorOf(op, name); err != nil {
		return nil, err
	}
	records, err := hub.Read(ctx, k.store, readAll)
	if err != nil {
		return nil, fmt.Errorf("keeper: list sessions: %w", err)
	}

	kept, further := []Session{}, []Session{}
	for _, r := range records {
		if (name != "" && r.Agent != name) || !k.here(r) {
			continue
		}
		k.mu.Lock()
		history := k.feedOf(r.Agent, "")
		k.mu.Unlock()
		kept = append(kept, Session{ID: string(r.Agent), Agent: r.Agent, Dir: r.Dir, Title: string(r.Agent), Updated: r.Since, Last: history.end()})
		if err := k.readSides(ctx, r.Agent); err != nil {
			return nil, err
		}
	}

	k.mu.Lock()
	for _, s := range k.sides {
		if slices.ContainsFunc(kept, func(one Session) bool { return one.Agent == s.Agent }) {
			further = append(further, s.describe())
		}
	}
	k.mu.Unlock()
	slices.SortFunc(further, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return append(kept, further...), nil
}

// sessionOf returns a further session of an agent that the caller operates, nil for the kept
// one.
func (k *Keeper) sessionOf(ctx context.Context, op string, actor hub.Caller, name hub.AgentID, session string) (*side, error) {
	if err := actor.OperatorOf(op, name); err != nil {
		return nil, err
	}
	if _, err := k.own(ctx, op, name); err != nil {
		return nil, err
	}
	if session == "" || session == string(name) {
		return nil, nil
	}
	if err := k.readSides(ctx, name); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sides[session]
	if s == nil || s.Agent != name {
		return nil, hub.Errorf(hub.CodeNotFound, op, "%s has no session %.100q", name, session)
	}
	return s, nil
}

// OpenSession begins a further session of a kept agent in a folder, with MCP servers in the form
// of version 2 of ACP. Its process starts with its first prompt.
func (k *Keeper) OpenSession(ctx context.Context, actor hub.Caller, name hub.AgentID, dir string, servers json.RawMessage) (Session, error) {
	const op = "keeper.OpenSession"
	if err := actor.OperatorOf(op, name); err != nil {
		return Session{}, err
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return Session{}, err
	}

	dir, err = k.checkFurther(ctx, op, dir, servers)
	if err != nil {
		return Session{}, err
	}

	id := string(name) + "/" + string(hub.NewIDs(k.o.Clock).Next())
	s := newSide(a.Keeper, sideRecord{ID: id, Agent: name, Dir: dir, Servers: servers, Updated: k.o.Clock.Now()})
	k.mu.Lock()
	k.sides[id] = s
	k.dropUnused(name)
	k.mu.Unlock()
	return s.describe(), nil
}

// ReopenSession opens a session again: the kept one, whose folder and servers stay, or a further
// one, which gets the folder and the MCP servers with its next prompt.
func (k *Keeper) ReopenSession(ctx context.Context, actor hub.Caller, name hub.AgentID, session, dir string, servers json.RawMessage) (Session, error) {
	const op = "keeper.OpenSession"
	s, err := k.sessionOf(ctx, op, actor, name, session)
	if err != nil {
		return Session{}, err
	}
	if s == nil {
		r, err := k.own(ctx, op, name)
		k.mu.Lock()
		history := k.feedOf(name, "")
		k.mu.Unlock()
		return Session{ID: string(name), Agent: name, Dir: r.Dir, Title: string(name), Updated: r.Since, Last: history.end()}, err
	}
	if dir, err = k.checkFurther(ctx, op, dir, servers); err != nil {
		return Session{}, err
	}
	if dir != s.Dir || string(servers) != string(s.Servers) {
		s.halt()
		s.mu.Lock()
		s.Dir, s.Servers = dir, servers
		s.mu.Unlock()
	}

	// The servers are connected when the session is opened, not with its next prompt.
	var connected []acpv2.MCPServer
	if json.Unmarshal(servers, &connected) == nil && len(connected) > 0 && s.stored() {
		a, err := k.serving(ctx, op, name)
		if err != nil {
			return Session{}, err
		}
		if err := s.give(a, prompt{}); err != nil {
			return Session{}, err
		}
	}
	return s.describe(), nil
}

// checkFurther refuses a folder or MCP servers that a further session cannot have, and returns
// the real path of the folder.
func (k *Keeper) checkFurther(ctx context.Context, op, dir string, servers json.RawMessage) (string, error) {
	// A further session works elsewhere: the folder of a kept agent has one session.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	info, err := os.Stat(dir)
	switch {
	case !filepath.IsAbs(dir):
		return "", hub.Errorf(hub.CodeInvalid, op, "the folder must be an absolute path, got %.200q", dir)
	case err != nil || !info.IsDir():
		return "", hub.Errorf(hub.CodeInvalid, op, "%.200s is not a folder on the hub's machine", dir)
	case k.private(dir):
		return "", hub.Errorf(hub.CodePolicy, op, "%s contains files of the hub's home, which has its keys", dir)
	}
	err = k.store.View(ctx, func(r hub.Reader) error {
		names, err := hub.ReadMeta[[]hub.AgentID](r, listKey)
		if err != nil {
			return err
		}
		return apart(r, op, names, Definition{Dir: dir, Machine: k.o.Machine})
	})
	if err == nil && len(servers) > 0 && json.Unmarshal(servers, new([]acpv2.MCPServer)) != nil {
		err = hub.Errorf(hub.CodeInvalid, op, "mcp_servers are not those of ACP")
	}
	return dir, err
}

// dropUnused drops the oldest session of an agent that was never prompted if there are too many.
// The caller holds mu.
func (k *Keeper) dropUnused(name hub.AgentID) {
	var unused []string
	for id, s := range k.sides {
		if s.Agent == name && !s.stored() {
			unused = append(unused, id)
		}
	}
	if len(unused) > maxSides {
		delete(k.sides, slices.Min(unused))
	}
}

// readSides reads the stored further sessions of an agent that are not in memory.
func (k *Keeper) readSides(ctx context.Context, name hub.AgentID) error {
	stored, err := hub.Read(ctx, k.store, func(r hub.Reader) ([]sideRecord, error) { return hub.ReadMeta[[]sideRecord](r, sessionsKey(name)) })
	if err != nil {
		return fmt.Errorf("keeper: read the sessions of %s: %w", name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range stored {
		if k.sides[r.ID] == nil {
			k.sides[r.ID] = newSide(k, r)
			k.sides[r.ID].isStored = true
		}
	}
	return nil
}

// Events returns the events of a session after a number. If there are none it waits for one, for
// at most wait.
func (k *Keeper) Events(ctx context.Context, actor hub.Caller, name hub.AgentID, session string, after int64, wait time.Duration) ([]Event, error) {
	s, err := k.sessionOf(ctx, "keeper.Events", actor, name, session)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	history := k.feedOf(name, session)
	if s == nil {
		history = k.feedOf(name, "")
	}
	stopping := k.ctx
	k.mu.Unlock()
	if stopping == nil {
		stopping = ctx
	}

	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		got, more := history.after(after)
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-more:
		case <-timeout.C:
			return []Event{}, nil
		case <-stopping.Done():
			return []Event{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// PromptSession gives a session a prompt and returns the id of its turn, whose events follow. A
// turn that runs ends first.
func (k *Keeper) PromptSession(ctx context.Context, actor hub.Caller, name hub.AgentID, session, text string) (turn string, err error) {
	const op = "keeper.PromptSession"
	s, err := k.sessionOf(ctx, op, actor, name, session)
	if err != nil {
		return "", err
	}
	if s == nil {
		return k.Prompt(ctx, actor, name, text)
	}
	if err := checkPrompt(op, text); err != nil {
		return "", err
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return "", err
	}
	if reason := k.halted(ctx, name); reason != "" {
		return "", hub.Errorf(hub.CodeRateLimited, op, "%s", reason)
	}

	// The journal has the prompt before the agent gets it.
	_, window := actor.Window()
	next := prompt{Text: text, Turn: string(hub.NewIDs(k.o.Clock).Next()), By: window}
	err = k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := s.save(tx, firstLine(text)); err != nil {
			return err
		}
		_, err := tx.Append(actor.Entry(k.o.Clock.Now(), actions.AgentPrompted, "kept/"+string(name), map[string]any{"session": s.ID}))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("keeper: prompt: %w", err)
	}
	k.o.Bus.Publish(hub.TopicJournal)
	return next.Turn, s.give(a, next)
}

// CancelTurn cancels a turn of a session that runs or waits. A turn that is over is left alone.
func (k *Keeper) CancelTurn(ctx context.Context, actor hub.Caller, name hub.AgentID, session, turn string) error {
	const op = "keeper.CancelTurn"
	s, err := k.sessionOf(ctx, op, actor, name, session)
	if err != nil {
		return err
	}
	if s != nil {
		s.cancel(turn)
		return nil
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return err
	}

	// A prompt that waits is dropped, in the journal as every change of the prompts.
	dropped := false
	err = k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		r, err := hub.ReadMeta[record](tx, recordKey(name))
		if err != nil {
			return err
		}
		before := len(r.Prompts)
		r.Prompts = slices.DeleteFunc(r.Prompts, func(p prompt) bool { return p.Turn == turn })
		if dropped = len(r.Prompts) < before; !dropped {
			return nil
		}
		return hub.WriteMeta(tx, recordKey(name), r)
	})
	if err != nil {
		return fmt.Errorf("keeper: cancel: %w", err)
	}
	if dropped {
		a.feed.add(Event{Kind: EventEnd, Turn: turn, Stop: string(acpv2.StopReasonCancelled)})
		return nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.unwanted = turn
	if a.turn == turn && a.trying != nil {
		a.trying.cancel(errCancelled)
	}
	return nil
}

// CloseSession ends the process of a further session, which its next prompt starts again. The
// process of the kept session stays: mail needs it.
func (k *Keeper) CloseSession(ctx context.Context, actor hub.Caller, name hub.AgentID, session string) error {
	s, err := k.sessionOf(ctx, "keeper.CloseSession", actor, name, session)
	if err != nil || s == nil {
		return err
	}
	s.halt()
	return nil
}

// endSides ends the processes of the further sessions of an agent.
func (k *Keeper) endSides(name hub.AgentID) {
	for _, s := range k.sidesOf(name) {
		s.halt()
	}
}

// sidesOf returns the further sessions of an agent that are in memory.
func (k *Keeper) sidesOf(name hub.AgentID) (all []*side) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sides {
		if s.Agent == name {
			all = append(all, s)
		}
	}
	return all
}
