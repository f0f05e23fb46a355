// Package acpv2 holds the messages of version 2 of the Agent Client Protocol, and
// turns them into those of version 1.
//
// The types are generated from the protocol's schema and follow the rules that
// package acpv1 states: what is read comes out again as it came. In this version
// enums and unions are open unless their comment says otherwise: an unknown value
// is legal. If it begins with _ it belongs to an implementation; if not, it belongs
// to a future version of the protocol. [Fallbacks] says what to do with one that
// cannot be acted on.
//
// A program that makes up messages holds them to [Rules] with Own, so that it
// never sends a value that belongs to the protocol but is not in it.
//
// [ToV1] converts single messages and fails where version 1 has no room for what
// is said. [Bridge] keeps the state that a prompt needs: version 2 answers it at
// once and tells later that the work is done; version 1 answers when it is done.
package acpv2

//go:generate go run -C ../.. ./scripts/acpgen generate
