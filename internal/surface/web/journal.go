package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
)

const journalPage = 100

type journalData struct {
	Params  api.AuditParams
	Entries []hub.Entry // the newest first
	Older   int64
	Head    hub.Head
	Actions []actions.Action
}

func journalParams(v *visit) api.AuditParams {
	q := v.r.URL.Query()
	p := api.AuditParams{Actor: hub.AgentID(q.Get("actor")), Action: actions.Action(q.Get("action")), Limit: journalPage, Last: true}
	p.Before, _ = strconv.ParseInt(q.Get("before"), 10, 64) // anything else is the newest page
	return p
}

func journal(ctx context.Context, v *visit) (string, any, error) {
	d := journalData{Params: journalParams(v), Actions: journalActions}
	got, err := perform(ctx, v, api.Audit, d.Params)
	if err != nil {
		return "", nil, err
	}
	for i := len(got.Entries) - 1; i >= 0; i-- {
		d.Entries = append(d.Entries, got.Entries[i])
	}
	d.Older, d.Head = got.Older, got.Head
	return "Journal", d, nil
}

// journalActions are those that people filter by.
var journalActions = []actions.Action{
	actions.MessageSent, actions.MessageHeld, actions.MessageApproved, actions.MessageDenied, actions.MessageRead, actions.HandoffProposed, actions.HandoffActivated,
	actions.HandoffCompleted, actions.HandoffRejected, actions.HandoffEscalated, actions.RunDone, actions.RunFailed, actions.ContractProposed, actions.ContractAgreed,
	actions.ReservationTaken, actions.ReservationReleased, actions.ReservationOrphaned, actions.ReservationViolated, actions.WakeAllowed, actions.WakePaused, actions.AgentAdded, actions.KeyMinted, actions.KeyRevoked, actions.Refused, actions.BreakerOpen, actions.WebSignedIn, actions.HubStarted,
}

// exportJournal answers GET /journal/export: the entries that the filter chooses, as
// JSON lines, the oldest first.
func (h *Handler) exportJournal(w http.ResponseWriter, r *http.Request, s session) {
	v := &visit{Handler: h, caller: s.caller, r: r}
	p := journalParams(v)
	p.Last = false
	p.Limit = 1000
	p.Before = 0
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="journal.jsonl"`)
	for first := true; ; first = false {
		page, err := perform(r.Context(), v, api.Audit, p)
		switch {
		case err != nil && first:
			w.Header().Del("Content-Disposition")
			h.fail(w, r, s, err)
			return
		case err != nil:
			panic(http.ErrAbortHandler) // a part must not pass for the whole
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		for _, e := range page.Entries {
			enc.Encode(e) // plain values and raw JSON: cannot fail
		}
		if _, err := w.Write(plaintext.JSON(b.Bytes())); err != nil || page.Next == 0 {
			return
		}
		p.After = page.Next
	}
}

// verifyStep is how long one step of a verification takes; the page shows the progress
// after each.
const verifyStep = time.Second

type verifyData struct {
	Running bool
	Percent int
	Part    string
	Clean   bool
	Audit   any
	Resume  string
	Refresh string
}

// verify answers GET /journal/verify: it compares everything with the journal, a second
// at a time, and leads from one step to the next by itself.
func verify(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.Verify, api.VerifyParams{ForMS: verifyStep.Milliseconds(), Resume: v.r.URL.Query().Get("resume")})
	if err != nil {
		return "", nil, err
	}
	d := verifyData{Audit: got, Clean: got.Clean()}
	if p := got.Progress; p != nil {
		d.Running = true
		d.Part = p.Part
		d.Resume = p.ID
		if p.Of > 0 {
			d.Percent = int(min(100, 100*p.Done/p.Of))
		}
	}
	return "Verify", d, nil
}

// serveVerify serves the page of a verification, which does not follow events.
func (h *Handler) serveVerify(w http.ResponseWriter, r *http.Request, s session) {
	title, data, err := verify(r.Context(), &visit{Handler: h, caller: s.caller, r: r})
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	h.writeStill(w, s, page{name: "verify", under: "journal"}, title, data)
}
