package records_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// A story is a world in which everything has happened that is recorded.
type story struct {
	*world
	plain, shared, held, approved, denied, everyone, expired, rich hub.EnvelopeID
	open, done, secret                                             hub.Handoff
	root                                                           string // a folder that is a root
}

// tell lets everything happen once.
func tell(t *testing.T) *story {
	t.Helper()
	s := &story{world: newWorld(t)}
	ctx := t.Context()
	gate := hub.DefaultPolicy
	gate.HumanGate = hub.GateRequired

	s.pass(time.Second)
	s.must(s.keys.EnsureOperator(ctx, "")) // its key was lost
	_, _, err := s.keys.MintKey(ctx, operator, keys.NewKey{Agent: "bob", Label: "laptop", Expires: time.Hour})
	s.must(nil, err)
	s.must(s.keys.RevokeKeys(ctx, operator, "bob", "laptop"))

	s.plain = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
	s.fetch(bob, true)
	s.shared = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob", "eve"}, Priority: hub.PriorityCritical})
	s.fetch(bob, false)
	n := int64(1)
	s.rich = s.send(ada, mailroom.Draft{
		To: []hub.AgentID{"bob"}, Type: hub.TypeKnowledgePush, Payload: strictjson.Trust([]byte(`{"topic":"t","summary":"<&> ü","confidence":"low"}`)), Topic: "build",
		Sequence: &n, Context: &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "url", Value: "https://x/?a=<b>"}}}, Extra: json.RawMessage(`{"x_note":"<kept>"}`),
	})
	s.held = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Policy: &gate})
	s.approved = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Policy: &gate})
	s.must(s.mail.Approve(ctx, operator, s.approved))
	s.denied = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}, Policy: &gate})
	s.must(s.mail.Deny(ctx, operator, s.denied, "not today"))
	s.everyone = s.send(operator, mailroom.Draft{To: []hub.AgentID{hub.Everyone}})
	s.expired = s.send(ada, mailroom.Draft{To: []hub.AgentID{"bob", "eve"}, ExpiresAt: hub.At(s.now.Add(time.Minute))})
	s.fetch(eve, true)
	s.pass(time.Hour)
	s.must(nil, s.mail.Sweep(ctx))
	s.must(s.mail.Respond(ctx, bob, mailroom.Draft{ReplyTo: s.plain, Type: hub.TypeStatusUpdate, Text: "done"}))
	s.must(s.keys.SetState(ctx, operator, "eve", hub.AgentPaused))

	s.open = s.move(s.move(s.move(s.propose("parser", false), hub.HandoffValidating), hub.HandoffAccepted), hub.HandoffActivated)
	s.done = s.move(s.move(s.move(s.propose("printer", false), hub.HandoffValidating), hub.HandoffRejected), hub.HandoffClosed)
	s.secret = s.propose("vault", true)
	folders, err := roots.New(s.store, s.home, &roots.Options{Clock: s.clock})
	s.must(nil, err)
	for range 2 {
		added, err := folders.Add(ctx, operator, t.TempDir())
		s.must(nil, err)
		s.must(folders.Remove(ctx, operator, added.Path))
		s.root = added.Path
	}
	s.must(folders.Add(ctx, operator, s.root))
	s.reserve(ctx)
	s.check(ctx)
	s.land(ctx)
	s.spend(ctx)
	s.goOn(ctx)
	s.fromOutside(ctx)
	s.journal.Refused(ctx, "eve", "acp/send", hub.CodeDenied)
	s.copy()

	return s
}

// cloned returns a story of its own; duplicated returns one that is not open.
func (s *story) cloned(t *testing.T) *story {
	c := s.duplicated(t)
	c.world.open()
	return c
}

func (s *story) duplicated(t *testing.T) *story {
	c := *s
	c.world = s.duplicate(t)
	return &c
}

func TestVerify(t *testing.T) {
	s := tell(t)
	t.Run("a hub on which everything happened is clean, and everything was looked at", func(t *testing.T) {
		got := s.wantClean()
		got.Head.Hash = ""
		want := records.Audit{
			Head: hub.Head{Seq: int64(len(s.entries())), At: hub.At(s.now)}, Entries: len(s.entries()),
			Messages: 18, Handoffs: 3, Agents: 4, Keys: 6, Reservations: 2, Usage: 2, Continuations: 1, Checks: 2, Results: 1, Landings: 3, Lines: got.Lines, Unchecked: []string{}, Findings: []records.Finding{},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || got.Lines < 30 {
			t.Errorf("audit:\ngot  %+v\nwant %+v", got, want)
		}
	})
	t.Run("what was not looked at is said", func(t *testing.T) {
		if got := s.verifyIn(records.Folders{}); !got.Clean() || len(got.Unchecked) != 1 {
			t.Errorf("without folders: got %+v, want the trail unchecked", got)
		}
	})
	t.Run("a caller that gives up is told so", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.records.Verify(ctx); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a trail that was never begun is not missed", func(t *testing.T) {
		w := newWorld(t)
		w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		w.wantClean()
	})
}

// quote returns a text as SQL.
func quote[S ~string](s S) string { return "'" + strings.ReplaceAll(string(s), "'", "''") + "'" }

