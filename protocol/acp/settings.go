package acp

import (
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A Mode is a way of working, such as asking first or planning only.
type Mode struct {
	ID          string // for Session.SetMode
	Name        string // for people
	Description string // for people; may be empty
}

// A ConfigOption is an option of a session.
type ConfigOption struct {
	ID          string   // for Session.SetOption and SetSwitch
	Name        string   // for people
	Description string   // for people; may be empty
	Category    string   // the purpose, such as mode or model; may be empty
	Type        string   // "select", "boolean", or a type that this package does not know
	Value       string   // of a select
	On          bool     // of a boolean
	Choices     []Choice // of a select, in the agent's order
}

// A Choice is a possible value of a select.
type Choice struct {
	Value       string // for Session.SetOption
	Name        string // for people
	Description string // for people; may be empty
	Group       string // the name of its group; may be empty
}

// A Command is a slash command of a session.
type Command struct {
	Name        string // without the slash
	Description string // for people
	Hint        string // describes its argument; empty if it has none
}

// Settings are the state of a session as the agent reported it last. They are a
// snapshot: Session.Settings returns a copy that does not change any more.
type Settings struct {
	Mode     string // the ID of the current mode
	Modes    []Mode
	Options  []ConfigOption
	Commands []Command
	Title    string
	Usage    *Usage // nil if the agent did not report it

	ownModes bool // the agent has modes of version 1; else the modes are those of an option
}

// modeOption returns the option that holds the mode, nil if there is none.
func (s *Settings) modeOption() *ConfigOption {
	for i := range s.Options {
		if o := &s.Options[i]; o.Type == "select" && o.Category == string(acpv2.SessionConfigOptionCategoryMode) {
			return o
		}
	}
	return nil
}

// setOptions sets the options, and the modes if one of the options holds them.
func (s *Settings) setOptions(options []ConfigOption) {
	s.Options = options
	// An agent of version 1 may have both; session/set_mode changes its modes.
	if o := s.modeOption(); o != nil && !s.ownModes {
		s.Mode = o.Value
		s.Modes = nil
		for _, c := range o.Choices {
			s.Modes = append(s.Modes, Mode{c.Value, c.Name, c.Description})
		}
	}
}

// apply changes the settings as an update says.
// Lists are replaced as a whole, because the protocol sends them whole.
func (s *Settings) apply(u *Update) {
	switch u.Kind() {
	case KindMode:
		s.Mode = string(u.V1.Update.CurrentModeUpdate.CurrentModeID)

	case KindConfig:
		if u.V1 != nil {
			s.setOptions(optionsV1(u.V1.Update.ConfigOptionUpdate.ConfigOptions))
		} else {
			s.setOptions(optionsV2(u.V2.Update.ConfigOptionUpdate.ConfigOptions))
		}

	case KindCommands:
		if u.V1 != nil {
			s.Commands = commandsV1(u.V1.Update.AvailableCommandsUpdate.AvailableCommands)
		} else {
			s.Commands = commandsV2(u.V2.Update.AvailableCommandsUpdate.AvailableCommands)
		}

	// An absent title leaves the title as it is; a null clears it.
	case KindInfo:
		title := acpv1.Optional[string]{}
		if u.V1 != nil {
			title = u.V1.Update.SessionInfoUpdate.Title
		} else {
			title = u.V2.Update.SessionInfoUpdate.Title
		}
		if !title.IsAbsent() {
			s.Title = title.Or("")
		}

	case KindUsage:
		s.Usage = u.Usage()
	}
}

// clone returns a copy that shares no list with s.
func (s *Settings) clone() Settings {
	c := *s
	c.Modes = slices.Clone(s.Modes)
	c.Options = slices.Clone(s.Options)
	c.Commands = slices.Clone(s.Commands)
	return c
}

// begin sets the settings from the answer that opened the session.
// An agent of version 1 reports commands in an update, not in this answer.
func (s *Settings) begin(answer acpv1.Message) {
	v1 := func(modes acpv1.Optional[acpv1.SessionModeState], options acpv1.Optional[[]acpv1.SessionConfigOption]) {
		if state, ok := modes.Get(); ok {
			s.ownModes = true
			s.Mode = string(state.CurrentModeID)
			for _, m := range state.AvailableModes {
				s.Modes = append(s.Modes, Mode{string(m.ID), m.Name, m.Description.Or("")})
			}
		}
		s.setOptions(optionsV1(options.Or(nil)))
	}

	v2 := func(options acpv2.Optional[[]acpv2.SessionConfigOption], commands acpv2.Optional[[]acpv2.AvailableCommand]) {
		s.setOptions(optionsV2(options.Or(nil)))
		s.Commands = commandsV2(commands.Or(nil))
	}

	switch m := answer.(type) {
	case *acpv1.NewSessionResponse:
		v1(m.Modes, m.ConfigOptions)
	case *acpv1.LoadSessionResponse:
		v1(m.Modes, m.ConfigOptions)
	case *acpv1.ResumeSessionResponse:
		v1(m.Modes, m.ConfigOptions)
	case *acpv1.ForkSessionResponse:
		v1(m.Modes, m.ConfigOptions)

	case *acpv2.NewSessionResponse:
		v2(m.ConfigOptions, m.AvailableCommands)
	case *acpv2.ResumeSessionResponse:
		v2(m.ConfigOptions, m.AvailableCommands)
	case *acpv2.ForkSessionResponse:
		v2(m.ConfigOptions, m.AvailableCommands)
	}
}

// optionsV1 and optionsV2 read the options of one version. They differ in the name of
// the id and in the types of the groups.
func optionsV1(list []acpv1.SessionConfigOption) []ConfigOption {
	out := make([]ConfigOption, len(list))
	for i, m := range list {
		o := &out[i]
		*o = ConfigOption{ID: string(m.ID), Name: m.Name, Description: m.Description.Or(""), Category: string(m.Category.Or("")), Type: m.Tag()}
		o.On = m.Boolean != nil && m.Boolean.CurrentValue
		if m.Select != nil {
			o.Value = string(m.Select.CurrentValue)
			o.add("", m.Select.Options.Ungrouped)
			for _, g := range m.Select.Options.Grouped {
				o.add(g.Name, g.Options)
			}
		}
	}
	return out
}

func optionsV2(list []acpv2.SessionConfigOption) []ConfigOption {
	out := make([]ConfigOption, len(list))
	for i, m := range list {
		o := &out[i]
		*o = ConfigOption{ID: string(m.ConfigID), Name: m.Name, Description: m.Description.Or(""), Category: string(m.Category.Or("")), Type: m.Tag()}
		o.On = m.Boolean != nil && m.Boolean.CurrentValue
		if m.Select != nil {
			o.Value = string(m.Select.CurrentValue)
			o.add("", m.Select.Options.Ungrouped)
			for _, g := range m.Select.Options.Grouped {
				o.add(g.Name, g.Options)
			}
		}
	}
	return out
}

// add adds the choices of a group, whose type both versions share.
func (o *ConfigOption) add(group string, choices []acpv1.SessionConfigSelectOption) {
	for _, c := range choices {
		o.Choices = append(o.Choices, Choice{string(c.Value), c.Name, c.Description.Or(""), group})
	}
}

// commandsV1 reads the commands of version 1, which all have the same type.
func commandsV1(list []acpv1.AvailableCommand) []Command {
	out := make([]Command, 0, len(list))
	for _, m := range list {
		c := Command{Name: m.Name, Description: m.Description}
		if input, ok := m.Input.Get(); ok && input.Unstructured != nil {
			c.Hint = input.Unstructured.Hint
		}
		out = append(out, c)
	}
	return out
}

// commandsV2 leaves out commands of an unknown type: a user cannot be offered them.
func commandsV2(list []acpv2.AvailableCommand) []Command {
	out := make([]Command, 0, len(list))
	for _, m := range list {
		if m.Command == nil {
			continue
		}
		c := Command{Name: m.Command.Name, Description: m.Command.Description}
		if input, ok := m.Command.Input.Get(); ok && input.Text != nil {
			c.Hint = input.Text.Hint
		}
		out = append(out, c)
	}
	return out
}

// memberText returns a string member of an unknown variant, "" if it has none.
func memberText(u *acpv1.Unknown, name string) (text string) {
	if raw, ok := u.Member(name); ok {
		json.Unmarshal(raw, &text) // the text stays empty for other JSON
	}
	return text
}
