// Package window shows kept agents of a hub to programs that speak the Agent Client Protocol,
// such as editors. To such a program it is an agent on standard input and output; the sessions
// are those of the kept agent, which the hub owns.
//
// session/list has the session that the hub keeps, whose id is the name of the agent, and the
// further sessions that windows opened. session/new in the folder of the agent opens the kept
// session and shows what happens from then on; session/load repeats the history first. session/new
// in another folder begins a further session. Turns of mail and
// of other windows are shown as they happen. A permission request goes to every window that waits
// for a turn of the session; the first answer counts.
package window

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// Options are the options of a window.
type Options struct {
	Agent   hub.AgentID // "" for all kept agents that the key is good for
	Version string      // of this program
	Log     func(error) // gets problems after which the window goes on; may be nil
}

// A window is one connection of a program.
type window struct {
	Options
	hub *rpc.Client

	// life ends with the connection, and all followers with it. end ends the connection with an
	// error.
	life context.Context
	end  context.CancelCauseFunc

	mu    sync.Mutex // guards views
	views map[acp.SessionID]*view
}

// Serve shows agents of a hub to the program that writes to r and reads from w, until that ends
// the connection or ctx ends. client has the key of the window, or the operator's.
func Serve(ctx context.Context, client *rpc.Client, o Options, r io.Reader, w io.Writer) error {
	if o.Log == nil {
		o.Log = func(error) {}
	}
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	win := &window{Options: o, hub: client, life: life, end: end, views: map[acp.SessionID]*view{}}
	shown, err := rpc.Call(ctx, client, api.ListShown, api.KeptSessionsParams{Agent: o.Agent})
	if err != nil {
		return err
	}
	if len(shown.Sessions) == 0 {
		return notKept(o.Agent)
	}

	title := "Parley"
	if o.Agent != "" {
		title = string(o.Agent)
	}
	err = acp.Serve(life, &acp.Agent{
		Name: "parley", Title: title, Version: o.Version,
		Prompt: win.prompt, NewSession: win.newSession, LoadSession: win.loadSession, ListSessions: win.listSessions, CloseSession: win.closeSession,
		Opened: win.opened,
	}, r, w)
	end(nil)
	win.leave()
	return err
}

// notKept returns the error for an agent that the hub does not keep.
func notKept(agent hub.AgentID) error {
	if agent == "" {
		return hub.Errorf(hub.CodeNotFound, "window.Serve", "this hub keeps no agents").WithHint("parley agent keep NAME --cli CLI --dir FOLDER")
	}
	return hub.Errorf(hub.CodeNotFound, "window.Serve", "this hub keeps no agent named %q", agent).WithHint("parley agent keep %s --cli CLI --dir FOLDER", agent)
}

// leave ends the processes of the further sessions that this window opened.
func (w *window) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.views {
		w.release(context.Background(), v)
	}
}

// release ends the process of a further session.
func (w *window) release(ctx context.Context, v *view) {
	if !v.further() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := rpc.Call(ctx, w.hub, api.CloseSession, api.SessionParams{Agent: v.agent, Session: v.id}); err != nil {
		w.Log(err)
	}
}

// listSessions returns the sessions of the agents in a folder, or all.
func (w *window) listSessions(ctx context.Context, dir, cursor string) ([]acp.SessionInfo, string, error) {
	if dir != "" && !filepath.IsAbs(dir) {
		return nil, "", invalid("the folder %q must be an absolute path", dir)
	}
	if cursor != "" {
		return nil, "", invalid("the list has one page")
	}
	got, err := rpc.Call(ctx, w.hub, api.ListShown, api.KeptSessionsParams{Agent: w.Agent})
	if err != nil {
		return nil, "", wire(err)
	}
	var page []acp.SessionInfo
	for _, s := range got.Sessions {
		if dir != "" && !same(dir, s.Dir) {
			continue
		}
		info := acp.SessionInfo{ID: acp.SessionID(s.ID), Dir: s.Dir, Title: s.Title}
		if !s.Updated.IsZero() {
			info.UpdatedAt = s.Updated.UTC().Format(time.RFC3339)
		}
		page = append(page, info)
	}
	return page, "", nil
}

// same reports whether two paths name one folder.
func same(a, b string) bool {
	real := func(path string) string {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		return filepath.Clean(path)
	}
	return real(a) == real(b)
}

// newSession opens the kept session in the folder of the agent, and a further session elsewhere.
func (w *window) newSession(ctx context.Context, s *acp.AgentSession) error {
	got, err := rpc.Call(ctx, w.hub, api.ListShown, api.KeptSessionsParams{Agent: w.Agent})
	if err != nil {
		return wire(err)
	}
	kept := slices.DeleteFunc(got.Sessions, func(one keeper.Session) bool { return one.ID != string(one.Agent) })
	at := slices.IndexFunc(kept, func(one keeper.Session) bool { return same(one.Dir, s.Dir) })
	if at >= 0 && w.view(acp.SessionID(kept[at].ID)) == nil {
		s.ID = acp.SessionID(kept[at].ID)
		return w.show(ctx, s, kept[at], false)
	}

	// Elsewhere the window must be of one agent.
	switch {
	case at >= 0:
		return invalid("the session of %s is already open here; a further session needs another folder", kept[at].Agent)
	case len(kept) == 0:
		return wire(notKept(w.Agent))
	case len(kept) > 1:
		return invalid("no agent is kept in %s: load one of the sessions of session/list, or start parley acp serve with the name of an agent", s.Dir)
	}
	servers, err := json.Marshal(s.MCPServers)
	if err != nil {
		return err
	}
	opened, err := rpc.Call(ctx, w.hub, api.OpenSession, api.OpenSessionParams{Agent: kept[0].Agent, Dir: s.Dir, Servers: servers})
	if err != nil {
		return wire(err)
	}
	s.ID = acp.SessionID(opened.ID)
	v := w.newView(s, opened)
	v.after = opened.Last
	w.add(v)
	return nil
}

