package mailroom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// An office is a mailroom with a real store, a clock that stands still, and
// four agents.
type office struct {
	*mailroom.Mailroom
	t     *testing.T
	store hub.Store
	bus   *bus.Local
	keys  *keys.Service

	mu  sync.Mutex // guards now
	now time.Time
}

// held returns the messages that wait for the operator.
func (o *office) held(ctx context.Context, actor hub.Caller) (attention.Waiting, error) {
	return attention.New(o.store, mailroom.Headline).Waiting(ctx, actor, attention.Sources{})
}

var (
	operator = hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	planner  = hub.Caller{ID: "planner", Role: hub.RoleCoordinator}
	builder  = hub.Caller{ID: "builder", Role: hub.RoleExecutor}
	tester   = hub.Caller{ID: "tester", Role: hub.RoleReviewer}
	auditor  = hub.Caller{ID: "auditor", Role: hub.RoleReviewer, Auditor: true}
)

// open returns an office; change may be nil.
func open(t *testing.T, change func(*mailroom.Options)) *office {
	t.Helper()
	o := &office{t: t, bus: new(bus.Local), now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	o.store = storetest.Open(t, t.TempDir())
	o.keys = keys.New(o.store, &keys.Options{Clock: o.clock, Bus: o.bus})
	if _, err := o.keys.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hub.Caller{planner, builder, tester, auditor} {
		if _, _, _, err := o.keys.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role, Auditor: a.Auditor}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	o.restart(change)
	return o
}

// restart makes a new mailroom on the same store, as a restart of the hub does.
func (o *office) restart(change func(*mailroom.Options)) {
	o.t.Helper()
	opts := &mailroom.Options{Clock: o.clock, Bus: o.bus}
	if change != nil {
		change(opts)
	}
	m, err := mailroom.New(o.store, o.keys, opts)
	if err != nil {
		o.t.Fatal(err)
	}
	o.Mailroom = m
}

func (o *office) clock() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

func (o *office) pass(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(d)
}

// say is a draft of plain text.
func say(text string, to ...hub.AgentID) mailroom.Draft {
	return mailroom.Draft{To: to, Type: hub.TypeStatusUpdate, Text: text}
}

func (o *office) send(from hub.Caller, d mailroom.Draft) mailroom.Receipt {
	o.t.Helper()
	r, err := o.Send(o.t.Context(), from, d)
	if err != nil {
		o.t.Fatalf("%s: send: %v", from.ID, err)
	}
	return r
}

// refuse sends what must be refused, and checks that nothing was stored.
func (o *office) refuse(from hub.Caller, d mailroom.Draft, want hub.Code) *hub.Error {
	o.t.Helper()
	before := o.rows()
	_, err := o.Send(o.t.Context(), from, d)
	if got := hub.CodeOf(err); got != want {
		o.t.Fatalf("%s: send: got %q (%v), want %q", from.ID, got, err, want)
	}
	if after := o.rows(); before != after {
		o.t.Errorf("a refused send changed the store:\nbefore %s\nafter  %s", before, after)
	}
	return describe(err)
}

func describe(err error) *hub.Error {
	for err != nil {
		if e, ok := err.(*hub.Error); ok {
			return e
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		err = u.Unwrap()
	}
	return nil
}

// rows sums up what the store holds besides the journal.
func (o *office) rows() string {
	o.t.Helper()
	var out string
	o.view(func(r hub.Reader) error {
		page, err := r.Query(hub.Query{Audit: true, Limit: 1000})
		if err != nil {
			return err
		}
		for _, m := range page.Messages {
			d, err := r.Deliveries(m.ID)
			if err != nil {
				return err
			}
			p, err := r.Parties(m.ID)
			if err != nil {
				return err
			}
			slices.SortFunc(p, func(a, b hub.Party) int { return strings.Compare(string(a.Agent), string(b.Agent)) })
			out += fmt.Sprintf("%s %s %v %v; ", m.ID, m.Status, d, p)
		}
		return nil
	})
	return out
}

func (o *office) view(fn func(hub.Reader) error) {
	o.t.Helper()
	if err := o.store.View(o.t.Context(), fn); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) inbox(who hub.Caller, req mailroom.InboxRequest) mailroom.Inbox {
	o.t.Helper()
	in, err := o.Inbox(o.t.Context(), who, req)
	if err != nil {
		o.t.Fatalf("%s: inbox: %v", who.ID, err)
	}
	return in
}

func (o *office) message(id hub.EnvelopeID) hub.Message {
	o.t.Helper()
	var m hub.Message
	o.view(func(r hub.Reader) (err error) { m, err = r.Message(id); return err })
	return m
}

func (o *office) ledger(id hub.EnvelopeID) []hub.Delivery {
	o.t.Helper()
	var d []hub.Delivery
	o.view(func(r hub.Reader) (err error) { d, err = r.Deliveries(id); return err })
	return d
}

// actions returns the journal of a subject.
func (o *office) actions(subject string) []actions.Action {
	o.t.Helper()
	var out []actions.Action
	o.view(func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{Subject: subject, Limit: 1000})
		for _, e := range entries {
			out = append(out, e.Action)
		}
		return err
	})
	return out
}

