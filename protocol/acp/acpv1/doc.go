// Package acpv1 holds the messages of version 1 of the Agent Client Protocol.
//
// The types are generated from the protocol's schema; [Methods] lists the requests
// and notifications and the side that handles each. A value that was decoded is
// encoded to the same JSON:
//
//   - members that the protocol does not define are kept in Extra, in their order;
//   - a variant that is not known is kept in Unknown, byte for byte;
//   - absent, null and a value are three things, see [Optional];
//   - numbers keep their digits.
//
// Decoding refuses input that two readers could take for different things: invalid
// UTF-8, a name that comes twice or differs from another in case only, a missing required member, a
// value of the wrong JSON type, a discriminator that is missing, empty or not a
// string, and a known variant that is malformed. It never refuses an unknown
// value of an enum. Validate reports everything else that the schema forbids, with
// the path: in this version most enums and unions are closed, so that an unknown
// value decodes but is not valid. Formats such as "uri" are annotations and are not
// checked.
//
// Encoding writes one line and never a name twice. The types are plain values
// without locks: two goroutines must not change one at the same time.
//
// The tags of a struct declare its members: json:"name" is required,
// json:"name,omitzero" may be absent, and acp:"..." adds null (may be null),
// default (null is read as an empty list), object (raw JSON that is an object or
// null), len, min and max. Messages and unions have MarshalJSON, UnmarshalJSON,
// Validate and Check; [Marshal], [Unmarshal] and [Check] take every type.
package acpv1

//go:generate go run -C ../../.. ./scripts/acpgen generate
