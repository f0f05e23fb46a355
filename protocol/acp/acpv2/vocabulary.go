package acpv2

import "github.com/parley-agents/parley/protocol/acp/acpv1"

// The types that both versions share are declared in acpv1.
type (
	// An Optional is a member that may be absent, null or have a value.
	Optional[T any] = acpv1.Optional[T]

	// Members are the members of an object whose names the protocol does not
	// define, in their order.
	Members[V any] = acpv1.Members[V]

	// A Member is one of Members.
	Member[V any] = acpv1.Member[V]

	// An Unknown is a variant of a union that this version does not define. If
	// its tag begins with _ it belongs to an implementation; otherwise it
	// belongs to a future version of the protocol and is never to be taken for
	// an extension.
	Unknown = acpv1.Unknown

	// A Problem is one fault of a message and its place.
	Problem = acpv1.Problem

	// Rules are further rules for a message, beyond those of the protocol.
	Rules = acpv1.Rules

	// Extensions are the values that an implementation has added.
	Extensions = acpv1.Extensions

	// A Value is an object or union of the protocol.
	Value = acpv1.Value

	// A Message is the params or the result of a method.
	Message = acpv1.Message

	// A Method is a request or a notification.
	Method = acpv1.Method

	// A Side is the side of a connection that handles a method.
	Side = acpv1.Side
)

// The sides.
const (
	SideAgent  = acpv1.SideAgent
	SideClient = acpv1.SideClient
	SideBoth   = acpv1.SideBoth
)

// Set returns an Optional with a value.
func Set[T any](v T) Optional[T] { return acpv1.Set(v) }

// Null returns an Optional that is null.
func Null[T any]() Optional[T] { return acpv1.Null[T]() }
