package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// messageFlags are the flags of the commands that send a message.
type messageFlags struct {
	api.SendParams
	payload, context              string
	visibility, sensitivity, gate string
	refs, attach                  []string
	sequence                      int64
	expires                       preparation
}

// register adds the flags of every message to a command. Its help names them in one line;
// "parley help message" prints them.
func (m *messageFlags) register(cmd *cobra.Command) {
	m.add(cmd)
	for _, name := range messageFlagNames() {
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Long += "\n\nThe flags of every message, such as --priority, --thread and --attach: parley help message"
}

// messageFlagNames returns the names of the flags of every message.
func messageFlagNames() (out []string) {
	cmd := new(cobra.Command)
	new(messageFlags).add(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// add adds the flags of every message to a command.
func (m *messageFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.payload, "payload", "", "payload instead of a text: '{...}', @FILE, or - for standard input")
	f.StringVar((*string)(&m.Priority), "priority", "", "priority: low, normal, high or critical")
	f.StringVar(&m.Topic, "topic", "", "topic of the message")
	f.StringVar(&m.ThreadID, "thread", "", "thread to continue")
	f.StringVar(&m.Team, "team", "", "team of the message; its members can read it")
	m.expires = momentFlag(cmd, &m.ExpiresAt, 1, "expires", "expiry if unread: a duration such as 2h, or an ISO 8601 time")
	f.StringVar(&m.AckBy, "ack-by", "", "deadline for all recipients to acknowledge: a duration such as 30m, or an ISO 8601 time")
	f.StringVar(&m.visibility, "visibility", "", "visibility: private, team or human-audit")
	f.StringVar(&m.sensitivity, "sensitivity", "", "sensitivity: low, moderate or high")
	f.StringVar(&m.gate, "human-gate", "", "none, or required to hold the message until the operator approves it")
	f.StringVar(&m.IdempotencyKey, "idempotency-key", "", "key that makes it safe to repeat the call")
	f.StringVar(&m.context, "context", "", "context as JSON: '{...}', @FILE, or - for standard input")
	f.StringArrayVar(&m.refs, "ref", nil, "reference as TYPE:VALUE, such as pr:42 (repeatable)")
	f.StringArrayVar(&m.attach, "attach", nil, "file to store on the hub and attach (repeatable)")
	f.Int64Var(&m.sequence, "sequence", 0, "sequence number in a negotiation or disagreement (default set by the hub)")
	choices(cmd, "priority", "low", "normal", "high", "critical")
}

// complete fills the parameters that the flags name.
func (m *messageFlags) complete(cmd *cobra.Command, a *app, c *rpc.Client) (err error) {
	if err := m.expires(cmd.Context(), nil); err != nil {
		return err
	}
	if cmd.Flags().Changed("sequence") {
		m.Sequence = &m.sequence
	}
	if m.payload != "" {
		if m.Text != "" {
			return usagef("a text and --payload cannot be combined")
		}
		if m.Payload, err = a.object(cmd.Context(), "--payload", m.payload); err != nil {
			return err
		}
	}
	policy := map[string]string{"visibility": m.visibility, "sensitivity": m.sensitivity, "human_gate": m.gate}
	maps.DeleteFunc(policy, func(_, value string) bool { return value == "" })
	if len(policy) > 0 {
		if m.Policy, err = json.Marshal(policy); err != nil {
			return err
		}
	}
	m.IdempotencyKey = cmp.Or(m.IdempotencyKey, newIdempotencyKey())
	m.Context, err = m.contextParam(cmd.Context(), a, c)
	return err
}

// newIdempotencyKey returns a key with which a call can be repeated when its
// answer was lost.
func newIdempotencyKey() string { return "cli-" + string(hub.NewIDs(now).Next()) }

func (m *messageFlags) contextParam(ctx context.Context, a *app, c *rpc.Client) (json.RawMessage, error) {
	if m.context != "" {
		if len(m.refs)+len(m.attach) > 0 {
			return nil, usagef("--context cannot be combined with --ref or --attach")
		}
		return a.object(ctx, "--context", m.context)
	}
	if len(m.refs)+len(m.attach) == 0 {
		return nil, nil
	}
	var out hub.Context
	for _, r := range m.refs {
		kind, value, ok := strings.Cut(r, ":")
		if !ok {
			return nil, usagef("--ref must be TYPE:VALUE, got %q", r).WithHint("for example: --ref pr:42")
		}
		out.ExternalRefs = append(out.ExternalRefs, hub.ExternalRef{Type: kind, Value: value})
	}
	for _, name := range m.attach {
		ref, err := a.putArtifact(ctx, c, name)
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, ref)
	}
	return json.Marshal(out)
}

// compose completes the parameters with the argument that is the text, and
// returns the client to send with.
func (m *messageFlags) compose(cmd *cobra.Command, a *app, args []string) (c *rpc.Client, err error) {
	if m.Text, err = a.text(cmd.Context(), args, m.payload); err != nil {
		return nil, err
	}
	if c, err = a.client(); err != nil {
		return nil, err
	}
	return c, m.complete(cmd, a, c)
}

func (a *app) sendCommand() *cobra.Command {
	var m messageFlags
	var to []string
	var again api.RetryParams
	all, dry := false, false
	cmd := &cobra.Command{
		Use:   "send [TO[,TO...]] [TEXT]",
		Short: "Send a message (--all: to every agent)",
		Long: `Send a message to agents. Its visibility says who reads it:
  private      the sender, the recipients, the operator and auditors
  team         the same, and the members of the team
  human-audit  as private; the operator also gets a copy
Auditors do not read texts with --sensitivity high.

To send to every agent you must be a coordinator, or use priority high or critical, and
can do it five times an hour. --again resends a failed or expired message to the
recipients that missed it: once, by its sender or the operator.`,
		Example: `  parley send builder "schema is frozen"
  parley send --to builder,tester --type knowledge.push --payload '{"topic":"db","summary":"avatar is nullable","confidence":"high"}'
  parley send --all "deploying now" --priority high
  parley send --again m17 --expires 2h
  parley send @backend "the schema is frozen"
  parley send builder "stop the deploy" --ack-by 30m
  git diff --stat | parley send reviewer -`,
		Args: cobra.MaximumNArgs(2),
	}

	f := cmd.Flags()
	f.StringSliceVar(&to, "to", nil, "recipients: names, team:NAME, @ABILITY for all agents with that ability, or '*' for everyone")
	f.StringVar((*string)(&m.Type), "type", "", "message type (default status.update for plain text)")
	f.StringVar((*string)(&m.ReplyTo), "reply-to", "", "message to answer")
	f.BoolVar(&all, "all", false, "send to every agent on the hub")
	f.BoolVar(&dry, "dry-run", false, "with --all: report the recipients and whether you may, without sending")
	f.StringVar((*string)(&again.ID), "again", "", "resend this failed or expired message to the recipients that missed it")
	cmd.MarkFlagsMutuallyExclusive("all", "to", "again")
	m.register(cmd)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case again.ID != "":
			return a.sendAgain(cmd.Context(), m, again, args)
		case all:
			return a.sendToAll(cmd, m, args, dry)
		}

		// The first argument names the recipients, unless --to does.
		if len(to) == 0 && len(args) > 0 {
			to, args = list(args[0]), args[1:]
		}
		if len(args) > 1 {
			return usagef("recipients are given both with --to and as the first argument")
		}
		if to = list(strings.Join(to, ",")); len(to) == 0 {
			return usagef("a recipient is required").WithHint("for example: parley send builder,tester TEXT, or parley send --all TEXT")
		}

		c, err := m.compose(cmd, a, args)
		if err != nil {
			return err
		}
		for _, id := range to {
			m.To = append(m.To, hub.AgentID(id))
		}
		return a.receipt(retry(cmd.Context(), c, api.Send, m.SendParams))
	}
	return cmd
}

