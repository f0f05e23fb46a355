package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the value of the member "jsonrpc" in every message.
const Version = "2.0"

// The error codes that JSON-RPC defines, and the first of those that it leaves to
// servers.
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

	// Invalid is the error that answers a message of a batch that is not a
	// request. Only ID may be set beside it.
	Invalid *Error
}

// Notification reports whether the request gets no response.
func (r Request) Notification() bool { return r.ID == nil && r.Invalid == nil }

// A Response answers a Request.
type Response struct {
	ID     json.RawMessage // that of the request; nil is written as null
	Result json.RawMessage // nil is written as null, if there is no Error
	Error  *Error
}

// An Error is the error of a response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// AppendTo appends the response to b as JSON on one line, without a line end.
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

// MaxBatch is the largest number of messages in a batch.
const MaxBatch = 1000

// ParseRequests parses a request, a notification or a batch of them. The error, an
// *Error, is for a body that cannot be parsed at all; an invalid message of a batch
// is a Request whose Invalid is set.
func ParseRequests(body []byte) (requests []Request, batch bool, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, false, parseError(err)
	}
	raw = bytes.Clone(raw)
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, false, &Error{Code: CodeParse, Message: "unexpected data after the message"}
	}
	if raw[0] != '[' {
		r := parseRequest(raw)
		if r.Invalid != nil {
			return nil, false, r.Invalid
		}
		return []Request{r}, false, nil
	}
	for element := range elements(raw) {
		if len(requests) == MaxBatch {
			return nil, true, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("a batch holds at most %d messages", MaxBatch)}
		}
		requests = append(requests, parseRequest(element))
	}
	if len(requests) == 0 {
		return nil, true, &Error{Code: CodeInvalidRequest, Message: "a batch must not be empty"}
	}
	return requests, true, nil
}

func parseRequest(raw []byte) Request {
	m, problem := parseMessage(raw)
	if problem != nil && problem.Code == ProblemParams && string(m.params) == "null" {
		m.params, problem = nil, nil // some clients write null where they have none
	}
	switch {
	case problem != nil:
		return Request{Invalid: &Error{Code: CodeInvalidRequest, Message: problem.Text}}
	case m.isResponse():
		return Request{Invalid: &Error{Code: CodeInvalidRequest, Message: "expected a request, got a response"}}
	}
	return Request{ID: m.id, Method: m.method, Params: m.params}
}

// parseError describes a syntax error by its kind and place. It never repeats the
// bytes of the body.
func parseError(err error) *Error {
	problem := syntaxProblem(nil, err)
	return &Error{Code: problem.rpcCode(), Message: problem.Text}
}
