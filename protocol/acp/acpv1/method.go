package acpv1

import "encoding/json"

// A Value is an object or union of the protocol.
type Value interface {
	json.Marshaler
	json.Unmarshaler
	Validate() error
	Check(*Rules) error
}

// A Message is the params or the result of a method.
type Message interface {
	Value
	Method() string
}

// A Side is the side of a connection that handles a method.
type Side string

// The sides.
const (
	SideAgent  Side = "agent"
	SideClient Side = "client"
	SideBoth   Side = "both"
)

// A Method is a request or, if it has no result, a notification.
type Method struct {
	Name      string
	Side      Side // the side that handles it
	Unstable  bool // it may change without notice
	NewParams func() Message
	NewResult func() Message // nil for a notification
}

// Notification reports whether the method has no answer.
func (m Method) Notification() bool { return m.NewResult == nil }
