package jsonrpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A message is a request, a notification or a response.
type message struct {
	id     json.RawMessage // nil if there is none
	method string          // empty for a response
	params json.RawMessage
	result json.RawMessage
	err    *Error
}

func (m message) isResponse() bool { return m.method == "" }

// A Message is a request, a notification or a response, for programs that check recorded
// frames and have no connection.
type Message struct {
	ID     json.RawMessage // nil if there is none
	Method string          // empty for a response
	Params json.RawMessage // nil if there are none
	Result json.RawMessage // nil if there is none
	Err    *Error          // of a response; nil if it has a result
}

// ParseMessage parses one message. The error is a *Problem.
func ParseMessage(raw []byte) (Message, error) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return Message{}, problemf(ProblemNotMessage, raw, "a message must be a JSON object")
	}
	m, problem := parseMessage(raw)
	if problem != nil {
		return Message{}, problem
	}
	return Message{m.id, m.method, m.params, m.result, m.err}, nil
}

// parseMessage parses a message from valid JSON. Beside a problem it returns the
// members that could be read, so that the problem can be passed to the side that
// waits for the message.
func parseMessage(raw []byte) (m message, problem *Problem) {
	if raw[0] != '{' {
		return m, problemf(ProblemNotMessage, raw, "a message must be a JSON object")
	}
	var seen names
	var values memberValues
	for name, value := range members(raw) {
		if twin, found := seen.add(name); found && problem == nil {
			problem = twinProblem(raw, "a message", twin, name)
		}
		problem = cmp.Or(problem, values.set(raw, name, value))
	}
	if problem == nil && !isVersion(values.version) {
		problem = problemf(ProblemVersion, raw, `a message must have the member "jsonrpc" with the value "2.0"`)
	}

	m.id = values.id
	m.params = values.params
	m.result = values.result
	var wrong *Problem
	if values.method != nil {
		wrong = m.readRequest(raw, values.method, m.result != nil || values.failure != nil)
	} else {
		wrong = m.readResponse(raw, values.failure)
	}
	return m, cmp.Or(problem, wrong)
}

// memberValues are the values of a message's members, nil for those that it does not have.
type memberValues struct {
	version, id, method, params, result, failure []byte
}

// set notes the value of a member. It reports an id that is none, which it does not note,
// and a name that differs from that of a member in case only.
func (v *memberValues) set(raw, name, value []byte) *Problem {
	switch string(name) {
	case "jsonrpc":
		v.version = value
	case "id":
		c := value[0]
		isContainer := c == '{' || c == '['
		isBool := c == 't' || c == 'f'
		if isContainer || isBool {
			return problemf(ProblemID, raw, "the id of a message must be a string, a number or null")
		}
		v.id = value
	case "method":
		v.method = value
	case "params":
		v.params = value
	case "result":
		v.result = value
	case "error":
		v.failure = value
	default:
		if like := memberLike(name); like != "" {
			return problemf(ProblemCaseTwin, raw, "a message has the member %q: write it as %q", name, like)
		}
	}
	return nil
}

func (m *message) readRequest(raw, method []byte, hasOutcome bool) *Problem {
	m.method, _ = text(method)
	switch {
	case m.method == "":
		m.method = "?" // not a response
		return problemf(ProblemMethod, raw, "the method of a request must be a non-empty string")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return problemf(ProblemParams, raw, "the params of a request must be an object or an array")
	case hasOutcome:
		return problemf(ProblemNotMessage, raw, "a message must not have both a method and a result or an error")
	}
	return nil
}

