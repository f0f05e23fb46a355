package mcptools

import (
	"bytes"
	"encoding/json"
	"net/http"
)

const eventStream = "text/event-stream"

// An answerWriter writes the answer to a POST request as the library's stream of events
// when a notification comes before the answer, such as the progress of a call that
// waits, and as plain JSON when there is nothing but the answer.
type answerWriter struct {
	http.ResponseWriter
	held    []byte // events that are written by finish, while there was no notification
	events  int    // in held
	streams bool
}

// Write takes one event, or a part of an answer that is no stream.
func (w *answerWriter) Write(b []byte) (int, error) {
	if w.streams || w.Header().Get("Content-Type") != eventStream {
		return w.ResponseWriter.Write(b)
	}
	w.held = append(w.held, b...)
	w.events++
	if isAnswer(b) {
		return len(b), nil
	}
	w.streams = true
	_, err := w.ResponseWriter.Write(w.held)
	w.held = nil
	return len(b), err
}

// isAnswer reports whether an event is an answer and no notification.
func isAnswer(event []byte) bool {
	var m struct {
		Method json.RawMessage `json:"method"`
	}
	return json.Unmarshal(dataOf(event), &m) == nil && m.Method == nil
}

// dataOf returns the data of an event, which the library writes as one line.
func dataOf(event []byte) []byte {
	_, data, _ := bytes.Cut(event, []byte("data: "))
	return bytes.TrimSpace(data)
}

// Flush sends the buffered bytes, except events that are held.
func (w *answerWriter) Flush() {
	if w.streams || w.Header().Get("Content-Type") != eventStream {
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap returns the writer inside, for an http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish writes the events that are held: one answer as JSON, the answers to a batch as
// the events that they are.
func (w *answerWriter) finish() {
	out := w.held
	if w.events == 1 && len(out) > 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Del("Connection")
		out = dataOf(out)
	}
	if len(out) > 0 {
		w.ResponseWriter.Write(out) // a caller that is gone needs no answer
	}
}
