package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// A thread is the surroundings of a message that a person reads with it.
type thread struct {
	short mailroom.ShortIDs
	talk  *hub.Deliberation // that the message is a part of, nil if there is none
}

// readThread reads the thread of a message; arg is the id that was typed. Messages of a
// negotiation are not read, because the hub would note that the caller has seen them. A
// failure costs the reader the short ids alone.
func readThread(ctx context.Context, c *rpc.Client, e hub.Envelope, arg string) thread {
	t := thread{short: mailroom.ShortIDs{}}
	if e.Type.Negotiates() {
		if got, err := rpc.Call(ctx, c, api.ListTalks, api.TalkListParams{}); err == nil {
			maps.Copy(t.short, got.ShortIDs)
			if i := slices.IndexFunc(got.Deliberations, func(d hub.Deliberation) bool { return d.ID == e.ThreadID }); i >= 0 {
				t.talk = &got.Deliberations[i]
			}
		}
	} else if mail, err := rpc.Call(ctx, c, api.Query, api.QueryParams{Thread: e.ThreadID, Type: e.Type}); err == nil {
		maps.Copy(t.short, mail.ShortIDs)
	}

	if id := hub.ShortID(arg); id.Is(hub.ShortMessage) {
		t.short[string(e.ID)] = id
	}
	return t
}

// writeMessageTrace writes a message and its history for a person.
func writeMessageTrace(w io.Writer, t mailroom.Trace, around thread) {
	e := t.Message
	short := around.short
	text := shorten.Line(localTimes(cutHashes(short.Headline(e))), maxHeadline)
	fmt.Fprintf(w, "%s %s: %q from %s to %s\n", short.Of(string(e.ID)), state(e.Status).on(w), text, e.From, mailroom.JoinTo(e.To))

	var f facts
	f.add("type", string(e.Type))
	if e.Priority != hub.PriorityNormal {
		f.add("priority", string(e.Priority))
	}
	f.add("topic", plaintext.Line(e.Topic))
	if e.ThreadID != string(e.ID) {
		f.add("thread", short.Of(e.ThreadID))
	}
	if around.talk != nil {
		f.add(string(around.talk.Kind), string(around.talk.State))
	}
	f.add("answers", short.Of(string(e.ReplyTo)))
	f.add("caused by", short.Of(string(t.Cause)))
	if t.Hop > 0 {
		f.add("hop", strconv.Itoa(t.Hop))
	}
	if !e.ExpiresAt.IsZero() {
		f.add("expires", when(e.ExpiresAt))
	}
	f.add("id", string(e.ID))
	f.write(w)

	fmt.Fprintln(w)
	for _, s := range t.Steps {
		if text := stepText(s, short); text != "" {
			fmt.Fprintf(w, "%s  %s\n", when(s.At), plaintext.Line(text))
		}
	}
}

// maxHeadline is the most characters of a message's text in a sentence.
const maxHeadline = 80

// messageVerbs are the steps of a message as a person reads them, behind the agent.
var messageVerbs = map[actions.Action]string{
	actions.MessageSent: "sent it", actions.MessageHeld: "sent it, and it waits for approval", actions.MessageApproved: "approved it", actions.MessageDenied: "denied it",
	actions.MessageDelivered: "fetched it", actions.MessageRead: "read it", actions.MessageExpired: "let it expire", actions.MessageRetried: "sent it again",
	actions.MessageForgotten: "removed its text",
}

// stepText returns a step of a message for a person; "" for a row of the inbox that the
// journal says already.
func stepText(s mailroom.Step, short mailroom.ShortIDs) string {
	action := actions.Action(s.What)
	detail := localTimes(cutHashes(s.Detail))
	what := s.What
	switch verb, known := messageVerbs[action]; {
	case action == actions.MessageSent || action == actions.MessageHeld:
		return s.Who + " " + verb // its facts are above
	case s.Kind == "journal" && known:
		what = verb
		detail = factsText(json.RawMessage(s.Detail), short)
	case s.Kind == "journal":
		detail = factsText(json.RawMessage(s.Detail), short)
	case s.What == "inbox: read" || s.What == "inbox: offered":
		return ""
	}
	if detail != "" {
		what += " (" + detail + ")"
	}
	return s.Who + " " + what
}

// writeMailOf writes the messages of a thread, oldest first.
func writeMailOf(w io.Writer, mail api.QueryAnswer) {
	if mail.Listing == nil || len(mail.Messages) == 0 {
		return
	}
	fmt.Fprintln(w)
	oldest := slices.Clone(mail.Messages)
	slices.Reverse(oldest)
	writeTable(w, "MESSAGE, SENT, TYPE, FROM, TO, STATUS", oldest, func(e hub.Envelope) []any {
		return []any{mail.ShortIDs.Of(string(e.ID)), e.CreatedAt, e.Type, e.From, mailroom.JoinTo(e.To), state(e.Status)}
	})
}

// writeRunTrace writes a run from end to end, for people.
func writeRunTrace(w io.Writer, r api.RunTrace) {
	defer writeCost(w, r.Spend)
	fmt.Fprintf(w, "%s %s", r.ID, state(r.State).on(w))
	if r.Verdict != "" {
		fmt.Fprintf(w, ", %s", state(r.VerdictText()).on(w))
	}
	fmt.Fprintf(w, ": %q by %s for %s\n", shorten.Line(r.Task, maxHeadline), r.Agent, r.By)

	var f facts
	f.add("folder", r.Dir)
	f.add("started", when(r.StartedAt))
	if !r.EndedAt.IsZero() {
		f.add("ended", when(r.EndedAt))
	}
	for _, c := range r.Contradictions {
		f.add("found", plaintext.Line(fmt.Sprintf("%s: %s; found: %s", c.Kind, c.Claim, c.Found)))
	}
	if r.ThreadID != string(r.ID) {
		f.add("thread", r.ThreadID)
	}
	f.add("handoff", string(r.Handoff))
	f.add("message", string(r.Message))
	f.write(w)

	fmt.Fprintln(w)
	for _, e := range r.Journal {
		fmt.Fprintln(w, entryText(e))
	}
}

// entryText returns an entry of the journal about one thing for a person: the time, the actor
// and what it did. The kind of the thing is left out.
func entryText(e hub.Entry) string {
	_, verb, ok := strings.Cut(string(e.Action), ".")
	if !ok {
		verb = string(e.Action)
	}
	text := fmt.Sprintf("%s  %s %s", when(e.At), e.Actor, verb)
	if f := factsText(e.Facts, nil); f != "" {
		text += " (" + f + ")"
	}
	return plaintext.Line(text)
}

// factsText returns the facts of a journal entry for a person: name and value of each,
// without hashes and without ids that have no short form.
func factsText(raw json.RawMessage, short mailroom.ShortIDs) string {
	return localTimes(cutHashes(mailroom.Text{Short: short, When: when}.Facts(raw)))
}

// factText returns the value of a fact, "" for one that says nothing to a person.
func factText(raw json.RawMessage, short mailroom.ShortIDs) string {
	return localTimes(cutHashes(mailroom.Text{Short: short, When: when}.Fact(raw)))
}
