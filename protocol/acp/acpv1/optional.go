package acpv1

import "github.com/parley-agents/parley/protocol/acp/internal/wire"

// An Optional is a member that may be absent, null or have a value. The zero
// Optional is absent. In a message that changes something, absent leaves it as it
// is and null takes it away.
type Optional[T any] struct {
	value T
	state wire.State
}

// Set returns an Optional with a value.
func Set[T any](v T) Optional[T] { return Optional[T]{value: v, state: wire.Set} }

// Null returns an Optional that is null. Where the protocol does not allow that,
// Validate reports it.
func Null[T any]() Optional[T] { return Optional[T]{state: wire.Null} }

// Get returns the value, and whether there is one.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == wire.Set }

// Or returns the value, or v if there is none.
func (o Optional[T]) Or(v T) T {
	if o.state == wire.Set {
		return o.value
	}
	return v
}

// IsSet reports whether there is a value.
func (o Optional[T]) IsSet() bool { return o.state == wire.Set }

// IsNull reports whether the member is there and null.
func (o Optional[T]) IsNull() bool { return o.state == wire.Null }

// IsAbsent reports whether the member is not there.
func (o Optional[T]) IsAbsent() bool { return o.state == wire.Absent }

// Wire gives the codec of this module access to the value and its state.
func (o *Optional[T]) Wire() (value any, state *wire.State) { return &o.value, &o.state }

// MarshalJSON returns the value as JSON, or null if there is none. A field with
// the option omitzero leaves out an absent member.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != wire.Set {
		return []byte("null"), nil
	}
	return Marshal(&o.value)
}

// UnmarshalJSON sets o to the value in data, or to null.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*o = Null[T]()
		return nil
	}
	o.state = wire.Set
	return Unmarshal(data, &o.value)
}
