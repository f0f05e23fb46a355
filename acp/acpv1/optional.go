package acpv1

// An Optional is a member that may be absent, null or have a value. The zero
// Optional is absent. In a message that changes something, absent leaves it as it
// is and null takes it away.
type Optional[T any] struct {
	value T
	state state
}

type state uint8

const (
	absent state = iota
	null
	set
)

// Set returns an Optional with a value.
func Set[T any](v T) Optional[T] { return Optional[T]{value: v, state: set} }

// Null returns an Optional that is null. Where the protocol does not allow that,
// Validate reports it.
func Null[T any]() Optional[T] { return Optional[T]{state: null} }

// Get returns the value, and whether there is one.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == set }

// Or returns the value, or v if there is none.
func (o Optional[T]) Or(v T) T {
	if o.state == set {
		return o.value
	}
	return v
}

// IsSet reports whether there is a value.
func (o Optional[T]) IsSet() bool { return o.state == set }

// IsNull reports whether the member is there and null.
func (o Optional[T]) IsNull() bool { return o.state == null }

// IsAbsent reports whether the member is not there.
func (o Optional[T]) IsAbsent() bool { return o.state == absent }