func (m *message) readResponse(raw, failure []byte) *Problem {
	switch {
	case m.result == nil && failure == nil && m.id == nil:
		return problemf(ProblemNotMessage, raw, "a message must have a method, or an id with a result or an error")
	case m.result == nil && failure == nil:
		return problemf(ProblemNeither, raw, "a response must have a result or an error, and a request must have a method")
	case m.result != nil && failure != nil:
		return problemf(ProblemBoth, raw, "a response must have a result or an error, not both")
	case failure == nil:
		return nil
	case failure[0] != '{':
		return problemf(ProblemError, raw, "the error of a response must be an object")
	}

	// Unknown members are ignored; checkNames refuses names that differ in case only.
	e := &Error{}
	var code, message bool
	for name, value := range members(failure) {
		switch string(name) {
		case "code":
			n, err := strconv.Atoi(string(value))
			e.Code, code = n, err == nil
		case "message":
			e.Message, message = text(value)
		case "data":
			e.Data = value
		}
	}

	if !code || !message {
		return problemf(ProblemError, raw, "the error of a response must have an integer code and a string message")
	}
	m.err = e
	return checkNames("an error", failure)
}

// checkNames reports two names of an object that differ in case only. It does not
// check the values inside.
func checkNames(what string, raw []byte) *Problem {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var seen names
	for name := range members(raw) {
		if twin, found := seen.add(name); found {
			return twinProblem(raw, what, twin, name)
		}
	}
	return nil
}

func twinProblem(raw []byte, what, a string, b []byte) *Problem {
	return problemf(ProblemCaseTwin, raw, "%s has the members %q and %q, which differ only in case", what, a, b)
}

// text returns the value of a JSON string. It reports false for other JSON.
func text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	s, _ := strictjson.Unquote(raw)
	return string(s), true
}

// isVersion reports whether raw is the version of JSON-RPC. All but odd writers send
// the same five bytes, which costs no memory to compare.
func isVersion(raw []byte) bool {
	if string(raw) == `"2.0"` {
		return true
	}
	v, _ := text(raw)
	return v == Version
}

// memberLike returns the member of a message that name differs from in case only,
// "" if there is none. Another reader could take one for the other.
func memberLike(name []byte) string {
	for _, m := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
		if strings.EqualFold(m, string(name)) {
			return m
		}
	}
	return ""
}

// salvage reads the id of a message that is not valid JSON, and whether it has a
// method, so that its problem can be passed to the side that waits for it.
func salvage(raw []byte) (m message) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), lenient...)
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return m
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return m
		}
		switch name.String() {
		case "id":
			id, err := dec.ReadValue()
			isContainer := id.Kind() == '{' || id.Kind() == '['
			if err != nil || m.id != nil || isContainer {
				m.id = nil
				return m
			}
			m.id = bytes.Clone(id)
		case "method":
			m.method = "?"
			fallthrough
		default:
			if dec.SkipValue() != nil {
				return m
			}
		}
	}
}

// idKey returns the same text for equal ids: strings with the same value in any
// escaping, numbers with the same digits.
func idKey(id json.RawMessage) string {
	if s, ok := text(id); ok {
		return `"` + s
	}
	return string(id)
}

// requestLine encodes a request, or a notification if id is empty, as one line.
func requestLine(id, method string, params json.RawMessage) []byte {
	b := make([]byte, 0, 64+len(method)+len(params))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if id != "" {
		b = append(b, `,"id":`...)
		b = append(b, id...)
	}
	b = append(b, `,"method":`...)
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(method, "\uFFFD"))
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, "}\n"...)
}

// encode encodes v as JSON on one line. A json.RawMessage loses its line ends and
// stays as it is otherwise.
func encode(v any) (json.RawMessage, error) {
	raw, ok := v.(json.RawMessage)
	if !ok || raw == nil {
		return strictjson.Encode(v)
	}
	if !jsontext.Value(raw).IsValid() {
		return nil, errors.New("the raw message is not valid JSON")
	}
	if bytes.ContainsAny(raw, "\r\n") {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return nil, err
		}
		raw = b.Bytes()
	}
	return raw, nil
}

// encodeParams encodes the params of a request, nil if there are none.
func encodeParams(params any) (json.RawMessage, error) {
	if raw, ok := params.(json.RawMessage); params == nil || (ok && raw == nil) {
		return nil, nil
	}
	raw, err := encode(params)
	if err != nil {
		return nil, err
	}
	if c := bytes.TrimLeft(raw, blanks)[0]; c != '{' && c != '[' {
		return nil, fmt.Errorf("params must be an object or an array, not %T", params)
	}
	return raw, nil
}
