package window

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A view shows one session. One goroutine follows its events and sends them in their order.
type view struct {
	*window
	agent   hub.AgentID
	id      string // of the session on the hub
	session *acp.AgentSession

	life  context.Context // ends when the session is not shown any more
	close context.CancelFunc
	once  sync.Once // starts the goroutine

	// mu is held while an event is handled and while a prompt is given, so that the turn of a
	// prompt is known before its events are handled.
	mu    sync.Mutex // guards what follows
	after int64      // the number of the last event that was handled
	mine  map[string]chan keeper.Event
	asks  map[int]*ask   // the open questions
	quiet bool           // a turn of this window was cancelled: nothing follows it until the next prompt
	held  []keeper.Event // that came while quiet was set
}

// An ask is an open question.
type ask struct {
	keeper.Ask
	withdraw context.CancelFunc // ends the request to the program; nil if there is none
}

// further reports whether the session is not the kept one.
func (v *view) further() bool { return v.id != string(v.agent) }

// follow starts to send the events of the session, once.
func (v *view) follow() { v.once.Do(func() { go v.run() }) }

// run sends events until the session is not shown any more or the hub refuses the window.
func (v *view) run() {
	v.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(v.asks)) {
		if len(v.mine) == 0 {
			v.sayAsk(v.asks[id])
		}
	}
	v.mu.Unlock()
	for v.life.Err() == nil {
		v.mu.Lock()
		after := v.after
		v.mu.Unlock()
		got, err := rpc.Call(v.life, v.hub, api.FollowSession, api.SessionEventsParams{Agent: v.agent, Session: v.id, After: after, WaitS: 30})
		switch {
		case v.life.Err() != nil:
			return
		case err != nil && hub.CodeOf(err) == hub.CodeDegraded: // the hub restarts
			v.Log(err)
			v.withdrawAll()
			v.pause()
			continue
		case err != nil:
			v.fail(err)
			return
		}
		for _, e := range got.Events {
			v.handle(e)
		}
	}
}

// pause waits before the hub is asked again.
func (v *view) pause() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.life.Done():
	}
}

// withdrawAll withdraws the open questions: a hub that restarts asks again, under other numbers.
func (v *view) withdrawAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, one := range v.asks {
		if one.withdraw != nil {
			one.withdraw()
		}
		delete(v.asks, id)
	}
}

