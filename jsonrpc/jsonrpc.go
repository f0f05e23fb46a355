// Package jsonrpc reads and writes JSON-RPC 2.0 messages: single ones, as they
// come over HTTP, and streams of them, one a line, as two programs exchange them
// over pipes.
//
// It is strict where two readers could disagree: an object with a name twice is
// refused, and so are invalid UTF-8, half a surrogate pair, and names of a
// message, its error, its params or its result that differ only in case. What
// is deeper inside is for those who know what it means. Ids, params and results
// stay raw bytes: numbers keep their digits and nothing is re-encoded.
//
// # Frames
//
// A [Reader] takes a stream apart. It is forgiving about lines and blanks: see
// there. What is no frame is a [Problem]: it is reported, with a word for
// programs and a text for people, and reading goes on. Only a frame limit keeps
// memory bounded, so there always is one.
//
// # Connections
//
// A [Conn] is one side of a conversation in which both sides make requests and
// send notifications, over any reader and writer.
//
//   - One goroutine reads. It runs the handlers of notifications itself, one
//     after the other, and starts those of requests and hands over answers in
//     between. So everything happens in the order in which it came: when a call
//     returns, all notifications that came before the answer have been handled.
//   - While a notification is handled, nothing is read. A handler that is slow
//     holds up the other side, and no queue grows. Answers wait no longer than
//     they must, because they have to wait for these notifications anyway.
//   - For the same reason a handler of notifications must not wait for a call on
//     its own connection. One that tries gets [ErrHandlerWait].
//   - Handlers of requests run at the same time, may make calls, and never hold
//     up reading: the answers that they wait for may come next. One request more
//     than may run is refused. Only to refuse it does the reader wait until
//     the other side has read earlier answers.
//   - Those who send wait, with their context, while more than 1 MiB waits to be
//     written. [Conn.Begin] alone does not.
//   - A call whose context ends returns at once, and the other side is sent
//     $/cancel_request; when that comes in, the context of the request it names
//     ends. A request that was cancelled is answered all the same, by default
//     with [CodeCancelled].
//   - An id is matched by type and text: 1, "1" and 1.0 are three ids. An answer
//     whose id is only written differently makes its call fail, with a
//     [Problem] that says so, and so does every other answer that is not
//     allowed but whose id can be read.
//   - When the other side ends, calls fail, after all answers that it sent are
//     delivered. Requests go on, and are answered: it may still listen. [Conn.Wait]
//     waits for that; [Conn.Close] does not, and leaves no goroutine behind.
//
// # Processes
//
// A [Process] is a program at the other end of two pipes. It is closed in steps
// and takes its children with it. It can be used with a Conn or without.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

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
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, batch, parseError(err)
	}
	raw = bytes.Clone(raw)
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, batch, &Error{Code: CodeParse, Message: "there is something after the end of the message"}
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
	case m.isAnswer():
		return Request{Invalid: &Error{Code: CodeInvalidRequest, Message: "a request has a method; this is an answer"}}
	}
	return Request{ID: m.id, Method: m.method, Params: m.params}
}

// parseError says why a body cannot be read. What the decoder found is told by
// its kind and place, never with the bytes themselves.
func parseError(err error) *Error {
	problem := syntaxProblem(nil, err)
	return &Error{Code: problem.rpcCode(), Message: problem.Text}
}
