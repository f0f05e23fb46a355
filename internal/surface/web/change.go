package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A form is the input of a change.
type form struct {
	*visit
	url.Values
}

func (f form) agent() hub.AgentID { return hub.AgentID(f.Get("agent")) }

// perform calls an operation as the person who is signed in.
func perform[S, P, R any](ctx context.Context, v *visit, o rpc.Operation[S, P, R], params P) (R, error) {
	return rpc.Perform(ctx, v.Operations, v.caller, o, params)
}

// changes are everything that a page lets the operator do, each with the sentence
// that tells what it led to.
var changes = map[string]func(context.Context, form) (string, error){
	"approve": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.Approve, api.IDParams{ID: hub.EnvelopeID(f.Get("id"))})
		if len(got.To) == 0 { // an operation of a team
			return fmt.Sprintf("Approved for %s.", got.From), err
		}
		return fmt.Sprintf("Approved for %s, to %s.", got.From, joinNames(got.To)), err
	},
	"deny": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.Deny, api.IDParams{ID: hub.EnvelopeID(f.Get("id")), Reason: f.Get("reason")})
		return fmt.Sprintf("Denied: %s is notified.", got.From), err
	},
	"answer": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.Respond, api.SendParams{ReplyTo: hub.EnvelopeID(f.Get("id")), Text: f.Get("text"), IdempotencyKey: f.Get("once")})
		return fmt.Sprintf("Answer %s sent.", got.ShortID), err
	},
	"done": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.Inbox, api.InboxParams{Peek: true, Limit: 1, Ack: api.AckSet{IDs: []hub.EnvelopeID{hub.EnvelopeID(f.Get("id"))}}})
		return "Marked as read.", err
	},
	"send": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.Send, api.SendParams{
			To: api.Recipients{f.agent()}, Text: f.Get("text"), ThreadID: f.Get("thread"), Priority: hub.Priority(f.Get("priority")), IdempotencyKey: f.Get("once"),
		})
		reach := ""
		for _, d := range got.Deliveries {
			if d.Channel == hub.ChannelInbox {
				reach = ": " + d.Reason
			}
		}
		return fmt.Sprintf("Sent as %s%s.", got.ShortID, reach), err
	},
	"pause": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.PauseAgent, api.AgentParams{ID: f.agent()})
		return fmt.Sprintf("%s is paused: it can read but not send.", f.agent()), err
	},
	"resume": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.ResumeAgent, api.AgentParams{ID: f.agent()})
		return fmt.Sprintf("%s can send again.", f.agent()), err
	},
	"reset": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.ResetAgent, api.AgentParams{ID: f.agent()})
		return fmt.Sprintf("The suspension of %s is lifted.", f.agent()), err
	},
	"wake": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.TestWake, api.WakeTestParams{Agent: f.agent(), Seconds: wakeSeconds})
		return wakeText(f.agent(), got), err
	},
	"forget": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.Forget, api.IDParams{ID: hub.EnvelopeID(f.Get("id"))})
		return "The text is deleted from this hub. Backups, exports and agents that read it may still have it.", err
	},
	"release": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.Handoff, api.HandoffParams{Action: "release", ID: hub.HandoffID(f.Get("id")), Detail: f.Get("reason")})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s no longer has the task.", got.Report.To), nil
	},
	"hand-on":      handOn,
	"release-file": releaseFile,
	"stop-now":     stopNow,
	"continue":     continueTask,

	"retry-landing":  retryLanding,
	"cancel-landing": cancelLanding,
	"undo-landing":   undoLanding,
	"give-review":    giveReview,

	"approve-peer": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, coordination.ApprovePeer, coordination.PeerParams{AID: coord.AID(f.Get("aid"))})
		return "The peer is approved.", err
	},
	"respond-contract": func(ctx context.Context, f form) (string, error) {
		in := coordination.InContract{InProject: coordination.InProject{Project: coord.ProjectID(f.Get("project"))}, Contract: coord.ContractID(f.Get("contract"))}
		version, err := strconv.Atoi(f.Get("version"))
		if err != nil {
			return "", hub.Errorf(hub.CodeInvalid, "web", "version must be a number")
		}
		got, err := perform(ctx, f.visit, coordination.Respond, contract.Response{InContract: in, Action: f.Get("answer"), Comment: f.Get("comment"), Version: version})
		return fmt.Sprintf("Answered: the contract is %s.", got.Status), err
	},
	"agent-answer": func(ctx context.Context, f form) (string, error) {
		n, err := strconv.Atoi(f.Get("question"))
		if err != nil {
			return "", hub.Errorf(hub.CodeInvalid, "web", "question must be a number")
		}
		if _, err := f.waiting(ctx); err != nil { // before the question is gone
			return "", err
		}
		if _, err := perform(ctx, f.visit, api.AnswerAgent, api.AnswerParams{Agent: f.agent(), Question: n, Choice: f.Get("choice")}); err != nil {
			return "", err
		}
		err = f.acknowledge(ctx, attention.KindQuestion, fmt.Sprintf("%s %d", f.agent(), n))
		return fmt.Sprintf("%s has your answer.", f.agent()), err
	},
	"agent-prompt": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.PromptAgent, api.PromptParams{Agent: f.agent(), Text: f.Get("text")})
		return fmt.Sprintf("%s starts its next turn with it.", f.agent()), err
	},
	"agent-stop": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.StopAgent, api.StopParams{Agent: f.agent()})
		return fmt.Sprintf("%s is stopped. Its mail is kept.", f.agent()), err
	},
	"agent-restart": func(ctx context.Context, f form) (string, error) {
		_, err := perform(ctx, f.visit, api.RestartAgent, api.RestartParams{Agent: f.agent()})
		return fmt.Sprintf("%s starts again with its next message.", f.agent()), err
	},
	"decide": func(ctx context.Context, f form) (string, error) {
		if _, err := f.waiting(ctx); err != nil { // before it is decided
			return "", err
		}
		got, err := perform(ctx, f.visit, api.Decide, api.DecideParams{Thread: f.Get("thread"), Decision: f.Get("decision"), Because: f.Get("because")})
		if err != nil {
			return "", err
		}
		err = f.acknowledge(ctx, attention.KindEscalation, got.ID)
		return fmt.Sprintf("Decided: the %s is %s. The participants are notified.", got.Kind, got.State), err
	},
	"merge":      merge,
	"sign-merge": signMerge,
	"run-again": func(ctx context.Context, f form) (string, error) {
		got, err := perform(ctx, f.visit, api.RepeatRun, api.RunAgainParams{ID: hub.RunID(f.Get("id")), Policy: sandbox.Policy(f.Get("policy"))})
		return fmt.Sprintf("Run %s has started; see the Runs page.", got.ID), err
	},
	"pause-all":  setAll(hub.AgentActive, api.PauseAgent, api.PauseWake, "%d agents are paused, and mail wakes no agent."),
	"resume-all": setAll(hub.AgentPaused, api.ResumeAgent, api.ResumeWake, "%d agents can send again, and mail wakes agents that allow it."),
}