// fail ends the turns of this window with an error. A key that is not valid any more ends the
// window with it, after words in the session.
func (v *view) fail(err error) {
	v.Log(err)
	if hub.CodeOf(err) == hub.CodeUnauthenticated {
		told := rpc.Describe(err, rpc.Commands)
		v.say(strings.TrimSuffix(told.Message+"; "+told.Hint, "; "))
		defer v.end(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for turn, ended := range v.mine {
		ended <- keeper.Event{Kind: keeper.EventEnd, Turn: turn, Problem: err.Error()}
		delete(v.mine, turn)
	}
}

// replay reads the events up to last, for the questions that are still open. It sends the prompts
// and updates if show is set.
func (v *view) replay(ctx context.Context, last int64, show bool) error {
	var after int64
	for after < last {
		got, err := rpc.Call(ctx, v.hub, api.FollowSession, api.SessionEventsParams{Agent: v.agent, Session: v.id, After: after})
		if err != nil || len(got.Events) == 0 {
			return err
		}
		for _, e := range got.Events {
			after = e.N
			switch {
			case e.N > last:
			case e.Kind == keeper.EventAsk:
				v.asks[e.Ask.ID] = &ask{Ask: *e.Ask}
			case e.Kind == keeper.EventDecided:
				delete(v.asks, e.Question)
			case show:
				v.show(ctx, e)
			}
		}
	}
	return nil
}

// handle takes one event of the session.
func (v *view) handle(e keeper.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.after = e.N
	ended := v.mine[e.Turn]
	switch e.Kind {
	case keeper.EventPrompt, keeper.EventUpdate:
		isMine := ended != nil
		switch {
		case v.quiet && !isMine:
			v.held = append(v.held, e)
		case e.Kind == keeper.EventUpdate || !isMine: // the program shows its own prompts itself
			v.show(v.life, e)
		}

	case keeper.EventAsk:
		one := &ask{Ask: *e.Ask}
		v.asks[e.Ask.ID] = one
		if len(v.mine) > 0 {
			v.request(one)
		} else if !v.quiet {
			v.sayAsk(one)
		}
	case keeper.EventDecided:
		if one := v.asks[e.Question]; one != nil && one.withdraw != nil {
			one.withdraw()
		}
		delete(v.asks, e.Question)

	case keeper.EventEnd:
		if ended != nil {
			delete(v.mine, e.Turn)
			v.quiet = acp.StopReason(e.Stop) == "cancelled"
			ended <- e
		} else if e.Problem != "" && !v.quiet {
			v.say("The turn failed: " + e.Problem)
		}
	}
}

// show sends a prompt or an update to the program. One that version 1 of the protocol does not
// have is left out.
func (v *view) show(ctx context.Context, e keeper.Event) {
	var u acpv1.SessionUpdate
	switch e.Kind {
	case keeper.EventPrompt:
		u.UserMessageChunk = &acpv1.ContentChunk{Content: acpv1.ContentBlock{Text: &acpv1.TextContent{Text: e.Text}}}
	case keeper.EventUpdate:
		if err := u.UnmarshalJSON(e.Update); err != nil {
			v.Log(err)
			return
		}
		withoutTerminals(&u)
	default:
		return
	}
	if err := v.session.UpdateV1(ctx, u); err != nil && ctx.Err() == nil {
		v.Log(err)
	}
}

// withoutTerminals removes terminals from a tool call: they are the hub's, and the program does
// not have them.
func withoutTerminals(u *acpv1.SessionUpdate) {
	switch {
	case u.ToolCall != nil:
		u.ToolCall.Content = withoutTerminal(u.ToolCall.Content)
	case u.ToolCallUpdate != nil:
		u.ToolCallUpdate.Content = withoutTerminal(u.ToolCallUpdate.Content)
	}
}

func withoutTerminal(all acpv1.Optional[[]acpv1.ToolCallContent]) acpv1.Optional[[]acpv1.ToolCallContent] {
	isTerminal := func(c acpv1.ToolCallContent) bool { return c.Terminal != nil }
	if !slices.ContainsFunc(all.Or(nil), isTerminal) {
		return all
	}
	return acpv1.Set(slices.DeleteFunc(slices.Clone(all.Or(nil)), isTerminal))
}

// say shows words of the window itself.
func (v *view) say(text string) {
	u := acpv1.SessionUpdate{AgentMessageChunk: &acpv1.ContentChunk{Content: acpv1.ContentBlock{Text: &acpv1.TextContent{Text: "[parley] " + text + "\n"}}}}
	if err := v.session.UpdateV1(v.life, u); err != nil && v.life.Err() == nil {
		v.Log(err)
	}
}

// sayAsk names a question that no turn of this window waits for.
func (v *view) sayAsk(one *ask) {
	v.say(fmt.Sprintf("%s asks: %s\nIt waits for an answer: parley approve q%d, or deny q%[3]d. A prompt shows the question here, too.", v.agent, one.Text, one.ID))
}

// begin gives the hub a prompt and returns its turn and the channel that gets the end of it.
// A prompt that is cancelled at once is given, too: the hub then knows the turn that is cancelled.
func (v *view) begin(text string) (turn string, ended <-chan keeper.Event, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	got, err := rpc.Call(v.life, v.hub, api.PromptSession, api.SessionPromptParams{Agent: v.agent, Session: v.id, Text: text})
	if err != nil {
		return "", nil, err
	}
	end := make(chan keeper.Event, 1)
	v.mine[got.Turn] = end

	// Events and questions of other turns that waited are shown now.
	v.quiet = false
	for _, e := range v.held {
		v.show(v.life, e)
	}
	v.held = nil
	for _, one := range v.asks {
		v.request(one)
	}
	return got.Turn, end, nil
}

// cancelTime is how long the end of a cancelled turn is awaited. The hub gives the agent less.
const cancelTime = 30 * time.Second

// cancel cancels a turn and returns its end.
func (v *view) cancel(turn string, ended <-chan keeper.Event) (keeper.Event, error) {
	ctx, cancel := context.WithTimeout(v.life, cancelTime)
	defer cancel()
	if _, err := rpc.Call(ctx, v.hub, api.CancelTurn, api.SessionParams{Agent: v.agent, Session: v.id, Turn: turn}); err != nil {
		return keeper.Event{}, err
	}
	select {
	case e := <-ended:
		return e, nil
	case <-ctx.Done():
		return keeper.Event{}, context.Cause(ctx)
	}
}

// request asks the program about a question, unless that is under way. The caller holds mu.
func (v *view) request(one *ask) {
	if one.withdraw != nil {
		return
	}
	ctx, cancel := context.WithCancel(v.life)
	one.withdraw = cancel
	go func() {
		defer cancel()
		if err := v.answer(ctx, one.Ask); err != nil && ctx.Err() == nil {
			v.Log(err)
		}
	}()
}

// answer asks the program about a question and gives the hub the answer. A question that was
// decided elsewhere meanwhile is left alone.
func (v *view) answer(ctx context.Context, q keeper.Ask) error {
	r := &acpv1.RequestPermissionRequest{}
	if len(q.Request) == 0 || r.UnmarshalJSON(q.Request) != nil { // a question about a file that another agent changes
		*r = acpv1.RequestPermissionRequest{ToolCall: acpv1.ToolCallUpdate{ToolCallID: acpv1.ToolCallID(fmt.Sprintf("question-%d", q.ID)), Title: acpv1.Set(q.Text)}}
		for _, c := range q.Choices {
			r.Options = append(r.Options, acpv1.PermissionOption{OptionID: acpv1.PermissionOptionID(c.ID), Name: c.Name, Kind: acpv1.PermissionOptionKind(c.Kind)})
		}
	}

	r.ToolCall.Content = withoutTerminal(r.ToolCall.Content)

	// Only a selected option is consent. An error, and every other answer, denies.
	choice := ""
	outcome, err := v.session.AskPermissionV1(ctx, r)
	switch {
	case ctx.Err() != nil:
		return nil // decided elsewhere, or the program is gone
	case err != nil && !errors.As(err, new(*jsonrpc.Error)):
		return err
	case err == nil && outcome.Selected != nil:
		choice = string(outcome.Selected.OptionID)
	}
	_, err = rpc.Call(ctx, v.hub, api.AnswerAgent, api.AnswerParams{Agent: v.agent, Question: q.ID, Choice: choice})
	if hub.CodeOf(err) == hub.CodeInvalid { // an option that was not offered
		_, err = rpc.Call(ctx, v.hub, api.AnswerAgent, api.AnswerParams{Agent: v.agent, Question: q.ID})
	}
	if code := hub.CodeOf(err); code == hub.CodeConflict || code == hub.CodeNotFound {
		return nil // another window was first
	}
	return err
}
