package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The shapes that scripts rely on, every member named: one that appears or
// disappears is seen here.
type (
	standingShape struct {
		Suspended bool   `json:"suspended"`
		Reach     string `json:"reach"`
		Unread    int    `json:"unread"`
		Oldest    string `json:"oldest_unread"`
		LastSeen  string `json:"last_seen"`
	}
	agentShape struct {
		ID        string `json:"id"`
		Role      string `json:"role"`
		Auditor   bool   `json:"auditor"`
		State     string `json:"state"`
		CreatedAt string `json:"created_at"`
	}
	agentKeyShape struct {
		Agent agentShape `json:"agent"`
		Key   string     `json:"key"`
		Label string     `json:"label"`
	}
	keyShape struct {
		ID        string `json:"id"`
		Agent     string `json:"agent"`
		Label     string `json:"label"`
		Hint      string `json:"hint"`
		CreatedAt string `json:"created_at"`
		ExpiresAt string `json:"expires_at"`
		RevokedAt string `json:"revoked_at"`
	}
	agentListShape struct {
		Agents []struct {
			agentShape
			Keys []keyShape `json:"keys"`
			standingShape
		} `json:"agents"`
	}
	capabilities map[string]struct {
		State   string `json:"state"`
		Enabled bool   `json:"enabled"`
		Detail  string `json:"detail"`
	}
	receiptShape struct {
		ID         string `json:"id"`
		ShortID    string `json:"short_id"`
		Status     string `json:"status"`
		ThreadID   string `json:"thread_id"`
		Deliveries []struct {
			Recipient string `json:"recipient"`
			Channel   string `json:"channel"`
			Status    string `json:"status"`
			Reach     string `json:"reach"`
			Reason    string `json:"reason"`
			Error     string `json:"error"`
		} `json:"deliveries"`
		Warnings     []string     `json:"warnings"`
		Capabilities capabilities `json:"capabilities"`
		Unread       int          `json:"unread"`
		Duplicate    bool         `json:"duplicate"`
	}
	envelopeShape struct {
		ID        string          `json:"id"`
		Protocol  string          `json:"protocol"`
		Version   string          `json:"version"`
		From      string          `json:"from"`
		To        []string        `json:"to"`
		Team      string          `json:"team"`
		ThreadID  string          `json:"thread_id"`
		ReplyTo   string          `json:"reply_to"`
		Type      string          `json:"type"`
		Topic     string          `json:"topic"`
		Priority  string          `json:"priority"`
		Status    string          `json:"status"`
		Sequence  *int64          `json:"sequence"`
		ExpiresAt string          `json:"expires_at"`
		Payload   json.RawMessage `json:"payload"`
		Policy    struct {
			Visibility  string `json:"visibility"`
			Sensitivity string `json:"sensitivity"`
			HumanGate   string `json:"human_gate"`
		} `json:"policy"`
		Context   json.RawMessage `json:"context"`
		CreatedAt string          `json:"created_at"`
		UpdatedAt string          `json:"updated_at"`
	}
	contactShape struct {
		ID    string   `json:"id"`
		Role  string   `json:"role"`
		Can   []string `json:"can"`
		Reach string   `json:"reach"`
	}
	listShape struct {
		You      string            `json:"you"`
		Agents   []contactShape    `json:"agents"`
		ShortIDs map[string]string `json:"short_ids"`
		Frame    string            `json:"frame"` // in answers of tools
		Messages []envelopeShape   `json:"messages"`
		Next     *string           `json:"next"` // there, if only as ""
		Unread   int               `json:"unread"`
		Acked    []struct {
			ID    string `json:"id"`
			First bool   `json:"first"`
		} `json:"acked"`
		Capabilities capabilities `json:"capabilities"`
		Warnings     []string     `json:"warnings"`
	}
	traceShape struct {
		Message    envelopeShape   `json:"message"`
		Hop        int             `json:"hop"`
		Cause      string          `json:"cause"`
		Deliveries json.RawMessage `json:"deliveries"`
		Journal    []struct {
			Action string `json:"action"`
			Actor  string `json:"actor"`
		} `json:"journal"`
		Steps []struct {
			At, Kind, Who, What, Detail string
		} `json:"steps"`
	}
	verdictShape struct {
		ID       string   `json:"id"`
		Status   string   `json:"status"`
		Decision string   `json:"decision"`
		From     string   `json:"from"`
		To       []string `json:"to"`
		Message  string   `json:"message_status"`
	}
	artifactShape struct {
		Artifact struct {
			Type      string `json:"type"`
			Path      string `json:"path"`
			SHA256    string `json:"sha256"`
			SizeBytes int64  `json:"size_bytes"`
		} `json:"artifact"`
	}
)

