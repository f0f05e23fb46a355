package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A ProblemCode is a word for what was wrong with something that came in.
type ProblemCode string

// What can be wrong with bytes on the wire.
const (
	ProblemNotJSON   ProblemCode = "not_json"       // prose, or broken JSON
	ProblemTruncated ProblemCode = "truncated"      // an object or array that does not end
	ProblemUTF8      ProblemCode = "invalid_utf8"   // bytes that are no UTF-8
	ProblemSurrogate ProblemCode = "lone_surrogate" // half of a \uD800 pair
	ProblemTooLarge  ProblemCode = "too_large"      // more bytes than a frame may have
	ProblemDuplicate ProblemCode = "duplicate_name" // an object that has a name twice
	ProblemCaseTwin  ProblemCode = "case_twin"      // two names that differ in case only
)

// What can be wrong with a message.
const (
	ProblemNotMessage ProblemCode = "not_a_message"    // JSON, but neither request nor answer
	ProblemVersion    ProblemCode = "wrong_version"    // jsonrpc is not "2.0"
	ProblemID         ProblemCode = "bad_id"           // an id that is no string, number or null
	ProblemMethod     ProblemCode = "bad_method"       // a method that is no name
	ProblemParams     ProblemCode = "bad_params"       // params that are no object or array
	ProblemBoth       ProblemCode = "result_and_error" // an answer that has both
	ProblemNeither    ProblemCode = "no_result"        // an answer that has neither
	ProblemError      ProblemCode = "bad_error"        // an error without integer code and text
	ProblemBatch      ProblemCode = "bad_batch"        // a batch that is empty or too long
)

// What can be wrong with a message at this point of the conversation.
const (
	ProblemUnknownID ProblemCode = "unknown_id"        // an answer to no call that waits
	ProblemIDChanged ProblemCode = "id_changed"        // an answer whose id is not written as it was sent
	ProblemNullID    ProblemCode = "unasked_answer"    // an answer to something that asked for none
	ProblemRefused   ProblemCode = "message_refused"   // the other side could not read a message
	ProblemReusedID  ProblemCode = "id_in_use"         // a request with the id of one that still runs
	ProblemBusy      ProblemCode = "too_many_requests" // more requests at once than are taken
	ProblemCancel    ProblemCode = "bad_cancel"        // a cancellation that names no request
)

// maxExcerpt is how many bytes of what came in a Problem repeats.
const maxExcerpt = 200

// A Problem is something that the other side did wrong and that the connection
// survives. The code is a contract, the text is for people.
type Problem struct {
	Code    ProblemCode
	Text    string // what was wrong and what would have been right
	Excerpt []byte // how it began, at most 200 bytes
}

// Error returns the text and how the refused bytes began.
func (p *Problem) Error() string {
	if len(p.Excerpt) == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s: %q", p.Text, p.Excerpt)
}

// problemf returns a problem with raw, which is cut.
func problemf(code ProblemCode, raw []byte, format string, args ...any) *Problem {
	return &Problem{Code: code, Text: fmt.Sprintf(format, args...), Excerpt: bytes.Clone(raw[:min(len(raw), maxExcerpt)])}
}

// syntaxProblem says why a decoder could not read raw.
func syntaxProblem(raw []byte, err error) *Problem {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(ProblemTruncated, raw, "the message ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problemf(ProblemDuplicate, raw, "an object has the same name twice")
	case !errors.As(err, &s):
		return problemf(ProblemNotJSON, raw, "not valid JSON")
	case strings.Contains(s.Err.Error(), "UTF-8"):
		return problemf(ProblemUTF8, raw, "invalid UTF-8 at byte %d", s.ByteOffset)
	case strings.Contains(s.Err.Error(), "surrogate"):
		return problemf(ProblemSurrogate, raw, "half of a surrogate pair at byte %d, which stands for no character", s.ByteOffset)
	}
	return problemf(ProblemNotJSON, raw, "not valid JSON at byte %d", s.ByteOffset)
}

// rpcCode returns the code of the error that answers such a message.
func (p *Problem) rpcCode() int {
	switch p.Code {
	case ProblemNotJSON, ProblemTruncated, ProblemUTF8, ProblemSurrogate:
		return CodeParse
	case ProblemBusy:
		return CodeInternal
	}
	return CodeInvalidRequest
}