// sendAgain resends a failed or expired message.
func (a *app) sendAgain(ctx context.Context, m messageFlags, p api.RetryParams, args []string) error {
	if len(args) > 0 {
		return usagef("--again resends the message %s as it is; leave out %q", p.ID, args[0])
	}
	if err := m.expires(ctx, nil); err != nil {
		return err
	}
	p.ExpiresAt = m.ExpiresAt
	return a.receipt(call(ctx, a, api.Retry, p))
}

// sendToAll sends a message to every agent on the hub, or reports whether the caller may.
func (a *app) sendToAll(cmd *cobra.Command, m messageFlags, args []string, dry bool) error {
	if len(args) > 1 {
		return usagef("--all has no other recipients; leave out %q", args[0])
	}
	c, err := m.compose(cmd, a, args)
	if err != nil {
		return err
	}
	got, err := retry(cmd.Context(), c, api.Broadcast, api.BroadcastParams{DryRun: dry, SendParams: m.SendParams})
	switch {
	case err != nil:
		return err
	case got.Trial == nil:
		return a.receipt(*got.Receipt, nil)
	}
	return a.print(got, func(w io.Writer) { writeTrial(w, *got.Trial) })
}

// writeTrial writes whether a message to all agents may be sent.
func writeTrial(w io.Writer, t mailroom.Trial) {
	if t.Allowed {
		fmt.Fprintln(w, "allowed")
	} else {
		fmt.Fprintf(w, "not allowed: %s\n", t.Reason)
	}
	fmt.Fprintf(w, "  recipients: %s\n  remaining this hour: %d\n  resets at: %s\n", joined(t.Recipients), t.Remaining, when(t.ResetsAt))
}

// text returns the plain text of a message; a dash means standard input. There
// is none only if there is a payload.
func (a *app) text(ctx context.Context, args []string, payload string) (string, error) {
	if len(args) == 0 && payload != "" {
		return "", nil
	}
	text := ""
	if len(args) > 0 {
		text = args[0]
	}
	if text == "-" && payload != "-" {
		raw, err := a.content(ctx, "-")
		if err != nil {
			return "", err
		}
		text = strings.TrimRight(string(raw), "\r\n")
	}
	if text == "" {
		return "", usagef("a text is required").WithHint("pass a text, - for standard input, or --payload")
	}
	return text, nil
}

// retry makes a call once more when its answer was lost on the way. The
// idempotency key keeps it from taking effect twice.
func retry[S, P, R any](ctx context.Context, c *rpc.Client, o rpc.Operation[S, P, R], params P) (R, error) {
	got, err := rpc.Call(ctx, c, o, params)
	if errors.Is(err, rpc.ErrUnreachable) {
		got, err = rpc.Call(ctx, c, o, params)
	}
	return got, err
}

// receipt prints the answer to a send.
func (a *app) receipt(r mailroom.Receipt, err error) error {
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		if r.Status == mailroom.AlreadyClaimed {
			fmt.Fprintf(w, "already_claimed by %s at %s\n", r.ClaimedBy, when(r.ClaimedAt))
			return
		}
		fmt.Fprintf(w, "sent %s\n", cmp.Or(string(r.ShortID), string(r.ID)))
		for _, l := range r.Deliveries {
			fmt.Fprintf(w, "  %s over %s: %s, %s\n", l.Recipient, l.Channel, l.Reach, l.Reason)
		}
		for _, s := range r.Warnings {
			fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "33", "note:"), s)
		}
		if r.Unread > 0 {
			fmt.Fprintf(a.err, "%d in your inbox\n", r.Unread)
		}
	})
}
