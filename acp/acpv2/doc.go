// Package acpv2 holds the messages of version 2 of the Agent Client Protocol, and
// turns them into those of version 1.
//
// The types are generated from the protocol's schema and follow the rules that
// package acpv1 states: a value that was decoded is encoded to the same JSON. In
// this version enums and unions are open unless their comment says otherwise: an unknown value
// is legal. If it begins with _ it belongs to an implementation; if not, it belongs
// to a future version of the protocol. [Fallbacks] recommends what a
// program does with one that it cannot act on.
//
// A program checks the messages that it makes itself with [Rules] and Own set, so
// that it never sends an unknown value that belongs to the protocol.
//
// [ToV1] converts single messages and fails where version 1 cannot express the
// message. [Bridge] keeps the state that a prompt needs: version 2 answers it at
// once and reports later that the work is done; version 1 answers when it is done.
//
// A type that both versions define alike, with all that it refers to, is an alias
// of the type in acpv1.
package acpv2

//go:generate go run -C ../.. ./scripts/acpgen generate
