// Package acpv2 holds the messages of version 2 of the Agent Client Protocol, and
// turns them into those of version 1.
//
// The types are generated from the protocol's schema and follow the rules that
// package acpv1 states: a value that was decoded is encoded to the same JSON. In
// this version enums and unions are open unless their comment says otherwise: an
// unknown value is legal. If it begins with _ it belongs to an implementation; if
// not, it belongs to a future version of the protocol. [Fallbacks] recommends a
// treatment for each member in which a program may find an unknown value.
//
// A program checks the messages that it makes itself with [Rules] and Own set, so
// that it never sends an unknown value that belongs to the protocol.
//
// # Conversion to version 1
//
// [ToV1] converts single messages and fails where version 1 cannot express the
// message. [Bridge] keeps the state that a prompt needs: version 2 answers it at
// once and reports later that the work is done; version 1 answers when it is done.
//
//	converted, err := acpv2.ToV1(message, &acpv2.V1Options{Client: &caps})
//	// send converted.Message, then each of converted.Then
//
// A conversion has three outcomes for each part of a message. It is expressed in
// version 1; it is left out, with a note, because version 1 implies it or because
// [V1Options.Lossy] allows the loss; or it is a problem, and nothing of the message
// may be sent. The converted message is validated against version 1 in every case.
//
// The opposite direction is not here: package acp raises requests of version 1,
// which version 2 can all express.
//
// A type that both versions define alike, with all that it refers to, is an alias
// of the type in acpv1.
package acpv2

//go:generate go run -C ../../.. ./scripts/acpgen generate
