package coordination

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxTold is how large an answer to a tool may be: models read it.
const maxTold = 256 << 10

// Coordinate performs an action for an agent of this hub. The action is the
// name of a method without its protocol, as in contract/propose; what it needs
// is in the parameters.
func (s *Services) Coordinate(ctx context.Context, actor hub.Caller, action string, params json.RawMessage) (json.RawMessage, error) {
	m, ok := Lookup("cacp/" + strings.TrimPrefix(action, "cacp/"))
	if !ok || m.call == nil && m.write == nil {
		return nil, hub.Errorf(hub.CodeInvalid, "coordinate", "action: there is no %q", action).
			WithHint("the tool's description lists the actions")
	}
	return s.Call(ctx, actor, m, params, maxTold)
}