// handOn takes a task from its owner and proposes it to another agent, with what its
// package says.
func handOn(ctx context.Context, f form) (string, error) {
	id := hub.HandoffID(f.Get("id"))
	got, err := perform(ctx, f.visit, api.Handoff, api.HandoffParams{Action: "show", ID: id})
	if err != nil {
		return "", err
	}
	var pkg taskView
	if err := json.Unmarshal(got.Report.Package, &pkg); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "web", "cannot read the package of the handoff")
	}
	if _, err := perform(ctx, f.visit, api.Handoff, api.HandoffParams{Action: "release", ID: id, Detail: "handed on to " + f.Get("agent")}); err != nil {
		return "", err
	}
	_, err = perform(ctx, f.visit, api.Handoff, api.HandoffParams{
		Action: "initiate", To: f.agent(), TaskID: got.Report.TaskID, Title: got.Report.Title, Objective: pkg.Task.Objective, Summary: pkg.Context.Summary,
		NextStep: pkg.Work.Next, Criteria: pkg.Task.Criteria, Worktree: pkg.Work.Worktree, Branch: pkg.Work.Branch, IdempotencyKey: "hand-on-" + string(id),
	})
	return fmt.Sprintf("The task is proposed to %s.", f.agent()), err
}

// wakeSeconds is how long a person waits for the proof of a wake.
const wakeSeconds = 20

