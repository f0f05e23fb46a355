package model

import "strings"

// An api is one wire format for talking to a model. Everything that differs between the
// formats is behind these functions.
type api struct {
	name string

	// One function per step of an exchange, in the order in which they run. Requests
	// need none: readRequest understands all APIs.
	fits    func(path string) bool
	whole   func(r *request, a *answer) any // the body of an answer that is not streamed
	stream  func(exchange) stream
	failure func(status int, text string) any // the body of an error
}

// An exchange is a request, its answer, and the events in which the answer is sent.
type exchange struct {
	out *events
	r   *request
	a   *answer
}

// A stream sends an answer in pieces: begin, then for each part open, delta for
// each piece and close, then end. fail may come after any of these and is the last
// call. A write that fails is remembered by the events, so the methods return no
// error.
type stream interface {
	begin()
	open(p part)
	delta(p part, chunk string)
	close(p part)
	end()
	fail(status int, text string) // in the middle of the answer
}

// apis has the APIs that are served. No path belongs to two of them.
var apis = []api{chatAPI, responsesAPI, messagesAPI, geminiAPI}

// apiFor returns the API of a path, nil if there is none. Only the end of the path counts:
// users configure any base address.
func apiFor(path string) *api {
	for i := range apis {
		if apis[i].fits(path) {
			return &apis[i]
		}
	}
	return nil
}

// ending returns the condition that a path has a suffix.
func ending(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// obj is a JSON object to be sent. Its members are sorted.
type obj = map[string]any

// epoch is the time in all answers, so that the same answer has the same bytes.
const epoch = 1767225600

// failureName returns the name of an error: by its status, else the name for failures of
// the server or of the request.
func failureName(status int, names map[int]string, server, request string) string {
	// The names are contracts: agents decide by them whether to try again.
	if name, ok := names[status]; ok {
		return name
	}
	if status >= 500 {
		return server
	}
	return request
}