func texts(messages []hub.Envelope) []string {
	out := []string{}
	for _, e := range messages {
		var p struct {
			Summary string `json:"summary"`
			Code    string `json:"code"`
			Status  string `json:"status"`
		}
		json.Unmarshal(e.Payload, &p) // what has neither stays empty
		out = append(out, p.Summary+p.Code+p.Status)
	}
	return out
}

func ids(messages []hub.Envelope) []hub.EnvelopeID {
	out := []hub.EnvelopeID{}
	for _, e := range messages {
		out = append(out, e.ID)
	}
	return out
}

func TestSend(t *testing.T) {
	t.Run("R3-099 a send is stored whole and answered with what is known", func(t *testing.T) {
		o := open(t, nil)
		seq := int64(3)
		r := o.send(planner, mailroom.Draft{
			To: []hub.AgentID{"builder", "tester", "builder"}, Type: hub.TypeKnowledgePush, Topic: "db", Priority: hub.PriorityHigh, Sequence: &seq,
			Payload: strictjson.Trust([]byte(`{ "topic": "db", "summary": "avatar is nullable", "confidence": "high", "x": 1.50 }`)),
			Policy:  &hub.Policy{Visibility: hub.VisibilityAudit, Sensitivity: hub.SensitivityModerate, HumanGate: hub.GateNone},
			Context: &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "pr", Value: "42"}}, Artifacts: []hub.ArtifactRef{{Type: "file", Path: "/tmp/a"}}},
		})
		e := o.message(r.ID).Envelope
		if e.From != "planner" || !slices.Equal(e.To, []hub.AgentID{"builder", "tester"}) || e.Topic != "db" || *e.Sequence != 3 || e.Policy.Visibility != hub.VisibilityAudit ||
			e.Context.ExternalRefs[0].Value != "42" || e.Context.Artifacts[0].Path != "/tmp/a" || e.Status != hub.StatusPending || e.Protocol != "acp" || e.Version != "1.0.0" {
			t.Errorf("got %+v", e)
		}
		if got, want := string(e.Payload), `{"topic":"db","summary":"avatar is nullable","confidence":"high","x":1.50}`; got != want {
			t.Errorf("payload: got %s, want %s: compacted, otherwise as it came", got, want)
		}
		if r.Status != hub.StatusPending || r.ThreadID != string(r.ID) || len(r.Deliveries) < 2 || r.Warnings == nil || r.Capabilities == nil {
			t.Errorf("got %+v", r)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("what is stored must be a valid envelope: %v", err)
		}
	})
	t.Run("R3-010 recipients are an array, each once", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("x", "builder", "builder"))
		if got := o.message(r.ID).To; !slices.Equal(got, []hub.AgentID{"builder"}) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("R3-015 the policy is filled in with private, low, none", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("x", "builder"))
		if got := o.message(r.ID).Policy; got != hub.DefaultPolicy {
			t.Errorf("got %v, want %v", got, hub.DefaultPolicy)
		}
		d := say("y", "builder")
		d.Policy = &hub.Policy{Sensitivity: hub.SensitivityHigh}
		if got, want := o.message(o.send(planner, d).ID).Policy, (hub.Policy{Visibility: hub.VisibilityPrivate, Sensitivity: hub.SensitivityHigh, HumanGate: hub.GateNone}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("R3-031 the session comes from the runtime", func(t *testing.T) {
		o := open(t, nil)
		d := say("x", "builder")
		d.Context = &hub.Context{SessionID: "forged"}
		from := planner
		from.Session = "real"
		r := o.send(from, d)
		if got := o.message(r.ID).Context.SessionID; got != "real" {
			t.Errorf("got %q, want the runtime's", got)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "session_id") {
			t.Errorf("got warnings %q, want one about session_id", r.Warnings)
		}
	})
	t.Run("R3-003 members of a later minor version survive", func(t *testing.T) {
		o := open(t, nil)
		d := say("x", "builder")
		d.Version, d.Extra = "1.1.0", json.RawMessage(`{"mood":{"of":1.0}}`)
		r := o.send(planner, d)
		raw, err := json.Marshal(o.message(r.ID).Envelope)
		if err != nil || !strings.Contains(string(raw), `"mood":{"of":1.0}`) || !strings.Contains(string(raw), `"version":"1.1.0"`) {
			t.Errorf("got %s, %v", raw, err)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "mood") {
			t.Errorf("got warnings %q", r.Warnings)
		}
	})
	t.Run("R3-033 times are explicit, in UTC and with milliseconds", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("x", "builder"))
		if got, want := o.message(r.ID).CreatedAt.String(), "2026-02-21T09:00:00.000Z"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("plain text that is too long for a summary is kept as detail", func(t *testing.T) {
		o := open(t, nil)
		long := strings.Repeat("ü", 300)
		e := o.message(o.send(planner, say(long, "builder")).ID)
		var p struct{ Summary, Detail string }
		if err := json.Unmarshal(e.Payload, &p); err != nil || len([]rune(p.Summary)) != 280 || p.Detail != long {
			t.Errorf("got %d characters and %q, %v", len([]rune(p.Summary)), p.Detail, err)
		}
	})
}