// loadSession opens a session of the list again and repeats its messages if replay is set.
func (w *window) loadSession(ctx context.Context, s *acp.AgentSession, replay bool) error {
	agent, _, _ := strings.Cut(string(s.ID), "/")
	if !hub.AgentID(agent).Valid() || (w.Agent != "" && agent != string(w.Agent)) {
		return unknownSession(s.ID)
	}
	servers, err := json.Marshal(s.MCPServers)
	if err != nil {
		return err
	}
	opened, err := rpc.Call(ctx, w.hub, api.OpenSession, api.OpenSessionParams{Agent: hub.AgentID(agent), Session: string(s.ID), Dir: s.Dir, Servers: servers})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return unknownSession(s.ID)
	}
	if err != nil {
		return wire(err)
	}

	return w.show(ctx, s, opened, replay)
}

// show makes a view of a session that was opened. Its history is read up to now, for the open
// questions, and repeated before the answer if replay is set; what follows is shown after it.
func (w *window) show(ctx context.Context, s *acp.AgentSession, opened keeper.Session, replay bool) error {
	v := w.newView(s, opened)
	err := v.replay(ctx, opened.Last, replay)
	v.after = opened.Last
	w.add(v)
	return wire(err)
}

func (w *window) newView(s *acp.AgentSession, opened keeper.Session) *view {
	v := &view{window: w, agent: opened.Agent, id: opened.ID, session: s, mine: map[string]chan keeper.Event{}, asks: map[int]*ask{}}
	v.life, v.close = context.WithCancel(w.life)
	return v
}

// opened follows the kept session as soon as the program knows it. A further session is followed
// from its first prompt on.
func (w *window) opened(s *acp.AgentSession) {
	if v := w.view(s.ID); v != nil && v.session == s && !v.further() {
		v.follow()
	}
}

// closeSession stops showing a session. The process of a further session ends; the kept session
// goes on.
func (w *window) closeSession(ctx context.Context, s *acp.AgentSession) error {
	v := w.view(s.ID)
	if v == nil {
		return nil
	}
	w.mu.Lock()
	delete(w.views, s.ID)
	w.mu.Unlock()
	v.close()
	w.release(ctx, v)
	return nil
}

// view returns the view of a session, nil if it is not open.
func (w *window) view(id acp.SessionID) *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.views[id]
}

// add makes v the view of its session, in place of an earlier one.
func (w *window) add(v *view) {
	w.mu.Lock()
	before := w.views[v.session.ID]
	w.views[v.session.ID] = v
	w.mu.Unlock()
	if before != nil {
		before.close()
	}
}

// prompt gives the hub a prompt and returns when its turn is over.
func (w *window) prompt(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
	v := w.view(t.ID)
	if v == nil {
		return "", unknownSession(t.ID)
	}
	v.follow()
	turn, ended, err := v.begin(promptText(t.Prompt))
	if hub.CodeOf(err) == hub.CodeUnauthenticated {
		v.fail(err)
	}
	if err != nil {
		return "", wire(err)
	}

	// A turn that was cancelled ends soon, too: its last updates come first.
	var e keeper.Event
	select {
	case e = <-ended:
	case <-v.life.Done():
		return "", errors.New("the window does not show the session any more")
	case <-ctx.Done():
		if e, err = v.cancel(turn, ended); err != nil {
			return "", wire(err)
		}
	}
	if e.Problem != "" {
		return "", errors.New(e.Problem)
	}
	if e.Stop == "" {
		return acpv2.StopReasonEndTurn, nil
	}
	return acp.StopReason(e.Stop), nil
}

// promptText returns a prompt as text: links and embedded resources become references.
func promptText(blocks []acpv2.ContentBlock) string {
	var all []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			all = append(all, b.Text.Text)
		case b.ResourceLink != nil:
			all = append(all, "["+b.ResourceLink.Name+"]("+b.ResourceLink.URI+")")
		default:
			all = append(all, "["+b.Tag()+"]")
		}
	}
	return strings.Join(all, "\n")
}

// invalid returns the error for params that cannot be used.
func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: hub.Errorf(hub.CodeInvalid, "window", format, args...).Error()}
}

// unknownSession returns the error for a session that does not exist.
func unknownSession(id acp.SessionID) error {
	return &jsonrpc.Error{Code: int(acpv1.ErrorCodeResourceNotFound), Message: "no session with id " + string(id)}
}

// wire returns an error of the hub for the program: a wrong parameter as such, every other with
// its text.
func wire(err error) error {
	if err == nil || errors.As(err, new(*jsonrpc.Error)) {
		return err
	}
	code := jsonrpc.CodeInternal
	switch hub.CodeOf(err) {
	case hub.CodeInvalid, hub.CodePolicy, hub.CodeConflict:
		code = jsonrpc.CodeInvalidParams
	case hub.CodeUnauthenticated, hub.CodeDenied:
		code = int(acpv1.ErrorCodeAuthenticationRequired)
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}
