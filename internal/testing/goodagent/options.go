package goodagent

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// The modes.
const (
	modeAsk  = "ask"  // it asks before it changes something
	modeAuto = "auto" // it does not
	modePlan = "plan" // it asks
)

// ownCategory is a category of options that the protocol does not know.
const ownCategory = "_goodagent"

// options returns the options of a session.
func options(r *record) (out []acpv2.SessionConfigOption) {
	choice := func(value, name string) object { return object{"value": value, "name": name} }
	for _, o := range []object{
		{"configId": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": r.Mode,
			"options": []any{choice(modeAsk, "Ask first"), choice(modeAuto, "Go ahead"), choice(modePlan, "Plan only")}},
		{"configId": "model", "name": "Model", "category": "model", "type": "select", "currentValue": r.Model,
			"options": []any{
				object{"groupId": "local", "name": "Local", "options": []any{choice("small", "Small"), choice("medium", "Medium")}},
				object{"groupId": "remote", "name": "Remote", "options": []any{choice("large", "Large")}},
			}},
		{"configId": "verbose", "name": "Verbose", "category": ownCategory, "type": "boolean", "currentValue": r.Verbose},
	} {
		var option acpv2.SessionConfigOption
		if err := option.UnmarshalJSON(encode(o)); err != nil {
			panic("goodagent: " + err.Error()) // only a mistake above
		}
		out = append(out, option)
	}
	return out
}

// commands returns the slash commands.
func commands() []acpv2.AvailableCommand {
	input := acpv2.AvailableCommandInput{Text: &acpv2.TextCommandInput{Hint: "what to look at"}}
	return []acpv2.AvailableCommand{
		{Command: &acpv2.Command{Name: "review", Description: "Look at something", Input: acpv2.Set(input)}},
		{Command: &acpv2.Command{Name: "status", Description: "Say how things are"}},
	}
}

// values are the values of the options.
var values = map[string][]string{"mode": {modeAsk, modeAuto, modePlan}, "model": {"small", "medium", "large"}}

func (a *Agent) setOption(ctx context.Context, s *acp.AgentSession, id string, value any) error {
	c := s.State.(*conversation)
	text, isText := value.(string)
	on, isBool := value.(bool)

	c.mu.Lock()
	mode := c.Mode

	switch {
	case id == "verbose" && isBool:
		c.Verbose = on
	case id == "verbose":
		c.mu.Unlock()
		return invalid("verbose is on or off")
	case values[id] == nil:
		c.mu.Unlock()
		return invalid("there is no option %q", id)
	case !isText || !slices.Contains(values[id], text):
		c.mu.Unlock()
		return invalid("%s cannot be %v", id, value)
	case id == "mode":
		c.Mode = text
	default:
		c.Model = text
	}

	changed := mode != c.Mode
	s.Options = options(c.record)
	err := a.store.put(c.record)
	c.mu.Unlock()

	// The client is told after the lock is released.
	if changed && err == nil {
		err = a.tellMode(ctx, s, text)
	}
	return err
}

// tellMode tells a client of version 1 that the mode has changed, in the two ways
// in which it knows the mode.
func (a *Agent) tellMode(ctx context.Context, s *acp.AgentSession, mode string) error {
	if s.Client().Version != 1 {
		return nil
	}
	if err := tell(ctx, s, object{"sessionUpdate": "current_mode_update", "currentModeId": mode}, nil); err != nil {
		return err
	}
	return s.Update(ctx, acpv2.SessionUpdate{ConfigOptionUpdate: &acpv2.ConfigOptionUpdate{ConfigOptions: s.Options}})
}
