package hub

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Code is the kind of a failure. Codes are a contract: they are
// sent on the wire, stored in the journal and mapped to exit codes. The text
// of an error is not.
type Code string

// The codes.
const (
	// The caller can correct the request.
	CodeInvalid          Code = "schema_invalid"      // the input breaks the published schema
	CodePayloadTooLarge  Code = "payload_too_large"   // more bytes than a payload may have
	CodeTooLarge         Code = "too_large"           // a request, page or file over its limit
	CodeUnknownType      Code = "unknown_type"        // no such message type
	CodeReservedType     Code = "reserved_type"       // a type whose feature is off, or that only the hub writes
	CodeUnknownRecipient Code = "unknown_recipient"   // no agent of that name
	CodeNotFound         Code = "not_found"           // no such thing, or none that the caller may see
	CodeConflict         Code = "conflict"            // the thing is not in a state that allows this
	CodeSequence         Code = "sequence_invalid"    // a negotiation message out of order
	CodeHashMismatch     Code = "hash_mismatch"       // content does not match its hash
	CodeOwnership        Code = "ownership_conflict"  // another agent owns the task, or the receiver owned it before
	CodeUnproven         Code = "unproven"            // a claim contradicts the files or the repository, or cannot be checked on a hub that requires proof
	CodeOutsideRoots     Code = "outside_roots"       // a file or worktree lies under no root, so that no claim about it can be checked
	CodeNotEnabled       Code = "capability_disabled" // the feature exists but is off

	// The caller lacks authority, or has to wait.
	CodeUnauthenticated Code = "unauthenticated"    // no key, or one that is unknown, expired or revoked
	CodeTampering       Code = "identity_tampering" // the input claims a sender
	CodeDenied          Code = "forbidden"          // no authority
	CodePolicy          Code = "policy_violation"   // the policy block forbids it
	CodeRateLimited     Code = "rate_limited"       // over the rate; see RetryAfter
	CodeCircuitOpen     Code = "circuit_open"       // the sender repeats itself and is suspended
	CodeLoop            Code = "loop_detected"      // too many hops or rounds without a human

	// Another hub failed.
	CodeUnreachable Code = "unreachable" // another hub does not answer, or not as the protocol says

	// This hub failed.
	CodeDegraded   Code = "degraded"   // the store cannot be used now; nothing was changed
	CodeOverloaded Code = "overloaded" // the store served other calls for too long; nothing was changed
	CodeInternal   Code = "internal"   // a bug; the cause is in the log
)

// An Error is a failure with a code. It is made where the cause is known and
// wrapped on the way up.
type Error struct {
	Code       Code
	Op         string        // package.Method that refused
	Err        error         // the text for people
	Hint       string        // the next step for the reader; may be empty
	RetryAfter time.Duration // time until a retry can succeed; zero if unknown
}

// Errorf returns an Error with the given code whose text is formatted as by
// fmt.Errorf.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Err: fmt.Errorf(format, args...)}
}

// WithHint returns e with the next step for its reader: a command on the command
// line, a tool for an agent.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithRetry returns e with the time until a retry can succeed.
func (e *Error) WithRetry(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error returns the text for people.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeInternal for
// any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// Unavailable reports whether a call failed because the store could not serve it now.
// Nothing was changed, and the same call may succeed later.
func Unavailable(err error) bool {
	code := CodeOf(err)
	return code == CodeDegraded || code == CodeOverloaded
}

// JoinWords returns words as a list for a text: a, b, c.
func JoinWords[S ~string](words []S) string {
	text := make([]string, len(words))
	for i, w := range words {
		text[i] = string(w)
	}
	return strings.Join(text, ", ")
}