func wakeText(agent hub.AgentID, got api.ProbeReport) string {
	if got.Proven {
		return fmt.Sprintf("%s is awake.", agent)
	}
	return fmt.Sprintf("%s did not wake: %s", agent, got.Detail)
}

// setAll returns a change that moves every agent in a state, and the wakes of all.
func setAll[R any](from hub.AgentState, one rpc.Operation[*api.Services, api.AgentParams, R], wakes rpc.Operation[*api.Services, api.WakePauseParams, api.PauseState], text string) func(context.Context, form) (string, error) {
	return func(ctx context.Context, f form) (string, error) {
		list, err := perform(ctx, f.visit, api.ListAgents, api.None{})
		n := 0
		for _, a := range list.Agents {
			if err != nil || a.ID == hub.Operator || a.State != from {
				continue
			}
			if _, err = perform(ctx, f.visit, one, api.AgentParams{ID: a.ID}); err == nil {
				n++
			}
		}
		if err == nil {
			_, err = perform(ctx, f.visit, wakes, api.WakePauseParams{All: true})
		}
		return fmt.Sprintf(text, n), err
	}
}

func joinNames(names []hub.AgentID) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return strings.Join(out, ", ")
}

// checkChange refuses a change that does not come from a page of this session.
func (h *Handler) checkChange(w http.ResponseWriter, r *http.Request, s session) error {
	if r.Header.Get("Origin") != ownOrigin(r) {
		return hub.Errorf(hub.CodeDenied, "web", "the request does not come from this page")
	}
	if err := readForm(w, r); err != nil {
		return err
	}
	if r.PostForm.Get("token") != s.token() {
		return hub.Errorf(hub.CodeDenied, "web", "the form belongs to another session").WithHint("reload the page")
	}
	return nil
}

// change answers POST /do/ACTION: a script is told what it led to, a form is led back to
// its page.
func (h *Handler) change(w http.ResponseWriter, r *http.Request, s session) {
	var done note
	err := h.checkChange(w, r, s)
	own := err == nil // it is a form of a page
	do, ok := changes[r.PathValue("action")]
	switch {
	case err != nil:
	case !s.caller.IsOperator():
		err = hub.Errorf(hub.CodeDenied, "web", "viewers can only read; sign in as an operator to make changes")
	case !ok:
		err = hub.Errorf(hub.CodeNotFound, "web", "unknown action")
	default:
		v := &visit{Handler: h, caller: s.caller, r: r}
		done.Text, err = do(r.Context(), form{v, r.PostForm})
	}

	status := http.StatusOK
	if err != nil {
		if code := hub.CodeOf(err); code == hub.CodeInternal {
			h.Log.Error("a change failed", "actor", s.caller.ID, "op", r.PathValue("action"), "err", err)
		}
		done, status = *failure(err), http.StatusBadRequest
		if known, ok := statuses[hub.CodeOf(err)]; ok {
			status = known
		}
	}

	if r.Header.Get("Accept") == "application/json" {
		rpc.WriteJSON(w, status, map[string]any{"text": done.Text, "hint": done.Hint, "failed": done.Failed})
		return
	}

	// A form leads back to its page, or to the next one after a success.
	back := r.PostForm.Get("back")
	if next := r.PostForm.Get("next"); next != "" && !done.Failed {
		back = next
	}

	// A page that keeps typed text is shown again at once, with the text and the failure.
	to := "/"
	at, err := h.pageAt(r.Context(), back)
	switch {
	case err != nil:
	case own && done.Failed && at.keeps:
		h.showPage(w, status, &visit{Handler: h, caller: s.caller, r: at.r, typed: r.PostForm}, s, at.page, &done)
		return
	default:
		to = at.r.URL.RequestURI()
	}

	// The note waits for the next page of the session.
	h.mu.Lock()
	h.notes[s.ID] = &done
	h.mu.Unlock()
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// takeNote returns what the last change of a session led to, once.
func (h *Handler) takeNote(s session) *note {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.notes[s.ID]
	delete(h.notes, s.ID)
	return n
}
