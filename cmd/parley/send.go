package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// messageFlags are the members of an envelope that commands which send share.
type messageFlags struct {
	payload, priority, topic, thread, expires  string
	visibility, sensitivity, gate, idempotency string
	refs, attach                               []string
	context                                    string
	sequence                                   int64
}

func (m *messageFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.payload, "payload", "", "payload in place of text: '{...}', @FILE, or - for standard input")
	f.StringVar(&m.priority, "priority", "", "low, normal, high or critical")
	f.StringVar(&m.topic, "topic", "", "what it is about")
	f.StringVar(&m.thread, "thread", "", "thread to go on with")
	f.StringVar(&m.expires, "expires", "", "when it lapses unread: a span like 2h, or an ISO 8601 time")
	f.StringVar(&m.visibility, "visibility", "", "private, team or human-audit")
	f.StringVar(&m.sensitivity, "sensitivity", "", "low, moderate or high")
	f.StringVar(&m.gate, "human-gate", "", "none or required: hold it until the operator approves")
	f.StringVar(&m.idempotency, "idempotency-key", "", "same key, same message: safe to repeat")
	f.StringVar(&m.context, "context", "", "context as JSON: '{...}', @FILE, or -")
	f.StringArrayVar(&m.refs, "ref", nil, "reference as TYPE:VALUE, for example pr:42 (repeatable)")
	f.StringArrayVar(&m.attach, "attach", nil, "file to store on the hub and refer to (repeatable)")
	f.Int64Var(&m.sequence, "sequence", 0, "place in a negotiation")
	cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"low", "normal", "high", "critical"}, cobra.ShellCompDirectiveNoFileComp))
}

// params returns the parameters that the flags name.
func (m *messageFlags) params(cmd *cobra.Command, a *app, c *rpc.Client, text string) (api.SendParams, error) {
	p := api.SendParams{
		Text: text, Priority: hub.Priority(m.priority), Topic: m.topic, ThreadID: m.thread, IdempotencyKey: m.idempotency,
	}
	var err error
	if p.ExpiresAt, err = moment("expires", m.expires, 1); err != nil {
		return p, err
	}
	if cmd.Flags().Changed("sequence") {
		p.Sequence = &m.sequence
	}
	if m.payload != "" {
		if text != "" {
			return p, usagef("a message has a text or a payload, not both")
		}
		if p.Payload, err = a.object(cmd.Context(), "--payload", m.payload); err != nil {
			return p, err
		}
	}
	if m.visibility != "" || m.sensitivity != "" || m.gate != "" {
		policy := map[string]string{}
		for name, v := range map[string]string{"visibility": m.visibility, "sensitivity": m.sensitivity, "human_gate": m.gate} {
			if v != "" {
				policy[name] = v
			}
		}
		if p.Policy, err = json.Marshal(policy); err != nil {
			return p, err
		}
	}
	if p.Context, err = m.contextParam(cmd.Context(), a, c); err != nil {
		return p, err
	}
	if p.IdempotencyKey == "" {
		// Lets the call be repeated when its answer was lost.
		p.IdempotencyKey = "cli-" + string(hub.NewIDs(now).Next())
	}
	return p, nil
}

func (m *messageFlags) contextParam(ctx context.Context, a *app, c *rpc.Client) (json.RawMessage, error) {
	if m.context != "" {
		if len(m.refs)+len(m.attach) > 0 {
			return nil, usagef("give --context, or --ref and --attach, not both")
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
			return nil, usagef("--ref: %q is not TYPE:VALUE", r).WithHint("for example --ref pr:42")
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

// compose returns a client and the parameters to send, from the flags and from the
// argument that is the text.
func (m *messageFlags) compose(cmd *cobra.Command, a *app, args []string) (*rpc.Client, api.SendParams, error) {
	text, err := a.text(cmd.Context(), args, m.payload)
	if err != nil {
		return nil, api.SendParams{}, err
	}
	c, err := a.client()
	if err != nil {
		return nil, api.SendParams{}, err
	}
	p, err := m.params(cmd, a, c, text)
	return c, p, err
}

func (a *app) sendCommand() *cobra.Command {
	var m messageFlags
	var to []string
	var kind, replyTo string
	cmd := &cobra.Command{
		Use:   "send [TO[,TO...]] [TEXT]",
		Short: "Send a message",
		Example: `  parley send builder "schema is frozen"
  parley send --to builder,tester --type knowledge.push --payload '{"topic":"db","summary":"avatar is nullable","confidence":"high"}'
  parley send '*' "deploying now" --priority high
  git diff --stat | parley send reviewer -`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(to) == 0 && len(args) > 0 {
				to, args = list(args[0]), args[1:]
			}
			if len(args) > 1 {
				return usagef("the recipients are given twice, with --to and as first argument")
			}
			if to = list(strings.Join(to, ",")); len(to) == 0 {
				return usagef("there is no recipient").WithHint("name one or more: parley send builder,tester TEXT; or '*' for everyone")
			}
			c, p, err := m.compose(cmd, a, args)
			if err != nil {
				return err
			}
			p.Type, p.ReplyTo, p.To = hub.MessageType(kind), hub.EnvelopeID(replyTo), api.Recipients{}
			for _, id := range to {
				p.To = append(p.To, hub.AgentID(id))
			}
			return a.receipt(retry(cmd.Context(), func(ctx context.Context) (mailroom.Receipt, error) { return rpc.Call(ctx, c, api.Send, p) }))
		},
	}
	cmd.Flags().StringSliceVar(&to, "to", nil, "recipients, or '*' for everyone")
	cmd.Flags().StringVar(&kind, "type", "", "message type (default status.update for plain text)")
	cmd.Flags().StringVar(&replyTo, "reply-to", "", "message that this one answers")
	m.register(cmd)
	return cmd
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
		return "", usagef("there is nothing to send").WithHint("give a text, - for standard input, or --payload")
	}
	return text, nil
}

// retry makes a call once more when its answer was lost on the way. The
// idempotency key keeps it from taking effect twice.
func retry(ctx context.Context, call func(context.Context) (mailroom.Receipt, error)) (mailroom.Receipt, error) {
	r, err := call(ctx)
	if errors.Is(err, rpc.ErrUnreachable) {
		r, err = call(ctx)
	}
	return r, err
}

// receipt prints the answer to a send.
func (a *app) receipt(r mailroom.Receipt, err error) error {
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "sent %s\n", r.ID)
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
