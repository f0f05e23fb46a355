package coordination

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// maxToolAnswer is how many bytes the answer to a tool may have: models read it.
const maxToolAnswer = 256 << 10

// CoordinateParams name an action: a method of the protocol without "cacp/".
// Rest holds the parameters of that method.
type CoordinateParams struct {
	Action string         `json:"action"`
	Answer string         `json:"answer,omitempty"` // the action of contract/respond
	Rest   jsontext.Value `json:",embed"`
}

// A Coordinated is the result of an action: that of its method, unchanged.
type Coordinated json.RawMessage

// MarshalJSON returns the result.
func (c Coordinated) MarshalJSON() ([]byte, error) { return json.RawMessage(c).MarshalJSON() }

// UnmarshalJSON keeps the result.
func (c *Coordinated) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(c).UnmarshalJSON(b) }

// coordinateOperation defines the one operation behind which agents find all
// others of the protocol, as one tool.
func coordinateOperation() op[CoordinateParams, Coordinated] {
	o := op[CoordinateParams, Coordinated]{Spec: spec("parley/coordinate", "",
		"Agree with other repositories on interfaces (contracts), share context, and say how far your implementation is. You act for the repository that you joined, else for the hub's."),
		Do: coordinate}
	o.Callers, o.Dialect = rpc.Local, rpc.Strict
	o.Deadline = maxWait + rpc.Soon // some of its actions wait
	return rpc.AsTool(o, "coordinate", "Agree on contracts between repositories", coordinateSchema)
}

// coordinated holds the operations that are actions of coordinate, by method. init
// fills it, because coordinate is an entry of the table itself.
var coordinated = map[string]interface {
	Bind(*Services) *rpc.Method
}{}

func init() {
	coordinated["cacp/who_breaks"] = WhoBreaks
	coordinated["cacp/may_merge"] = MayMerge
	coordinated["cacp/contract/provider"] = Provide
	for _, o := range Operations {
		m := o.Bind(nil)
		if strings.HasPrefix(m.Method, "cacp/") && m.Group == "" && !slices.Contains(m.Callers, hub.CallerGuest) {
			coordinated[m.Method] = o
		}
	}
}

func coordinate(ctx context.Context, s *Services, c hub.Caller, p CoordinateParams) (Coordinated, error) {
	const op = "parley/coordinate"
	if p.Action == "" {
		return nil, hub.Errorf(hub.CodeInvalid, op, "action required")
	}
	o, ok := coordinated["cacp/"+strings.TrimPrefix(p.Action, "cacp/")]
	if !ok {
		return nil, hub.Errorf(hub.CodeInvalid, op, "unknown action %q", p.Action).WithHint("the tool's description lists the actions")
	}

	members := map[string]jsontext.Value{}
	if len(p.Rest) > 0 {
		if err := rpc.Decode(op, rpc.Strict, p.Rest, &members); err != nil {
			return nil, err
		}
	}
	if members["from"].Kind() == '"' { // a number is a version, for contract/diff
		return nil, hub.Errorf(hub.CodeTampering, op, "from must not be set: the key identifies the caller").WithHint("remove from")
	}

	// The action of the tool names the operation, so that the action of contract/respond comes as
	// answer.
	if p.Answer != "" {
		quoted, _ := jsontext.AppendQuote(nil, p.Answer) // it was read as a string: cannot fail
		members["action"] = quoted
	}
	// A model agrees to what it read.
	if _, named := members["version"]; !named && p.Answer == contract.ActionAgree {
		return nil, hub.Errorf(hub.CodeInvalid, op, "version required: agree names the version that you read").WithHint("{contract.show} shows it")
	}
	if _, given := members["summary"]; p.Action == "project/list" && !given {
		members["summary"] = jsontext.Value("true") // a model has no use for all of it
	}

	raw, err := jsonv2.Marshal(members)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%v", err)
	}
	result, err := o.Bind(s).JSON(ctx, c, raw, maxToolAnswer)
	return Coordinated(result), err
}
