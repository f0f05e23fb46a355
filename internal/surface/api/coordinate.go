package api

import (
	"context"
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/hub"
)

// CoordinateParams name something to do about contracts between repositories.
// Rest holds the parameters of that, beside the action.
type CoordinateParams struct {
	Action string         `json:"action"`
	Answer string         `json:"answer,omitempty"` // what contract/respond calls its action
	Rest   jsontext.Value `json:",embed"`
}

// Coordinated is the result of an action: that of its method, as it is.
type Coordinated json.RawMessage

// MarshalJSON returns the result.
func (c Coordinated) MarshalJSON() ([]byte, error) { return json.RawMessage(c).MarshalJSON() }

// UnmarshalJSON keeps the result.
func (c *Coordinated) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(c).UnmarshalJSON(b) }

func coordinate(ctx context.Context, s *Services, a hub.Caller, p CoordinateParams) (Coordinated, error) {
	const op = "parley/coordinate"
	if s.Coordinator == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not coordinate")
	}
	if p.Action == "" {
		return nil, hub.Errorf(hub.CodeInvalid, op, "action required")
	}
	members := map[string]jsontext.Value{}
	if len(p.Rest) > 0 {
		if err := jsonv2.Unmarshal(p.Rest, &members); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, op, "%w", err)
		}
	}
	if members["from"].Kind() == '"' { // a number is a version, for contract/diff
		return nil, hub.Errorf(hub.CodeTampering, op, "from: you act as who you have authenticated as").WithHint("leave from out")
	}
	quoted := func(s string) jsontext.Value {
		b, _ := jsontext.AppendQuote(nil, s) // it was read as a string: cannot fail
		return b
	}
	if p.Answer != "" {
		members["action"] = quoted(p.Answer)
	}
	if _, said := members["summary"]; p.Action == "project/list" && !said {
		members["summary"] = jsontext.Value("true") // a model has no use for all of it
	}
	raw, err := jsonv2.Marshal(members)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%v", err)
	}
	result, err := s.Coordinator.Coordinate(ctx, a, p.Action, json.RawMessage(raw))
	return Coordinated(result), err
}
