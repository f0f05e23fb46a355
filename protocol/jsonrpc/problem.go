package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A ProblemCode is the kind of a Problem.
type ProblemCode string

// Problems with bytes.
const (
	ProblemNotJSON   ProblemCode = "not_json"       // prose, or broken JSON
	ProblemTruncated ProblemCode = "truncated"      // an object or array that does not end
	ProblemUTF8      ProblemCode = "invalid_utf8"   // bytes that are not UTF-8
	ProblemSurrogate ProblemCode = "lone_surrogate" // half of a \uD800 pair
	ProblemTooLarge  ProblemCode = "too_large"      // more bytes than a frame may have
	ProblemDuplicate ProblemCode = "duplicate_name" // an object that has a name twice
	ProblemCaseTwin  ProblemCode = "case_twin"      // two names that differ in case only
)

// Problems with a message.
const (
	ProblemNotMessage ProblemCode = "not_a_message"    // JSON, but neither a request nor a response
	ProblemVersion    ProblemCode = "wrong_version"    // jsonrpc is not "2.0"
	ProblemID         ProblemCode = "bad_id"           // an id that is not a string, a number or null
	ProblemMethod     ProblemCode = "bad_method"       // a method that is not a string, or empty
	ProblemParams     ProblemCode = "bad_params"       // params that are not an object or array
	ProblemBoth       ProblemCode = "result_and_error" // a response that has both
	ProblemNeither    ProblemCode = "no_result"        // a response that has neither
	ProblemError      ProblemCode = "bad_error"        // an error without an integer code and a message
	ProblemBatch      ProblemCode = "bad_batch"        // a batch that is empty or too long
)

// Problems with a message at this point of the conversation.
const (
	ProblemUnknownID ProblemCode = "unknown_id"        // a response that no call waits for
	ProblemIDChanged ProblemCode = "id_changed"        // a response whose id is not spelled as it was sent
	ProblemNullID    ProblemCode = "unasked_answer"    // a response to a notification
	ProblemRefused   ProblemCode = "message_refused"   // the other side could not read a message of this side
	ProblemReusedID  ProblemCode = "id_in_use"         // a request with the id of a running one
	ProblemBusy      ProblemCode = "too_many_requests" // a request beyond the limits
	ProblemCancel    ProblemCode = "bad_cancel"        // a $/cancel_request without an id
)

// maxExcerpt is how many bytes of the input a Problem repeats.
const maxExcerpt = 200

// A Problem is invalid input that the connection survives. The code is a contract,
// the text is for people.
type Problem struct {
	Code    ProblemCode
	Text    string // the mistake and its correction
	Excerpt []byte // the first bytes of the input, at most 200
}

// Error returns the text and the excerpt.
func (p *Problem) Error() string {
	if len(p.Excerpt) == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s: %q", p.Text, p.Excerpt)
}

// problemf returns a problem with the input raw.
func problemf(code ProblemCode, raw []byte, format string, args ...any) *Problem {
	return &Problem{Code: code, Text: fmt.Sprintf(format, args...), Excerpt: bytes.Clone(raw[:min(len(raw), maxExcerpt)])}
}

// syntaxProblem returns the problem for an error of the JSON decoder.
func syntaxProblem(raw []byte, err error) *Problem {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(ProblemTruncated, raw, "the message is incomplete")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problemf(ProblemDuplicate, raw, "an object has two members with the same name")
	case !errors.As(err, &s):
		return problemf(ProblemNotJSON, raw, "not valid JSON")
	case strings.Contains(s.Err.Error(), "UTF-8"):
		return problemf(ProblemUTF8, raw, "invalid UTF-8 at byte %d", s.ByteOffset)
	case strings.Contains(s.Err.Error(), "surrogate"):
		return problemf(ProblemSurrogate, raw, "unpaired surrogate at byte %d", s.ByteOffset)
	}
	return problemf(ProblemNotJSON, raw, "not valid JSON at byte %d", s.ByteOffset)
}

// rpcCode returns the code of the JSON-RPC error that answers the input.
func (p *Problem) rpcCode() int {
	switch p.Code {
	case ProblemNotJSON, ProblemTruncated, ProblemUTF8, ProblemSurrogate:
		return CodeParse
	case ProblemBusy:
		return CodeInternal
	}
	return CodeInvalidRequest
}