func TestSendRefuses(t *testing.T) {
	o := open(t, nil)
	claimed := "tester"
	past := hub.At(o.clock().Add(-time.Second))
	push := func(payload string) mailroom.Draft {
		return mailroom.Draft{To: []hub.AgentID{"builder"}, Type: hub.TypeKnowledgePush, Payload: strictjson.Trust([]byte(payload))}
	}
	with := func(change func(*mailroom.Draft)) mailroom.Draft {
		d := say("x", "builder")
		change(&d)
		return d
	}
	fits := func(n int) string { // a payload of n bytes
		head, tail := `{"topic":"t","confidence":"low","summary":"`, `"}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for _, c := range []struct {
		name string
		d    mailroom.Draft
		want hub.Code
		hint string
	}{
		{"R3-008 a claimed sender is refused", with(func(d *mailroom.Draft) { d.Claimed = &claimed }), hub.CodeTampering, "planner"},
		{"R3-002 another major version is refused", with(func(d *mailroom.Draft) { d.Version = "2.0.0" }), hub.CodeInvalid, ""},
		{"R3-002 a version below 1 is refused", with(func(d *mailroom.Draft) { d.Version = "0.9" }), hub.CodeInvalid, ""},
		{"R3-002 a version that is none is refused", with(func(d *mailroom.Draft) { d.Version = "abc" }), hub.CodeInvalid, ""},
		{"R3-011 no recipient is refused", say("x"), hub.CodeInvalid, ""},
		{"R3-012 everyone mixed with names is refused", say("x", "builder", "*"), hub.CodeInvalid, ""},
		{"R3-014 a work item on the envelope is refused", with(func(d *mailroom.Draft) { d.Extra = json.RawMessage(`{"work_item":"W-1"}`) }), hub.CodeInvalid, ""},
		{"R3-122 a signature on the envelope is refused", with(func(d *mailroom.Draft) { d.Extra = json.RawMessage(`{"signed_by":"x"}`) }), hub.CodeInvalid, ""},
		{"R3-016 a payload of 4097 bytes is refused", push(fits(4097)), hub.CodePayloadTooLarge, "artifact"},
		{"R3-016 the cap is in bytes, not in characters", push(`{"topic":"t","confidence":"low","summary":"` + strings.Repeat("é", 2100) + `"}`), hub.CodePayloadTooLarge, "artifact"},
		{"R3-021 a payload that is no object is refused", push(`[]`), hub.CodeInvalid, ""},
		{"R3-021 a payload without its members is refused", push(`{"topic":"t"}`), hub.CodeInvalid, ""},
		{"R3-023 an unknown priority is refused", with(func(d *mailroom.Draft) { d.Priority = "urgent" }), hub.CodeInvalid, ""},
		{"R3-029 an expiry in the past is refused", with(func(d *mailroom.Draft) { d.ExpiresAt = past }), hub.CodeInvalid, ""},
		{"R3-030 an unknown parent is refused", with(func(d *mailroom.Draft) { d.ReplyTo = "0199a000-0000-7000-8000-000000000000" }), hub.CodeNotFound, ""},
		{"R3-032 an unknown kind of reference is refused", with(func(d *mailroom.Draft) {
			d.Context = &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "moon", Value: "1"}}}
		}), hub.CodeInvalid, ""},
		{"R3-049 a teamspace address is refused", with(func(d *mailroom.Draft) {
			d.Context = &hub.Context{Artifacts: []hub.ArtifactRef{{Type: "file", Path: "teamspace://a/b"}}}
		}), hub.CodeInvalid, ""},
		{"R3-049 a relative artifact is refused", with(func(d *mailroom.Draft) {
			d.Context = &hub.Context{Artifacts: []hub.ArtifactRef{{Type: "file", Path: "a/b"}}}
		}), hub.CodeInvalid, ""},
		{"R3-047 an unknown type is refused", with(func(d *mailroom.Draft) { d.Type = "status.progress" }), hub.CodeUnknownType, "status.update"},
		{"R3-034 a handoff goes through acp_handoff", with(func(d *mailroom.Draft) { d.Type = hub.TypeHandoffInitiate }), hub.CodeReservedType, "{handoff}"},
		{"R3-044 an acknowledgement is written by the hub alone", with(func(d *mailroom.Draft) { d.Type = hub.TypeSystemAck }), hub.CodeReservedType, "ack"},
		{"R3-045 an error is written by the hub alone", with(func(d *mailroom.Draft) { d.Type = hub.TypeSystemError }), hub.CodeReservedType, ""},
		{"R3-121 team visibility without teamspaces is refused", with(func(d *mailroom.Draft) { d.Policy = &hub.Policy{Visibility: hub.VisibilityTeam} }), hub.CodePolicy, "private"},
		{"R3-121 an unknown visibility is refused", with(func(d *mailroom.Draft) { d.Policy = &hub.Policy{Visibility: "secret"} }), hub.CodeInvalid, ""},
		{"R3-039 blocked without a reason or blockers is refused", mailroom.Draft{To: []hub.AgentID{"builder"}, Type: hub.TypeStatusBlocked, Payload: strictjson.Trust([]byte(`{"summary":"x"}`))}, hub.CodeInvalid, ""},
		{"R3-043 an answer to a question that does not exist is refused", mailroom.Draft{To: []hub.AgentID{"builder"}, Type: hub.TypeKnowledgeResponse, Payload: strictjson.Trust([]byte(`{"query_id":"0199a000-0000-7000-8000-000000000000","answer":"x","confidence":"low"}`))}, hub.CodeNotFound, ""},
		{"a recipient nobody knows is refused, with the nearest name", say("x", "bilder"), hub.CodeUnknownRecipient, "builder"},
		{"too many recipients are refused", say("x", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"), hub.CodePolicy, ""},
		{"text and payload together are refused", with(func(d *mailroom.Draft) { d.Payload = strictjson.Trust([]byte(`{}`)) }), hub.CodeInvalid, ""},
		{"neither text nor payload is refused", with(func(d *mailroom.Draft) { d.Text = "" }), hub.CodeInvalid, "payload"},
		{"a huge idempotency key is refused", with(func(d *mailroom.Draft) { d.IdempotencyKey = strings.Repeat("k", 129) }), hub.CodeInvalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := (&office{Mailroom: o.Mailroom, t: t, store: o.store, now: o.now}).refuse(planner, c.d, c.want)
			if c.hint != "" && (e == nil || !strings.Contains(e.Hint, c.hint)) {
				t.Errorf("got hint %q, want one that mentions %q", e.Hint, c.hint)
			}
		})
	}
	t.Run("R3-016 a payload of 4096 bytes passes", func(t *testing.T) {
		o.send(planner, push(fits(4096)))
	})
	t.Run("a paused agent cannot send", func(t *testing.T) {
		paused := builder
		paused.Paused = true
		o.refuse(paused, say("x", "planner"), hub.CodeDenied)
	})
	t.Run("R3-008 the lenient mode ignores a claimed sender, warns and records it", func(t *testing.T) {
		o := open(t, func(opts *mailroom.Options) { opts.Lenient = true })
		d := say("x", "builder")
		d.Claimed = &claimed
		r := o.send(planner, d)
		if got := o.message(r.ID).From; got != "planner" {
			t.Errorf("got sender %s", got)
		}
		if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "from") {
			t.Errorf("got warnings %q", r.Warnings)
		}
		if got := o.actions(string(r.ID)); !slices.Contains(got, actions.ClaimIgnored) {
			t.Errorf("got journal %v", got)
		}
	})
}

func TestTypesAndFeatures(t *testing.T) {
	seq := int64(1)
	for _, kind := range hub.MessageTypes {
		f := kind.Feature()
		if f == "" {
			continue
		}
		d := mailroom.Draft{To: []hub.AgentID{"builder"}, Type: kind, Payload: strictjson.Trust([]byte(`{"x":1}`)), Sequence: &seq}
		t.Run(fmt.Sprintf("R3-046 %s is refused while %s is off", kind, f), func(t *testing.T) {
			o := open(t, func(opts *mailroom.Options) {
				opts.Features = slices.DeleteFunc(slices.Clone(hub.Features), func(x hub.Feature) bool { return x == f })
			})
			o.refuse(planner, d, hub.CodeReservedType)
		})
	}
	for id, d := range map[string]mailroom.Draft{
		"R3-038": {Type: hub.TypeStatusUpdate, Text: "x"},
		"R3-039": {Type: hub.TypeStatusBlocked, Text: "x"},
		"R3-040": {Type: hub.TypeStatusComplete, Text: "x"},
		"R3-041": {Type: hub.TypeKnowledgePush, Topic: "t", Text: "x"},
		"R3-042": {Type: hub.TypeKnowledgeQuery, Text: "x"},
	} {
		t.Run(fmt.Sprintf("%s %s can be given as plain text", id, d.Type), func(t *testing.T) {
			o := open(t, nil)
			d.To = []hub.AgentID{"builder"}
			o.send(planner, d)
		})
	}
	t.Run("R3-127 everything beyond the base protocol is off by default", func(t *testing.T) {
		o := open(t, nil)
		for name, c := range o.Capabilities() {
			if c.Enabled != (name == "inbox") {
				t.Errorf("%s: enabled is %v", name, c.Enabled)
			}
		}
	})
}

func TestThreads(t *testing.T) {
	t.Run("R3-030 a reply inherits the thread", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder"))
		d := say("b", "planner")
		d.ReplyTo = first.ID
		second := o.send(builder, d)
		if second.ThreadID != first.ThreadID || o.message(second.ID).ReplyTo != first.ID {
			t.Errorf("got thread %s, want %s", second.ThreadID, first.ThreadID)
		}
		d.ThreadID = "other"
		o.refuse(builder, d, hub.CodeInvalid)
	})
	t.Run("R3-030 what one cannot see cannot be answered", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder"))
		d := say("b", "planner")
		d.ReplyTo = first.ID
		o.refuse(tester, d, hub.CodeNotFound)
	})
	t.Run("a stranger cannot join a thread", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder"))
		d := say("b", "planner")
		d.ThreadID = first.ThreadID
		o.refuse(tester, d, hub.CodeDenied)
		d.ThreadID = "a-new-one"
		o.send(tester, d)
	})
	t.Run("R3-105 a response goes back to the sender in the same thread, with priority normal unless said", func(t *testing.T) {
		o := open(t, nil)
		q := o.send(planner, mailroom.Draft{To: []hub.AgentID{"builder"}, Type: hub.TypeKnowledgeQuery, Text: "which port?", Priority: hub.PriorityHigh})
		r, err := o.Respond(t.Context(), builder, mailroom.Draft{ReplyTo: q.ID, Text: "7420"})
		if err != nil {
			t.Fatal(err)
		}
		e := o.message(r.ID)
		if e.Type != hub.TypeKnowledgeResponse || !slices.Equal(e.To, []hub.AgentID{"planner"}) || e.ThreadID != q.ThreadID || e.ReplyTo != q.ID || e.Priority != hub.PriorityNormal {
			t.Errorf("got %+v", e.Envelope)
		}
		if !strings.Contains(string(e.Payload), string(q.ID)) {
			t.Errorf("R3-043 the answer must name the question: %s", e.Payload)
		}
		if got := o.message(q.ID).Status; got != hub.StatusRead {
			t.Errorf("what was answered is read, got %s", got)
		}
	})
	t.Run("R3-105 a follow-up to one's own message goes to its recipients", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder", "tester"))
		r, err := o.Respond(t.Context(), planner, mailroom.Draft{ReplyTo: first.ID, Text: "and b"})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.message(r.ID).To; !slices.Equal(got, []hub.AgentID{"builder", "tester"}) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("R3-105 a response names what it answers and nobody else", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder"))
		for name, d := range map[string]mailroom.Draft{
			"nothing to answer": {Text: "x"}, "recipients given": {ReplyTo: first.ID, Text: "x", To: []hub.AgentID{"tester"}},
		} {
			if _, err := o.Respond(t.Context(), builder, d); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("R3-043 only a question can be answered with knowledge.response", func(t *testing.T) {
		o := open(t, nil)
		first := o.send(planner, say("a", "builder"))
		o.refuse(builder, mailroom.Draft{To: []hub.AgentID{"planner"}, Type: hub.TypeKnowledgeResponse,
			Payload: strictjson.Trust([]byte(`{"query_id":"` + string(first.ID) + `","answer":"x","confidence":"low"}`))}, hub.CodeInvalid)
	})
}

func TestIdempotency(t *testing.T) {
	o := open(t, nil)
	d := say("once", "builder")
	d.IdempotencyKey = "k"
	first := o.send(planner, d)
	again := o.send(planner, d)
	if again.ID != first.ID || !again.Duplicate || first.Duplicate || len(again.Deliveries) != len(first.Deliveries) {
		t.Errorf("got %+v after %+v", again, first)
	}
	if got := o.inbox(builder, mailroom.InboxRequest{}); len(got.Messages) != 1 {
		t.Errorf("got %d messages, want 1", len(got.Messages))
	}
	other := say("another", "builder")
	other.IdempotencyKey = "k"
	o.refuse(planner, other, hub.CodeConflict)
	if r := o.send(tester, d); r.Duplicate {
		t.Error("keys of two senders are two keys")
	}
	t.Run("fifty at once are one message", func(t *testing.T) {
		d := say("race", "builder")
		d.IdempotencyKey = "race"
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[hub.EnvelopeID]int{}
		for range 50 {
			wg.Go(func() {
				r, err := o.Send(context.Background(), tester, d)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[r.ID]++
				mu.Unlock()
			})
		}
		wg.Wait()
		if len(seen) != 1 {
			t.Errorf("got %d messages, want 1", len(seen))
		}
	})
	t.Run("a key is forgotten after a day", func(t *testing.T) {
		o.pass(25 * time.Hour)
		if err := o.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := o.send(planner, d); r.Duplicate {
			t.Error("the key should be free again")
		}
	})
}
