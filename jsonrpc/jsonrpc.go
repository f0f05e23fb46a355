// Package jsonrpc reads and writes JSON-RPC 2.0 messages.
//
// It is strict where two readers could disagree: an object with a name twice,
// or with two names that differ only in case, is refused, and so is invalid
// UTF-8. Ids, params and results stay raw bytes: numbers keep their digits and
// nothing is re-encoded.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the only version there is.
const Version = "2.0"

// The codes that JSON-RPC itself defines, and the one that servers use for
// what went wrong on their side.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeServer         = -32000
)

// A Request is a call, or a notification if it has no ID.
type Request struct {
	ID     json.RawMessage // a string, a number or null as it came; nil for a notification
	Method string
	Params json.RawMessage // an object or array as it came; nil if absent

	// Invalid is set, and nothing else but perhaps ID, when one message of a
	// batch is not a request.
	Invalid *Error
}

// Notification reports whether nobody waits for an answer.
func (r Request) Notification() bool { return r.ID == nil && r.Invalid == nil }

// A Response answers a Request.
type Response struct {
	ID     json.RawMessage // nil is written as null
	Result json.RawMessage
	Error  *Error
}

// An Error is the failure of a call.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// AppendTo appends the response as one line of JSON without a line end.
func (r Response) AppendTo(b []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if r.ID == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, r.ID...)
	}
	if r.Error != nil {
		b = append(b, `,"error":`...)
		raw, err := json.Marshal(r.Error)
		if err != nil { // Data was not JSON
			raw, _ = json.Marshal(Error{Code: r.Error.Code, Message: r.Error.Message})
		}
		b = append(b, raw...)
	} else {
		b = append(b, `,"result":`...)
		if r.Result == nil {
			b = append(b, "null"...)
		} else {
			b = append(b, r.Result...)
		}
	}
	return append(b, '}')
}

// MaxBatch is how many messages one batch may hold.
const MaxBatch = 1000

// ParseRequests reads a request, a notification or a batch of them. The error,
// always an *Error, is for a body that cannot be read at all.
func ParseRequests(body []byte) (requests []Request, batch bool, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() != '[' {
		r, err := parseRequest(dec)
		if err != nil {
			return nil, false, err
		}
		return []Request{r}, false, atEnd(dec)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, true, parseError(err)
	}
	for dec.PeekKind() != ']' {
		if len(requests) == MaxBatch {
			return nil, true, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("a batch holds at most %d messages", MaxBatch)}
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, true, parseError(err)
		}
		r, err := parseRequest(jsontext.NewDecoder(bytes.NewBuffer(raw)))
		if err != nil {
			var e *Error
			errors.As(err, &e)
			r = Request{Invalid: e}
		}
		requests = append(requests, r)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, true, parseError(err)
	}
	if len(requests) == 0 {
		return nil, true, &Error{Code: CodeInvalidRequest, Message: "a batch must not be empty"}
	}
	return requests, true, atEnd(dec)
}

// members are the names of a request; a name that differs from one of them in
// case only could pass for it with another reader.
var members = [...]string{"jsonrpc", "id", "method", "params"}

func parseRequest(dec *jsontext.Decoder) (Request, error) {
	var r Request
	if k := dec.PeekKind(); k != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return r, parseError(err)
		}
		return r, &Error{Code: CodeInvalidRequest, Message: "a request is an object"}
	}
	if _, err := dec.ReadToken(); err != nil {
		return r, parseError(err)
	}
	version, method := "", false
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return r, parseError(err)
		}
		name := token.String()
		raw, err := dec.ReadValue()
		if err != nil {
			return r, parseError(err)
		}
		switch name {
		case "jsonrpc":
			version, _ = text(raw)
		case "id":
			if k := raw.Kind(); k != '"' && k != '0' && k != 'n' {
				return r, &Error{Code: CodeInvalidRequest, Message: "id must be a string, a number or null"}
			}
			r.ID = bytes.Clone(raw)
		case "method":
			r.Method, method = text(raw)
		case "params":
			if k := raw.Kind(); k != '{' && k != '[' {
				return r, &Error{Code: CodeInvalidRequest, Message: "params must be an object or an array"}
			}
			r.Params = bytes.Clone(raw)
		default:
			for _, m := range members {
				if strings.EqualFold(m, name) {
					return r, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("member %q differs from %q in case only", name, m)}
				}
			}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return r, parseError(err)
	}
	switch {
	case version != Version:
		return r, &Error{Code: CodeInvalidRequest, Message: `jsonrpc must be "2.0"`}
	case !method || r.Method == "":
		return r, &Error{Code: CodeInvalidRequest, Message: "method must be a string that is not empty"}
	}
	return r, nil
}

func text(raw jsontext.Value) (string, bool) {
	if raw.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	return string(s), err == nil
}

// atEnd reports an error unless nothing but blanks follows.
func atEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != io.EOF {
		return &Error{Code: CodeParse, Message: "there is something after the end of the message"}
	}
	return nil
}

// parseError says why a body cannot be read. What the decoder found is told by
// its kind and place, never with the bytes themselves.
func parseError(err error) *Error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Code: CodeParse, Message: "the message ends too early"}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Error{Code: CodeInvalidRequest, Message: "an object has the same name twice"}
	case errors.As(err, &s) && strings.Contains(s.Err.Error(), "UTF-8"):
		return &Error{Code: CodeParse, Message: fmt.Sprintf("invalid UTF-8 at byte %d", s.ByteOffset)}
	case errors.As(err, &s):
		return &Error{Code: CodeParse, Message: fmt.Sprintf("not valid JSON at byte %d", s.ByteOffset)}
	}
	return &Error{Code: CodeParse, Message: "not valid JSON"}
}
