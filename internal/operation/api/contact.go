package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/contact"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// ContactParams change the rule for contact with an agent.
type ContactParams struct {
	Agent    hub.AgentID   `json:"agent"`
	From     []hub.AgentID `json:"from,omitempty"`      // agents and teams that may write to it, or * for everyone
	WakeFrom []hub.AgentID `json:"wake_from,omitempty"` // those that may wake it
	Open     bool          `json:"open,omitempty"`      // let everyone do both
}

// An AgentContact is the rule for contact with an agent.
type AgentContact struct {
	Agent hub.AgentID `json:"agent"`
	contact.Rule
}

// A ContactList lists the rules for contact, by agent.
type ContactList struct {
	Rules contact.Rules `json:"rules"`
}

// ContactListParams choose rules for contact.
type ContactListParams struct {
	Agent hub.AgentID `json:"agent,omitempty"` // default all agents
}

func contactSet(ctx context.Context, s *Services, a hub.Caller, p ContactParams) (AgentContact, error) {
	if p.From == nil && p.WakeFrom == nil && !p.Open {
		return AgentContact{}, hub.Errorf(hub.CodeInvalid, "parley/contact/set", "one of from, wake_from and open is required")
	}
	rule, err := s.Mail.SetContact(ctx, a, mailroom.ContactChange(p))
	return AgentContact{p.Agent, rule}, err
}

func contactList(ctx context.Context, s *Services, _ hub.Caller, p ContactListParams) (ContactList, error) {
	rules, err := s.Mail.ContactRules(ctx)
	if err != nil {
		return ContactList{}, err
	}
	if rules == nil {
		rules = contact.Rules{}
	}
	if p.Agent == "" {
		return ContactList{rules}, nil
	}
	_, err = s.Mail.Recipient(ctx, p.Agent)
	return ContactList{contact.Rules{p.Agent: rules[p.Agent]}}, err
}
