package acpv1

import (
	"errors"
	"reflect"

	"github.com/parley-agents/parley/protocol/acp/internal/wire"
)

// Marshal returns the value that x points to, of a type of this package or of
// acpv2, as JSON on one line. The error is a *Problem.
//
// Messages and unions have a MarshalJSON that calls it. Other objects are parts of
// messages: encoding/json writes them by their tags, but without Extra.
func Marshal(x any) ([]byte, error) {
	e := wire.NewEncoder()
	wire.Encode(e, x)
	b, p := e.End()
	if p != nil {
		return nil, (*Problem)(p)
	}
	return b, nil
}

// Unmarshal sets the value that x points to, of a type of this package or of acpv2,
// to the JSON in data. The error is a *Problem.
func Unmarshal(data []byte, x any) error { return unmarshal(wire.NewScanner(data), x) }

// UnmarshalValid is Unmarshal for data that is known to be valid JSON, such as the
// params of a message that package jsonrpc has read. On other data the result is
// meaningless. A stream of updates is read through it: a second validation of each
// would cost a fifth of the speed (BenchmarkUpdates).
func UnmarshalValid(data []byte, x any) error { return unmarshal(wire.NewTrusting(data), x) }

func unmarshal(s *wire.Scanner, x any) error {
	reflect.ValueOf(x).Elem().SetZero()
	wire.Decode(s, x)
	if p := s.End(); p != nil {
		return (*Problem)(p)
	}
	return nil
}

// Check reports where the value that x points to, of a type of this package or of
// acpv2, breaks the rules of the protocol or those given, which may be nil. The
// error joins up to 20 Problems.
func Check(x any, rules *Rules) error {
	c := new(wire.Checker)
	if rules != nil {
		c.Own = rules.Own
		c.Registered = rules.Extensions.Registered
		c.Closed = rules.IsClosed
	}
	wire.Check(c, x)
	problems := make([]error, len(c.Problems))
	for i := range c.Problems {
		problems[i] = (*Problem)(&c.Problems[i])
	}
	return errors.Join(problems...)
}