func TestTampering(t *testing.T) {
	patience.NotUnderRace(t)
	s := tell(t)
	sent := s.rowOf(actions.MessageSent, 0)
	sentRich := s.rowOf(actions.MessageSent, 2)
	heldRow := s.rowOf(actions.MessageHeld, 0)
	last := int64(len(s.entries()))
	adaRow, bobKeyRow, revokedRow := s.rowOf(actions.AgentAdded, 1), s.rowOf(actions.KeyMinted, 2), s.rowOf(actions.KeyRevoked, 0)
	proposed, validating, accepted, activated := s.rowOf(actions.HandoffProposed, 0), s.rowOf(actions.HandoffValidating, 0), s.rowOf(actions.HandoffAccepted, 0), s.rowOf(actions.HandoffActivated, 0)

	chain := func(n int64) string {
		return fmt.Sprintf("journal row %d: its hash does not follow from row %d: this row or the hash before it was changed", n, n-1)
	}
	message := func(id hub.EnvelopeID, format string, args ...any) string {
		return "message " + string(id) + ": " + fmt.Sprintf(format, args...)
	}
	differs := func(what string) string {
		return message(s.rich, "its %s differs from journal row %d", what, sentRich)
	}
	handoff := func(format string, args ...any) string {
		return "handoff " + string(s.open.ID) + ": " + fmt.Sprintf(format, args...)
	}
	rest := "envelope (team, topic, sequence, expiry, context or an unknown member)"
	line := func(n int64) string { return fmt.Sprintf("%s line %d", firstSegment, n+1) } // after the header

	change := func(table, set, where string) string { return `UPDATE ` + table + ` SET ` + set + ` WHERE ` + where }
	onRich := "id = " + quote(s.rich)
	onPlain := "id = " + quote(s.plain)
	onOpen := "id = " + quote(s.open.ID)
	richMeta := "message_id = " + quote(s.rich)
	party := func(id hub.EnvelopeID, agent string) string {
		return "agent = " + quote(agent) + " AND seq = (SELECT seq FROM message_meta WHERE message_id = " + quote(id) + ")"
	}
	history := func(n int) string { return fmt.Sprintf("handoff_id = %s AND n = %d", quote(s.open.ID), n) }

	// What a finding in the journal, of which the trail has a copy, drags along.
	lineDiffers := func(n int64) string { return fmt.Sprintf("%s: it differs from journal row %d", line(n), n) }
	misplaced := func(n int64) string {
		return fmt.Sprintf("%s: it is about journal row %d, which does not belong there", line(n), n)
	}
	read := s.rowOf(actions.MessageRead, 0) // of plain, by bob

	for i, tt := range []struct {
		name, sql string
		want      []string
	}{
		{"the facts of a row", change("journal", `facts_json = replace(facts_json, '"hop":', '"hob":') || ' '`, fmt.Sprintf("seq = %d", adaRow)), []string{chain(adaRow), lineDiffers(adaRow)}},
		{"the actor of a row", change("journal", "actor = 'eve'", fmt.Sprintf("seq = %d", adaRow)), []string{chain(adaRow), lineDiffers(adaRow)}},
		{"the outcome of a row", change("journal", "outcome = 'failed'", fmt.Sprintf("seq = %d", adaRow)), []string{chain(adaRow), lineDiffers(adaRow)}},
		{"the time of a row", change("journal", "at = '2026-01-01T00:00:00.000Z'", fmt.Sprintf("seq = %d", last)), []string{chain(last), lineDiffers(last)}},
		{"the subject of a row", change("journal", "subject = 'x'", fmt.Sprintf("seq = %d", last)), []string{chain(last), lineDiffers(last)}},
		{"the hash of a row", change("journal", "hash = 'x'", fmt.Sprintf("seq = %d", adaRow)), []string{chain(adaRow), chain(adaRow + 1), lineDiffers(adaRow)}},
		{"a row removed", fmt.Sprintf(`DELETE FROM journal WHERE seq = %d`, revokedRow), []string{
			fmt.Sprintf("journal: row %d is missing", revokedRow), misplaced(revokedRow), "key bob/laptop: it is revoked, but the journal does not record that",
		}},
		{"rows removed", fmt.Sprintf(`DELETE FROM journal WHERE seq IN (%d, %d)`, adaRow, adaRow+1), []string{
			fmt.Sprintf("journal: rows %d to %d are missing", adaRow, adaRow+1), misplaced(adaRow), misplaced(adaRow + 1), "agent ada: no journal row records it", "key ada/default: no journal row records it",
		}},
		{"the first row removed", `DELETE FROM journal WHERE seq = 1`, []string{"journal: row 1 is missing", misplaced(1), "agent operator: no journal row records it"}},
		{"two rows in another order", fmt.Sprintf(`UPDATE journal SET seq = -1 WHERE seq = %[1]d; UPDATE journal SET seq = %[1]d WHERE seq = %[2]d; UPDATE journal SET seq = %[2]d WHERE seq = -1`,
			revokedRow-1, revokedRow), []string{
			chain(revokedRow - 1), chain(revokedRow), chain(revokedRow + 1), lineDiffers(revokedRow - 1), lineDiffers(revokedRow),
			fmt.Sprintf("journal row %d: it records 1 revoked keys, but the journal has 0", revokedRow-1),
			"key bob/laptop: it is revoked, but the journal does not record that",
		}},
		{"a row added", fmt.Sprintf(`INSERT INTO journal VALUES (%d, '2026-02-21T10:00:00.000Z', 'eve', 'call.refused', '', 'ok', '{}', 'x')`, last+1), []string{chain(last + 1)}},
		{"a row about a message changed", change("journal", "actor = 'eve'", fmt.Sprintf("seq = %d", read)), []string{
			chain(read), lineDiffers(read),
			message(s.plain, "its status is read, but the journal says delivered"), message(s.plain, "it is read for bob, but the journal says delivered"),
			message(s.plain, "its processed mark for bob differs from the journal"),
			message(s.plain, "the delivery ledger says read for the inbox of bob, but the journal says delivered"),
		}},
		{"the tail of the journal cut off", fmt.Sprintf(`DELETE FROM journal WHERE seq = %d`, last), []string{
			misplaced(last),
			fmt.Sprintf("journal: it ends at row %d, but the trail has seen row %d: the tail of the journal was cut off", last-1, last),
			fmt.Sprintf("head.json: it names row %d with hash %.12s, which is not in the journal: the tail of the journal was cut off", last, s.entries()[last-1].Hash),
		}},

		{"the sender of a message", change("messages", "from_agent = 'eve'", onRich), []string{differs("sender")}},
		{"the recipients of a message", change("messages", `to_agents_json = '["eve"]'`, onRich), []string{differs("recipients")}},
		{"the thread of a message", change("messages", "thread_id = 'x'", onRich), []string{differs("thread_id")}},
		{"what a message answers", change("messages", "reply_to = "+quote(s.plain), onRich), []string{differs("reply_to")}},
		{"the type of a message", change("messages", "type = 'status.update'", onRich), []string{differs("type")}},
		{"the priority of a message", change("messages", "priority = 'low'", onRich), []string{differs("priority")}},
		{"the policy of a message", change("messages", "policy_json = replace(policy_json, 'private', 'human-audit')", onRich), []string{differs("policy")}},
		{"the payload of a message", change("messages", "payload_json = replace(payload_json, 'ü', 'u')", onRich), []string{differs("payload")}},
		{"the time of a message", change("messages", "created_at = '2026-02-21T09:00:00.000Z'", onRich), []string{differs("time of creation")}},
		{"the team of a message", change("messages", "team = 'other'", onRich), []string{differs(rest)}},
		{"the topic of a message", change("messages", "topic = NULL", onRich), []string{differs(rest)}},
		{"the sequence of a message", change("messages", "sequence = 2", onRich), []string{differs(rest)}},
		{"the expiry of a message", change("messages", "expires_at = '2027-01-01T00:00:00.000Z'", onRich), []string{differs(rest)}},
		{"the context of a message", change("messages", "context_json = '{}'", onRich), []string{differs(rest)}},
		{"the version of a message", change("messages", "version = '1.0.1'", onRich), []string{differs(rest)}},
		{"the protocol of a message", change("messages", "protocol = 'x'", onRich), []string{differs(rest)}},
		{"an unknown member of a message", change("message_meta", `extra_json = '{"x_note":"lost"}'`, richMeta), []string{differs(rest)}},
		{"the hops of a message", change("message_meta", "hop = 3", richMeta), []string{differs("hop")}},
		{"the cause of a message", change("message_meta", "cause_id = 'x'", richMeta), []string{differs("cause")}},
		{"a policy that is no policy", change("messages", "policy_json = '['", onRich), []string{
			message(s.rich, "it cannot be read: message %s has a broken policy: unexpected end of JSON input", s.rich),
			fmt.Sprintf("messages: cannot read further: message %s has a broken policy: unexpected end of JSON input", s.rich),
		}},
		{"the status of a message", change("messages", "status = 'pending', updated_at = NULL", onPlain), []string{message(s.plain, "its status is pending, but the journal says read")}},
		{"the time of a message's last change", change("messages", "updated_at = '2026-02-21T08:00:00.000Z'", onPlain), []string{message(s.plain, "its time of last change differs from the journal")}},
		{"the state of a recipient", change("message_party", "state = 'unread'", party(s.plain, "bob")), []string{
			message(s.plain, "it is unread for bob, but the journal says read"),
		}},
		{"a held message let through", change("message_party", "state = 'unread', hidden = 0", party(s.held, "bob")), []string{
			message(s.held, "it is unread for bob, but the journal says held"),
		}},
		{"a held message shown", change("message_party", "hidden = 0", party(s.held, "bob")), []string{message(s.held, "its visibility for bob differs from the journal")}},
		{"a recipient removed", `DELETE FROM message_party WHERE ` + party(s.shared, "eve"), []string{message(s.shared, "it no longer names eve")}},
		{"a recipient added", `INSERT INTO message_party SELECT 'eve', seq, 'unread', 2, 'status.update', 0 FROM message_meta WHERE message_id = ` + quote(s.plain), []string{
			message(s.plain, "it names eve, which is not in the journal"),
		}},
		{"a recipient of a broadcast removed", `DELETE FROM message_party WHERE ` + party(s.everyone, "bob"), []string{
			message(s.everyone, "it has 2 recipients, but journal row %d recorded 3", s.rowOf(actions.MessageSent, 5)),
			message(s.everyone, "row 17 of the delivery ledger names bob, which is not a recipient"),
		}},
		{"what the delivery ledger says", `UPDATE delivery_log SET status = 'stored' WHERE message_id = ` + quote(s.plain), []string{
			message(s.plain, "the delivery ledger says stored for the inbox of bob, but the journal says read"),
		}},
		{"a row of the delivery ledger removed", `DELETE FROM delivery_log WHERE message_id = ` + quote(s.plain), []string{
			message(s.plain, "the delivery ledger has no row for the inbox of bob"),
		}},
		{"the note that a message was processed", `DELETE FROM processed WHERE message_id = ` + quote(s.plain), []string{
			message(s.plain, "its processed mark for bob differs from the journal"),
		}},
		{"a message removed", fmt.Sprintf(`DELETE FROM messages WHERE %[1]s; DELETE FROM message_meta WHERE message_%[1]s`, onPlain), []string{
			message(s.plain, "it is missing, though journal row %d records it", sent),
		}},
		{"a held message removed", fmt.Sprintf(`DELETE FROM messages WHERE id = %[1]s; DELETE FROM message_meta WHERE message_id = %[1]s`, quote(s.held)), []string{
			message(s.held, "it is missing, though journal row %d records it", heldRow),
		}},
		{"a message added", `CREATE TEMP TABLE n AS SELECT * FROM messages WHERE ` + onPlain + `; UPDATE n SET id = '01947b1e-0000-7000-8000-000000000000';
			INSERT INTO messages SELECT * FROM n; INSERT INTO message_meta VALUES (1, '01947b1e-0000-7000-8000-000000000000', 0, NULL, NULL);
			INSERT INTO message_party VALUES ('bob', 1, 'unread', 2, 'status.update', 0)`, []string{
			message("01947b1e-0000-7000-8000-000000000000", "no journal row records it"),
		}},

		{"a package", change("handoffs", `package_json = replace(package_json, 'parser', 'Parser')`, onOpen), []string{
			handoff("its package was changed: the hash is #, but # was recorded"),
			fmt.Sprintf("%s: its data beside journal row %d differs from the database", line(proposed), proposed),
		}},
		{"the hash of a package", change("handoffs", `verification_json = '{"package_hash":"0123456789ab"}'`, onOpen), []string{
			handoff("its package was changed: the hash is #, but # was recorded"),
			handoff("its package hash differs from journal row %d", proposed),
			handoff("its package hash differs from journal row %d", validating),
			handoff("its package hash differs from journal row %d", accepted),
			handoff("its package hash differs from journal row %d", activated),
			fmt.Sprintf("%s: its data beside journal row %d differs from the database", line(proposed), proposed),
		}},
		{"the status of a handoff", change("handoffs", "status = 'completed'", onOpen), []string{handoff("its status is completed, but its history says activated")}},
		{"the receiver of a handoff", change("handoffs", "to_agent = 'eve'", onOpen), []string{
			handoff("its receiver differs from journal row %d", proposed),
			handoff("its receiver differs from journal row %d", validating),
			handoff("its receiver differs from journal row %d", accepted),
			handoff("its receiver differs from journal row %d", activated),
			fmt.Sprintf("%s: its data beside journal row %d differs from the database", line(proposed), proposed),
		}},
		{"the thread of a handoff", change("handoffs", "thread_id = 'x'", onOpen), []string{
			handoff("its content (title, reason, deadline, thread or a policy) differs from journal row %d", proposed),
		}},
		{"the policy of a handoff", change("handoff_meta", "needs_human = 1", "handoff_"+onOpen), []string{
			handoff("its content (title, reason, deadline, thread or a policy) differs from journal row %d", proposed),
		}},
		{"when a handoff was accepted", change("handoff_meta", "accepted_at = '2026-02-22T09:00:00.000Z'", "handoff_"+onOpen), []string{
			handoff("its time of acceptance does not follow from its history"),
		}},
		{"when a handoff was escalated", change("handoff_meta", "escalated_at = '2026-02-22T09:00:00.000Z'", "handoff_"+onOpen), []string{
			handoff("its time of the notice that it is late differs from the journal"),
		}},
		{"who keeps track of a task", change("handoff_meta", "ownership = 'confirmed'", "handoff_"+onOpen), []string{
			handoff("its ownership differs from the journal"),
			handoff("its ownership does not follow from its history"),
		}},
		{"when a handoff was resolved", change("handoffs", "resolved_at = '2026-02-22T09:00:00.000Z'", onOpen), []string{
			handoff("its time of completion or rejection does not follow from its history"),
		}},
		{"how a handoff ended, for people", change("handoffs", "resolution_notes = 'all tests pass'", onOpen), []string{
			handoff("its closing note does not follow from its history"),
		}},
		{"the approval of a handoff", change("handoff_meta", "approved_at = '2026-02-21T09:00:00.000Z'", "handoff_"+onOpen), []string{
			handoff("its approval differs from the journal"),
		}},
		{"the reason of a rejection", change("handoff_meta", "reject_reason = 'timeout_risk'", "handoff_id = "+quote(s.done.ID)), []string{
			fmt.Sprintf("handoff %s: its reason for rejection differs from journal row %d", s.done.ID, s.rowOf(actions.HandoffRejected, 0)),
		}},
		{"a step of a history", change("handoff_history", "note = 'thanks'", history(1)), []string{
			handoff("step 1 (proposed) of its history differs from journal row %d", proposed),
		}},
		{"who made a step", change("handoff_history", "actor = 'eve'", history(2)), []string{
			handoff("step 2 (validating) of its history differs from journal row %d", validating),
		}},
		{"what was found in a step", change("handoff_history", "checks_json = NULL", history(3)), []string{
			handoff("step 3 (accepted) of its history differs from journal row %d", accepted),
		}},
		{"where a step led", change("handoff_history", "state = 'rejected'", history(3)), []string{
			handoff("step 3 of its history is rejected, but journal row %d recorded accepted", accepted),
			handoff("step 4 of its history leads from rejected to activated, which is not a valid move"),
			handoff("its time of acceptance does not follow from its history"),
			handoff("its time of completion or rejection does not follow from its history"),
		}},
		{"the last step removed", `DELETE FROM handoff_history WHERE ` + history(4), []string{
			handoff("its status is activated, but its history says accepted"),
			handoff("its history has no step 4 (activated), though journal row %d records it", activated),
		}},
		{"a history removed", `DELETE FROM handoff_history WHERE handoff_id = ` + quote(s.secret.ID), []string{
			fmt.Sprintf("handoff %s: it has no history", s.secret.ID),
			fmt.Sprintf("handoff %s: its history has no step 1 (proposed), though journal row %d records it", s.secret.ID, s.rowOf(actions.HandoffProposed, 2)),
		}},
		{"a step added", fmt.Sprintf(`INSERT INTO handoff_history VALUES (%s, 5, 'completed', '2026-02-21T10:00:00.000Z', 'bob', NULL, NULL)`, quote(s.open.ID)), []string{
			handoff("its status is activated, but its history says completed"),
			handoff("no journal row records step 5 (completed) of its history"),
			handoff("its time of completion or rejection does not follow from its history"),
		}},
		{"a handoff removed", fmt.Sprintf(`DELETE FROM handoff_history WHERE handoff_id = %[1]s; DELETE FROM handoff_meta WHERE handoff_id = %[1]s; DELETE FROM handoffs WHERE id = %[1]s`, quote(s.secret.ID)), []string{
			fmt.Sprintf("handoff %s: it is missing, though journal row %d records it", s.secret.ID, s.rowOf(actions.HandoffProposed, 2)),
			fmt.Sprintf("%s: its data beside journal row %d differs from the database", line(s.rowOf(actions.HandoffProposed, 2)), s.rowOf(actions.HandoffProposed, 2)),
		}},
		{"a handoff added", `CREATE TEMP TABLE n AS SELECT * FROM handoffs WHERE id = ` + quote(s.done.ID) + `; UPDATE n SET id = 'x'; INSERT INTO handoffs SELECT * FROM n;
			INSERT INTO handoff_meta (handoff_id) VALUES ('x'); INSERT INTO handoff_history VALUES ('x', 1, 'closed', '2026-02-21T10:00:00.000Z', 'bob', NULL, NULL)`, []string{
			"handoff x: no journal row records it",
			"handoff x: its time of completion or rejection does not follow from its history",
		}},

		{"the role of an agent", change("agents", "role = 'coordinator'", "id = 'ada'"), []string{fmt.Sprintf("agent ada: its role is coordinator, but journal row %d recorded executor", adaRow)}},
		{"an agent made an auditor", change("agents", "auditor = 1", "id = 'ada'"), []string{fmt.Sprintf("agent ada: its auditor flag differs from journal row %d", adaRow)}},
		{"the time of an agent", change("agents", "created_at = '2026-01-01T00:00:00.000Z'", "id = 'ada'"), []string{fmt.Sprintf("agent ada: its time of creation differs from journal row %d", adaRow)}},
		{"a paused agent", change("agents", "state = 'active'", "id = 'eve'"), []string{"agent eve: it is active, but the journal says paused"}},
		{"an agent added", `INSERT INTO agents VALUES ('mallory', 'executor', 1, 'active', '2026-02-21T09:00:00.000Z', NULL)`, []string{"agent mallory: no journal row records it"}},
		{"a root added", `CREATE TEMP TABLE n AS SELECT * FROM roots; UPDATE n SET path = '/etc'; INSERT INTO roots SELECT * FROM n`, []string{"root /etc: no journal row records it"}},
		{"a root removed", `DELETE FROM roots`, []string{fmt.Sprintf("root %s: it is missing, though journal row %d records it", s.root, s.rowOf(actions.RootAdded, 2))}},
		{"a root of another time", `UPDATE roots SET added_at = '2026-02-20T09:00:00.000Z'`, []string{fmt.Sprintf("root %s: it differs from journal row %d", s.root, s.rowOf(actions.RootAdded, 2))}},
		{"a reservation added", `CREATE TEMP TABLE n AS SELECT * FROM reservations WHERE fence = 1; UPDATE n SET fence = 99; INSERT INTO reservations SELECT * FROM n`, []string{"reservation r99: no journal row records it"}},
		{"a reservation removed", `DELETE FROM reservations WHERE fence = 1`, []string{fmt.Sprintf("reservation r1: it is missing, though journal row %d records it", s.rowOf(actions.ReservationTaken, 0))}},
		{"a reservation of another agent", change("reservations", "holder = 'bob'", "fence = 1"), []string{fmt.Sprintf("reservation r1: it differs from journal row %d", s.rowOf(actions.ReservationTaken, 0))}},
		{"a check added", `INSERT INTO repository_checks SELECT machine, repository, 'other', replace(body_json, '"name":"test"', '"name":"other"') FROM repository_checks WHERE name = 'test'`, []string{"check /src#other: no journal row records it"}},
		{"a check removed", `DELETE FROM repository_checks WHERE name = 'test'`, []string{fmt.Sprintf("check /src#test: it is missing, though journal row %d records it", s.rowOf(actions.CheckAdded, 0))}},
		{"a check with another command", change("repository_checks", `body_json = replace(body_json, '"make","test"', '"sh","evil"')`, "name = 'test'"), []string{fmt.Sprintf("check /src#test: it differs from journal row %d", s.rowOf(actions.CheckAdded, 0))}},
		{"a trusted check with another command", change("repository_checks", `body_json = replace(body_json, 'golint', 'evil')`, "name = 'lint'"), []string{fmt.Sprintf("check /src#lint: it differs from journal row %d", s.rowOf(actions.CheckTrusted, 0))}},
		{"a result of another commit", change("check_results", `commit_id = 'c2', body_json = replace(body_json, '"commit":"c1"', '"commit":"c2"')`, "n = 1"), []string{fmt.Sprintf("result c1: it differs from journal row %d", s.rowOf(actions.CheckRun, 0))}},
		{"a result removed", `DELETE FROM check_results WHERE n = 1`, []string{fmt.Sprintf("result c1: it is missing, though journal row %d records it", s.rowOf(actions.CheckRun, 0))}},
		{"tokens removed from a turn", change("usages", "input = 9", "id = 'm1'"), []string{fmt.Sprintf("usage u1: its sums differ from journal row %d", s.rowOf(actions.UsageRecorded, 2))}},
		{"a turn removed", `DELETE FROM usages WHERE record = 2`, []string{fmt.Sprintf("usage u2: it is missing, though journal row %d records it", s.rowOf(actions.UsageRecorded, 1))}},
		{"a turn added", `CREATE TEMP TABLE n AS SELECT * FROM usages WHERE record = 1 LIMIT 1; UPDATE n SET record = 9, id = 'm9'; INSERT INTO usages SELECT * FROM n`, []string{"usage u9: no journal row records it"}},
		{"a budget raised", change("budgets", "most = 5000", "n = 1"), []string{fmt.Sprintf("budget b1: its limit differs from journal row %d", s.rowOf(actions.BudgetSet, 0))}},
		{"a continuation to another agent", change("continuations", `body_json = replace(body_json, '"of":"bob"', '"of":"eve"')`, "n = 1"), []string{fmt.Sprintf("continuation k1: it differs from journal row %d", s.rowOf(actions.ContinuationMade, 1))}},
		{"an event source with another target", change("event_sources", `body_json = replace(body_json, '"to":"bob"', '"to":"eve"')`, "name = 'hooks'"), []string{fmt.Sprintf("event source hooks: it differs from journal row %d", s.rowOf(actions.SourceAdded, 0))}},
		{"a schedule with another text", change("schedules", `body_json = replace(body_json, 'plan the day', 'delete the day')`, "n = 1"), []string{fmt.Sprintf("schedule e1: it differs from journal row %d", s.rowOf(actions.ScheduleAdded, 0))}},
		{"a schedule removed", `DELETE FROM schedules WHERE n = 1`, []string{fmt.Sprintf("schedule e1: it is missing, though journal row %d records it", s.rowOf(actions.ScheduleAdded, 0))}},
		{"a continuation removed", `DELETE FROM continuations WHERE n = 1`, []string{fmt.Sprintf("continuation k1: it is missing, though journal row %d records it", s.rowOf(actions.ContinuationMade, 1))}},
		{"a rescue with another commit", change("rescues", `body_json = replace(body_json, 'commit-of-2', 'commit-of-9')`, "n = 2"), []string{fmt.Sprintf("rescue s2: it differs from journal row %d", s.rowOf(actions.RescueMade, 1))}},
		{"a rescue removed", `DELETE FROM rescues WHERE n = 2`, []string{fmt.Sprintf("rescue s2: it is missing, though journal row %d records it", s.rowOf(actions.RescueMade, 1))}},
		{"a rescue that was dropped", `CREATE TEMP TABLE n AS SELECT * FROM rescues WHERE n = 2; UPDATE n SET n = 1, body_json = replace(body_json, '"s2"', '"s1"'); INSERT INTO rescues SELECT * FROM n`, []string{"rescue s1: no journal row records it"}},
		{"an orphan that is held again", change("reservations", "state = 'held'", "fence = 3"), []string{"reservation r3: it is held, but the journal says orphan"}},
		{"a landing of another owner", change("landings", "body_json = replace(body_json, 'two-commit', 'bad-commit')", "n = 2"), []string{fmt.Sprintf("landing l2: it differs from journal row %d", s.rowOf(actions.LandingQueued, 3))}},
		{"a landing removed", `DELETE FROM landings WHERE n = 1`, []string{fmt.Sprintf("landing l1: it is missing, though journal row %d records it", s.rowOf(actions.LandingQueued, 0))}},
		{"an approval that was not given", change("reviews", "body_json = replace(body_json, 'waiting', 'approved')", "n = 1"), []string{fmt.Sprintf("review v1: it differs from journal row %d", s.rowOf(actions.ReviewRequested, 0))}},
		{"a landing policy without review", change("landing_policies", `body_json = replace(body_json, '"review":"operator"', '"review":"none"')`, "1 = 1"), []string{fmt.Sprintf("landing policy /src main: it differs from journal row %d", s.rowOf(actions.LandingSet, 0))}},
		{"an agent removed", `DELETE FROM agent_keys WHERE agent = 'ada'; DELETE FROM agents WHERE id = 'ada'`, []string{
			fmt.Sprintf("agent ada: it is missing, though journal row %d records it", adaRow), fmt.Sprintf("key ada/default: it is missing, though journal row %d records it", adaRow+1),
		}},
		{"a key that was revoked", change("agent_keys", "revoked_at = NULL", "id = 'bob/laptop'"), []string{
			fmt.Sprintf("key bob/laptop: it is not revoked, but journal row %d records that it was", revokedRow),
		}},
		{"a key that was not revoked", change("agent_keys", "revoked_at = '2026-02-21T09:00:00.000Z'", "id = 'bob/default'"), []string{
			"key bob/default: it is revoked, but the journal does not record that",
		}},
		{"the time of a revocation", change("agent_keys", "revoked_at = '2026-02-21T08:00:00.000Z'", "id = 'bob/laptop'"), []string{
			fmt.Sprintf("key bob/laptop: its time of revocation differs from journal row %d", revokedRow),
		}},
		{"the secret of a key", change("agent_keys", "hash = 'x'", "id = 'bob/default'"), []string{fmt.Sprintf("key bob/default: it differs from journal row %d", bobKeyRow)}},
		{"the expiry of a key", change("agent_keys", "expires_at = NULL", "id = 'bob/laptop'"), []string{
			fmt.Sprintf("key bob/laptop: it differs from journal row %d", revokedRow-1),
		}},
		{"a key added", `INSERT INTO agent_keys VALUES ('ada/x', 'ada', 'x', 'x', 'x', '2026-02-21T09:00:00.000Z', NULL, NULL)`, []string{"key ada/x: no journal row records it"}},
		{"the list of archives", `INSERT INTO journal_archives VALUES (1, 'x', '2020-01-01T00:00:00.000Z', 'archive-1.jsonl', 'x', 1, 0, '2026-02-21T09:00:00.000Z')`, []string{
			"archive archive-1.jsonl: the file is missing",
			chain(2),
		}},
	} {
		if !patience.Chosen(i, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			c := s.duplicated(t)
			c.raw(tt.sql)
			c.world.open()
			c.wantFound(tt.want...)
		})
	}

	const head = "head.json"
	lines := func(change func([]string) []string) func([]byte) []byte {
		return func(b []byte) []byte {
			all := strings.SplitAfter(string(b), "\n")
			return []byte(strings.Join(change(all[:len(all)-1]), ""))
		}
	}
	swap := func(was, is string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(was), []byte(is), 1) }
	}
	missing := func(n int64) string {
		return fmt.Sprintf("%s: the line for journal row %d is missing", firstSegment, n)
	}
	notTheMessage := func(n int64) string {
		return fmt.Sprintf("%s: its message differs from journal row %d", line(n), n)
	}
	printer := s.rowOf(actions.HandoffProposed, 1)
	for i, tt := range []struct {
		name, file string
		change     func([]byte) []byte // nil removes the file
		want       []string
	}{
		{"a word in a line of the trail", firstSegment, swap(`"actor":"ada"`, `"actor":"eve"`), []string{lineDiffers(sent)}},
		{"the message in a line of the trail", firstSegment, swap(`"message at `, `"Message at `), []string{notTheMessage(sent)}},
		{"a member that is not shown in a line of the trail", firstSegment, swap(`"x_note":"<kept>"`, `"x_note":"<lost>"`), []string{notTheMessage(sentRich)}},
		{"the message removed from a line of the trail", firstSegment, lines(func(l []string) []string {
			l[sent] = l[sent][:strings.Index(l[sent], `,"envelope":`)] + "}\n"
			return l
		}), []string{notTheMessage(sent)}},
		{"a message added to a line of the trail", firstSegment, lines(func(l []string) []string {
			l[read] = strings.TrimSuffix(l[read], "}\n") + l[sent][strings.Index(l[sent], `,"envelope":`):]
			return l
		}), []string{line(read) + ": it is not in the form that the hub writes"}},
		{"the package in a line of the trail", firstSegment, swap(`"title":"printer"`, `"title":"Printer"`), []string{
			fmt.Sprintf("%s: its data beside journal row %d differs from the database", line(printer), printer),
		}},
		{"a blank in a line of the trail", firstSegment, swap(`"seq":`, `"seq": `), []string{line(1) + ": it is not in the form that the hub writes"}},
		{"a blank in a message of the trail", firstSegment, swap(`"payload":{"summary":"message`, `"payload":{"summary": "message`), []string{line(sent) + ": it is not in the form that the hub writes"}},
		{"a line that is no line", firstSegment, lines(func(l []string) []string { l[2] = "hello\n"; return l }), []string{
			line(2) + ": it cannot be read: invalid character 'h' looking for beginning of value", missing(2),
		}},
		{"the header of the trail", firstSegment, swap(`"version":1`, `"version":1,"after":2`), []string{
			firstSegment + " line 1: it does not name journal row 0, the last one before the segment",
		}},
		{"the first line of the trail removed", firstSegment, lines(func(l []string) []string { return l[1:] }), []string{
			firstSegment + ": it cannot be read: line 1: it is not the header of a segment", "trail: it ends before journal row 1",
		}},
		{"the first entry of the trail removed", firstSegment, lines(func(l []string) []string { return slices.Delete(l, 1, 2) }), []string{
			missing(1), firstSegment + " line 1: it does not name journal row 1, the last one before the segment",
		}},
		{"a line of the trail removed", firstSegment, lines(func(l []string) []string { return slices.Delete(l, 4, 5) }), []string{missing(4)}},
		{"the last lines of the trail removed", firstSegment, lines(func(l []string) []string { return l[:last-1] }), []string{
			fmt.Sprintf("%s: it ends before journal row %d", firstSegment, last-1),
		}},
		{"a line of the trail doubled", firstSegment, lines(func(l []string) []string { return slices.Insert(l, 3, l[2]) }), []string{
			firstSegment + " line 4: it is about journal row 2, which does not belong there",
		}},
		{"lines of the trail in another order", firstSegment, lines(func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }), []string{
			missing(2), firstSegment + " line 4: it is about journal row 2, which does not belong there",
		}},
		{"a line added to the trail", firstSegment, lines(func(l []string) []string {
			return append(l, strings.Replace(l[last], fmt.Sprintf(`"seq":%d,`, last), `"seq":9999,`, 1))
		}), []string{fmt.Sprintf("%s line %d: it is about journal row 9999, which does not belong there", firstSegment, last+2)}},
		{"a row of a table in the trail", firstSegment, lines(func(l []string) []string {
			return slices.Insert(l, 2, `{"table":"agents","row":{}}`+"\n")
		}), []string{firstSegment + " line 3: a trail cannot contain this line"}},
		{"a seal in the open segment", firstSegment, lines(func(l []string) []string {
			return append(l, `{"seal":{"first":1,"last":2,"hash":"","entries":2,"messages":0,"rows":0,"sha256":""}}`+"\n")
		}), []string{fmt.Sprintf("%s line %d: it cannot be read: the seal does not match the lines before it", firstSegment, last+2)}},
		{"a segment of the trail removed", firstSegment, nil, []string{"trail: it ends before journal row 1"}},
		{"the head removed", head, nil, []string{"head.json: it is missing"}},
		{"the head changed", head, swap(`"hash":"`, `"hash":"0`), []string{
			fmt.Sprintf("head.json: it names row %d with hash 0%.11s, which is not in the journal: the journal was cut off before it and rewritten", last, s.entries()[last-1].Hash),
		}},
		{"an older head put back", head, func([]byte) []byte {
			e := s.entries()[2]
			return fmt.Appendf(nil, `{"seq":%d,"hash":%q,"at":%q}`, e.Seq, e.Hash, e.At)
		}, []string{fmt.Sprintf("head.json: it names row 3, but the trail reaches row %d", last)}},
		{"a head that is no head", head, func([]byte) []byte { return []byte("[]") }, []string{"head.json: it cannot be read: it is not a head"}},
	} {
		if !patience.Chosen(i, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			c := s.cloned(t)
			path := filepath.Join(c.trail(), tt.file)
			if tt.change == nil {
				c.must(nil, os.Remove(path))
			} else {
				c.edit(path, tt.change)
			}
			c.wantFound(tt.want...)
		})
	}

	t.Run("R3-163 a tail that was cut off and written anew, after the hub has gone on", func(t *testing.T) {
		c := s.duplicated(t)
		c.raw(fmt.Sprintf(`DELETE FROM journal WHERE seq > %d`, last-2))
		c.world.open()
		c.must(nil, c.journal.Started(t.Context(), "x"))
		c.must(nil, c.journal.Started(t.Context(), "y"))
		c.copy()
		got := c.verify()
		if !slices.ContainsFunc(got.Findings, func(f records.Finding) bool {
			return strings.HasPrefix(f.Where, "head.json.conflict-") && strings.Contains(f.What, "set aside")
		}) {
			t.Errorf("findings: got %v, want one that names the head that was set aside", got.Findings)
		}
	})
	t.Run("more findings than are named are counted", func(t *testing.T) {
		c := s.duplicated(t)
		c.raw(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO journal SELECT i, '2026-02-21T10:00:00.000Z', 'eve', 'call.refused', '', 'ok', '{}', 'x' FROM n`, last+1, last+records.MaxFindings+7))
		c.world.open()
		if got := c.verify(); len(got.Findings) != records.MaxFindings || got.More != 7 {
			t.Errorf("findings: got %d and %d more, want %d and 7", len(got.Findings), got.More, records.MaxFindings)
		}
	})
}

// TestTrailGrowsWhileVerified pauses a verification that is ahead of the trail, and
// lets the trail catch up before it goes on.
func TestTrailGrowsWhileVerified(t *testing.T) {
	w := newWorld(t)
	w.copy()
	w.update(func(tx hub.Tx) error {
		for range 700 {
			if _, err := tx.Append(hub.Entry{At: hub.At(w.clock()), Actor: hub.Self, Action: actions.HubStarted, Outcome: hub.OutcomeOK}); err != nil {
				return err
			}
		}
		return nil
	})
	f := records.Folders{Trail: w.trail(), Archives: w.archives(), Position: filepath.Join(t.TempDir(), "position")}
	a, err := records.New(w.store, f, nil).VerifyFor(t.Context(), 0, "")
	for err == nil && a.Progress != nil {
		if a.Progress.Done > 200 { // past the end of the trail, before that of the journal
			w.copy()
		}
		a, err = records.New(w.store, f, nil).VerifyFor(t.Context(), 0, a.Progress.ID)
	}
	if err != nil || len(a.Findings) != 0 {
		t.Errorf("got %v, findings %v", err, a.Findings)
	}
}
