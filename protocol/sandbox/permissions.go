package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// An OptionKind is the meaning of an option. Agents may offer other kinds than
// these; only a person may choose such an option.
type OptionKind string

// The kinds of options.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// preference holds the kinds of options that carry out a verdict, the best first:
// once is preferred to always, and an action that no option allows is rejected.
var preference = map[Verdict][]OptionKind{
	Allow:  {AllowOnce, AllowAlways, RejectOnce, RejectAlways},
	Reject: {RejectOnce, RejectAlways},
}

// allows holds the kinds of options that allow the action.
var allows = map[OptionKind]bool{AllowOnce: true, AllowAlways: true}

// An Option is one of the answers that an agent offers in a Request.
type Option struct {
	ID   string
	Name string // for people
	Kind OptionKind
}

// Label returns the option on one line for people: its effect first, because the name is
// a word of the agent, which may say anything.
func (o Option) Label() string {
	name := strings.Join(strings.Fields(o.Name), " ")
	effect := strings.ReplaceAll(string(o.Kind), "_", " ")
	switch {
	case o.Kind == "":
		effect = "effect not stated"
	case !allows[o.Kind] && !slices.Contains(preference[Reject], o.Kind):
		effect = fmt.Sprintf("unknown effect %q", o.Kind)
	case strings.EqualFold(effect, name):
		return name
	}
	return effect + ": " + name
}

// A Request is an agent's request for the permission of an action.
type Request struct {
	Kind    Kind     // empty if the agent did not say
	Title   string   // the action, for people
	Paths   []string // of the files that the action changes, as far as they are known
	Folders []string // that the agent works in, absolute; the names above them say nothing about a file
	Options []Option

	// Warning says why the change of a file is more than an edit, for the person who is
	// asked. Permissions sets it.
	Warning string
}

// changes reports whether the action changes files.
func (r Request) changes() bool {
	return r.Kind == KindEdit || r.Kind == KindMove || r.Kind == KindDelete
}

// absolute returns a path of the request as a clean absolute one. One that is relative is
// in the first folder.
func (r Request) absolute(path string) string {
	if !filepath.IsAbs(path) && len(r.Folders) > 0 {
		path = filepath.Join(r.Folders[0], path)
	}
	return filepath.Clean(path)
}

// concern returns the gravest concern about the files that an action changes.
func (r Request) concern() (worst concern) {
	if !r.changes() {
		return concern{}
	}
	for _, path := range r.Paths {
		c := worry(r.absolute(path), r.Folders)
		c.reason = path + ": " + c.reason
		if c.verdict == Reject {
			return c
		}
		if c.verdict == Ask && worst.verdict == "" {
			worst = c
		}
	}
	return worst
}

// A Decision answers a Request. The zero value is safe: nothing was chosen.
type Decision struct {
	OptionID string // the chosen option; empty for none, which cancels the request
	Allowed  bool   // whether the option allows the action
	Reason   string // why, for people
}

// An Asker asks a person and returns the ID of the chosen option, or "" for none. It
// must return when ctx ends.
type Asker func(ctx context.Context, r Request) (optionID string, err error)

// Permissions decides requests by a policy. It is safe for concurrent use if its
// Asker is.
type Permissions struct {
	policy Policy
	ask    Asker
}

// NewPermissions returns the Permissions of a policy. ask is called under PolicyAsk,
// and under PolicyWrite for a change of a file that only a person can allow, such as the
// instructions of agents. If it is nil, such actions are rejected.
func NewPermissions(policy Policy, ask Asker) *Permissions {
	return &Permissions{policy: policy, ask: ask}
}

// Decide decides r. It chooses only options of the request, and none whose ID is
// empty or not unique, because its meaning is not clear. If the person cannot be
// asked, the error says why and the decision is zero.
//
// A change of a file that a program runs by itself is decided as an execution. A change
// of one that a program may obey, or outside of the folders, needs a person even where
// the policy allows changes.
func (p *Permissions) Decide(ctx context.Context, r Request) (Decision, error) {
	offered := usable(r.Options)
	v := p.policy.Verdict(r.Kind)
	why := fmt.Sprintf("policy %q on kind %q: %s", p.policy, r.Kind, v)
	if c := r.concern(); c.verdict != "" && v != Reject && p.policy != PolicyYolo {
		if v = Ask; c.verdict == Reject {
			v = p.policy.Verdict(KindExecute)
		}
		why = fmt.Sprintf("policy %q: %s: %s", p.policy, v, c.reason)
		r.Warning = c.reason
	}
	switch {
	case v == Ask && p.ask == nil:
		return choose(Reject, offered, why+"; no person can be asked"), nil
	case v == Ask:
		return p.question(ctx, r, offered)
	default:
		return choose(v, offered, why), nil
	}
}

// question lets a person choose one of the offered options.
func (p *Permissions) question(ctx context.Context, r Request, offered []Option) (Decision, error) {
	r.Options = offered
	id, err := p.ask(ctx, r)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Decision{}, errorf(CodeRefused, "ask about %q: %w", r.Title, err)
	}
	for _, o := range offered {
		if o.ID == id {
			return Decision{OptionID: id, Allowed: allows[o.Kind], Reason: "chosen by a person"}, nil
		}
	}
	return choose(Reject, offered, "the person chose none of the options"), nil
}

// Permit returns an error with CodeRefused unless the policy or the person asked
// allows the action that title describes. It is for actions for which the agent makes
// no request, such as a command in a terminal. [Guarded] decides about files.
func (p *Permissions) Permit(ctx context.Context, kind Kind, title string) error {
	return p.permit(ctx, Request{Kind: kind, Title: title})
}

// permit is Permit for a request, whose options are set here.
func (p *Permissions) permit(ctx context.Context, r Request) error {
	r.Options = []Option{
		{ID: string(AllowOnce), Name: "Allow", Kind: AllowOnce},
		{ID: string(RejectOnce), Name: "Reject", Kind: RejectOnce},
	}
	d, err := p.Decide(ctx, r)
	if err != nil {
		return err
	}
	if !d.Allowed {
		return errorf(CodeRefused, "%s: not allowed (%s)", r.Title, d.Reason)
	}
	return nil
}

// choose returns the decision for the option that carries out v best.
func choose(v Verdict, offered []Option, reason string) Decision {
	for _, kind := range preference[v] {
		for _, o := range offered {
			if o.Kind != kind {
				continue
			}
			if v == Allow && !allows[kind] {
				reason += ", but no offered option allows it"
			}
			return Decision{OptionID: o.ID, Allowed: allows[kind], Reason: reason}
		}
	}
	return Decision{Reason: reason + ", but no offered option fits"}
}

// usable returns the options whose ID is unique and not empty.
func usable(options []Option) []Option {
	count := make(map[string]int, len(options))
	for _, o := range options {
		count[o.ID]++
	}
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.ID == "" || count[o.ID] > 1 })
}