// TestShapes calls every command with --json and reads the answers strictly.
func TestShapes(t *testing.T) {
	t.Run("the answers of commands in JSON have these shapes", func(t *testing.T) {
		h := newHouse(t)

		var added agentKeyShape
		strict(t, h.operator("agent", "add", "scribe", "--auditor", "--label", "desk", "--json").out, &added)
		if a := added.Agent; a.ID != "scribe" || a.Role != "executor" || !a.Auditor || a.State != "active" || added.Label != "desk" {
			t.Errorf("agent add answered %+v", added)
		}
		if !strings.HasPrefix(added.Key, "cacp_sk_live_") {
			t.Errorf("key %q has no known beginning", added.Key)
		}
		var minted agentKeyShape
		strict(t, h.operator("agent", "key", "scribe", "--label", "laptop", "--expires", "1h", "--json").out, &minted)
		if minted.Key == added.Key || minted.Agent.ID != "scribe" || minted.Label != "laptop" {
			t.Errorf("agent key answered %+v", minted)
		}
		if r := h.operator("agent", "key", "scribe"); r.code != exitUsage || !strings.Contains(r.err, "--label is required") {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		var revoked struct {
			Agent   string `json:"agent"`
			Revoked int    `json:"revoked"`
		}
		strict(t, h.operator("agent", "revoke", "scribe", "--label", "desk", "--json").out, &revoked)
		if revoked.Agent != "scribe" || revoked.Revoked != 1 {
			t.Errorf("agent revoke answered %+v", revoked)
		}
		for verb, state := range map[string]string{"pause": "paused", "resume": "active", "resume --suspension": "active"} {
			var got struct {
				Agent agentShape `json:"agent"`
			}
			h.operator("agent", "resume", "scribe")
			strict(t, h.operator(append(append([]string{"agent"}, strings.Fields(verb)...), "scribe", "--json")...).out, &got)
			if got.Agent.ID != "scribe" || got.Agent.State != state {
				t.Errorf("agent %s answered %+v, want state %s", verb, got, state)
			}
		}
		list := h.operator("agent", "list", "--json").out
		var agents agentListShape
		strict(t, list, &agents)
		i := slices.IndexFunc(agents.Agents, func(a struct {
			agentShape
			Keys []keyShape `json:"keys"`
			standingShape
		}) bool {
			return a.ID == "scribe"
		})
		if len(agents.Agents) != len(cast)+2 || i < 0 || len(agents.Agents[i].Keys) != 2 || agents.Agents[i].Keys[0].RevokedAt == "" {
			t.Errorf("agent list answered %s", list)
		}
		if strings.Contains(list, minted.Key) || strings.Contains(list, added.Key) {
			t.Error("agent list shows a secret")
		}

		var receipt receiptShape
		strict(t, h.as("planner", "send", "builder", "schema is frozen", "--json").out, &receipt)
		if receipt.Status != "pending" || receipt.ThreadID != receipt.ID || len(receipt.Deliveries) != 1 || receipt.Warnings == nil || receipt.Capabilities["inbox"].State != "verified" {
			t.Errorf("send answered %+v", receipt)
		}
		if d := receipt.Deliveries[0]; d.Recipient != "builder" || d.Channel != "inbox" || d.Status != "stored" || d.Reach != "on_poll" {
			t.Errorf("delivery %+v", d)
		}
		first := receipt.ID
		var inbox listShape
		strict(t, h.as("builder", "inbox", "--json").out, &inbox)
		if len(inbox.Messages) != 1 || inbox.Messages[0].ID != first || inbox.Messages[0].From != "planner" || inbox.Next == nil || inbox.Unread != 1 {
			t.Errorf("inbox answered %+v", inbox)
		}
		receipt = receiptShape{}
		strict(t, h.as("builder", "reply", first, "seen", "--json").out, &receipt)
		if receipt.ThreadID != first || receipt.Deliveries[0].Recipient != "planner" {
			t.Errorf("respond answered %+v", receipt)
		}
		receipt = receiptShape{}
		strict(t, h.as("builder", "status", "blocked", "no access", "--blocker", "vpn", "--progress", "40", "--detail", "since noon", "--json").out, &receipt)
		if receipt.Deliveries[0].Recipient != "planner" {
			t.Errorf("status answered %+v", receipt)
		}
		var found listShape
		strict(t, h.as("planner", "log", "--whole", "--thread", first, "--json").out, &found)
		if len(found.Messages) != 2 || found.Messages[1].ID != first || found.Next == nil {
			t.Errorf("query answered %+v", found)
		}
		var trace traceShape
		got := h.as("planner", "show", first, "--json")
		h.ok(got, &trace)
		var actions []string
		for _, e := range trace.Journal {
			actions = append(actions, e.Action)
		}
		if want := []string{"message.sent", "message.delivered", "message.read"}; !slices.Equal(actions, want) {
			t.Errorf("trace shows %v, want %v", actions, want)
		}
		if len(trace.Steps) != 4 || !slices.IsSortedFunc(trace.Steps, func(a, b struct{ At, Kind, Who, What, Detail string }) int { return strings.Compare(a.At, b.At) }) {
			t.Errorf("steps of the trace: %+v", trace.Steps)
		}

		held := h.sent(h.as("builder", "send", "tester", "drop the table", "--human-gate", "required", "--json"))
		var waiting struct {
			listShape
			Handoffs []any `json:"handoffs"`
			Teams    []any `json:"team_actions"`
		}
		strict(t, h.operator("approve", "--json").out, &waiting)
		if len(waiting.Messages) != 1 || waiting.Messages[0].ID != held {
			t.Errorf("approve without an id answered %+v", waiting)
		}
		var verdict verdictShape
		strict(t, h.operator("approve", held, "--json").out, &verdict)
		if verdict.ID != held || verdict.Decision != "approved" || verdict.From != "builder" || !slices.Equal(verdict.To, []string{"tester"}) {
			t.Errorf("approve answered %+v", verdict)
		}
		held = h.sent(h.as("builder", "send", "tester", "drop all tables", "--human-gate", "required", "--json"))
		strict(t, h.operator("deny", held, "--because", "no", "--json").out, &verdict)
		if verdict.Decision != "denied" || verdict.Status != "failed" || verdict.Message != "failed" {
			t.Errorf("deny answered %+v", verdict)
		}

		var stored artifactShape
		strict(t, h.as("builder", "artifact", "put", write(t, "log", "hello\n"), "--json").out, &stored)
		if stored.Artifact.SHA256 != "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" || stored.Artifact.SizeBytes != 6 {
			t.Errorf("artifact put answered %+v", stored)
		}
		if got := h.as("builder", "artifact", "get", stored.Artifact.SHA256, "--json"); got.out != "hello\n" {
			t.Errorf("artifact get gave %q", got.out)
		}

		var names struct {
			Schemas []string `json:"schemas"`
		}
		strict(t, h.as("", "schema", "list", "--json").out, &names)
		for _, n := range names.Schemas {
			var schema map[string]any
			h.ok(h.as("", "schema", "print", n, "--json"), &schema)
			if schema["$schema"] == nil {
				t.Errorf("schema %s does not say what it is", n)
			}
		}
		var raw struct{ Messages []json.RawMessage }
		h.ok(h.as("planner", "log", "--whole", "--thread", first, "--json"), &raw)
		var valid struct {
			Valid bool `json:"valid"`
			Error struct {
				Code    string `json:"code"`
				Message string `json:"message"`
				Hint    string `json:"hint"`
			} `json:"error"`
		}
		if got := h.stdin("", `{"id":"nope"}`, "schema", "check", "-", "--json"); got.code != 1 {
			t.Errorf("a bad envelope: exit %d, want 1: %s", got.code, got.err)
		} else if strict(t, got.out, &valid); valid.Valid || valid.Error.Code != "schema_invalid" {
			t.Errorf("schema check answered %s", got.out)
		}
		for _, tt := range []struct {
			schema, text string
			code         int
			says         string
		}{
			{"handoff-package", `{"protocol":"acp"}`, exitCheck, "not valid: handoff-package"},
			{"handoff-package", `{"protocol":"a","protocol":"b"}`, exitCheck, "not valid: handoff-package"},
			{"payload/status.update", `{"progress":"half"}`, exitCheck, "not valid: payload/status.update"},
			{"nothing", `{}`, exitUsage, ""},
		} {
			if got := h.stdin("", tt.text, "schema", "check", "-", "--schema", tt.schema); got.code != tt.code || !strings.HasPrefix(got.out, tt.says) {
				t.Errorf("%s: exit %d: %s%s", tt.schema, got.code, got.out, got.err)
			}
		}
		if got := h.stdin("", string(raw.Messages[0]), "schema", "check", "-", "--json"); got.code != 0 || got.out != "{\"valid\":true}\n" {
			t.Errorf("an envelope of the hub itself: exit %d: %s%s", got.code, got.out, got.err)
		}
		var v map[string]string
		h.ok(h.as("", "version", "--json"), &v)
		if v["version"] == "" || v["protocol"] == "" {
			t.Errorf("version answered %v", v)
		}
		var health struct {
			OK     bool `json:"ok"`
			Checks []struct {
				What   string `json:"what"`
				OK     bool   `json:"ok"`
				Detail string `json:"detail"`
				Hint   string `json:"hint"`
			} `json:"checks"`
		}
		got = h.as("", "doctor", "--json")
		if strict(t, got.out, &health); !health.OK || got.code != 0 {
			t.Errorf("doctor answered %d %s", got.code, got.out)
		}
	})
}

// TestObservability looks at a message, a handoff and the journal in all ways that the
// command line has.
func TestObservability(t *testing.T) {
	h := newHouse(t)
	message := h.sent(h.as("planner", "send", "builder", "the schema is frozen", "--json"))
	var made struct {
		ID string `json:"handoff_id"`
	}
	h.ok(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-7", "--title", "Nullable avatar", "--summary", "half of it is done", "--next", "run the migration", "--criterion", "old rows load", "--json"), &made)
	for _, c := range []struct {
		who   string
		args  []string
		words []string // of the text for people
		id    string   // in the JSON
	}{
		{"builder", []string{"inbox"}, []string{"planner", "the schema is frozen", "Nullable avatar"}, message},
		{"builder", []string{"log", "--whole"}, []string{"planner", "the schema is frozen"}, message},
		{"planner", []string{"show", message}, []string{"from planner to builder", "status.update", "planner sent it"}, message},
		{"builder", []string{"handoff", "list"}, []string{"T-7", "proposed"}, made.ID},
		{"builder", []string{"show", made.ID}, []string{"Nullable avatar", "half of it is done", "run the migration"}, made.ID},
		{"", []string{"hub", "journal", "--as-operator"}, []string{"message.sent", "handoff.proposed"}, message},
		{"", []string{"agent", "list", "--as-operator"}, []string{"builder", "executor"}, "builder"},
		{"", []string{"doctor", "--as-operator"}, []string{"hub", "database"}, "database"},
	} {
		t.Run("R3-123 "+strings.Join(slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return a == message || a == made.ID || a == "--as-operator" }), " ")+" shows it, in words and as JSON", func(t *testing.T) {
			words := h.as(c.who, c.args...)
			h.ok(words, nil)
			contains(t, words.out, c.words...)
			if json.Valid([]byte(words.out)) {
				t.Errorf("the text for people is JSON: %s", words.out)
			}
			var any any
			got := h.as(c.who, append(c.args, "--json")...)
			h.ok(got, &any)
			contains(t, got.out, `"`+c.id+`"`)
		})
	}
}
