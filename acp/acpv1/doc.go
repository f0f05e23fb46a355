// Package acpv1 holds the messages of version 1 of the Agent Client Protocol.
//
// The types are generated from the protocol's schema; [Methods] lists what is
// sent in which direction. What is read comes out again as it came:
//
//   - members that the protocol does not define are kept in Extra, in their order;
//   - a variant that is not known is kept in Unknown, byte for byte;
//   - absent, null and a value are three things, see [Optional];
//   - numbers keep their digits.
//
// Decoding refuses what cannot be read in one way only: invalid UTF-8, a name that
// comes twice or differs from another in case only, a missing required member, a
// value of the wrong JSON type, a discriminator that is missing, empty or not a
// string, and a known variant that is malformed. It never refuses an unknown
// value of an enum. Validate reports everything else that the schema forbids, with
// the path: in this version most enums and unions are closed, so that an unknown
// value decodes but is not valid. Formats such as "uri" are annotations and are not
// checked.
//
// Encoding writes one line and never a name twice. The types are plain values: a
// program that changes one from two goroutines has to take care of that.
package acpv1

//go:generate go run -C ../.. ./scripts/acpgen generate
