// Package jsonrpc reads and writes JSON-RPC 2.0: single messages, as HTTP carries
// them, and streams of messages, one per line, as two programs exchange them over
// pipes.
//
// The package is strict where two readers could disagree. It refuses an object
// that has a name twice, invalid UTF-8, half of a surrogate pair, and two names of
// a message, of its error, its params or its result that differ in case only.
// Deeper values are left to the code that knows their meaning. Ids, params and
// results stay raw bytes: numbers keep their digits, and nothing is re-encoded.
//
// # Frames
//
// A [Reader] splits a stream into frames. It tolerates some departures from one
// message per line and reports each of them as a [Flaw]. Bytes that are not a
// frame are a [Problem] with a code for programs and a text for people; reading
// goes on after it. A limit on the size of a frame keeps memory bounded.
//
// # Connections
//
// A [Conn] is one side of a conversation in which both sides make requests and
// send notifications, over any reader and writer.
//
// Order. One goroutine reads. For each frame, in the order of arrival, it runs
// the handler of a notification to its end, hands a response to its call, or
// starts the handler of a request on another goroutine. So a call returns after
// all notifications that arrived before its response were handled, and a request
// handler starts after all of them too. Two request handlers run at the same time
// and may overtake each other, unless their method is in [Options.Ordered]: an
// ordered handler is entered by the reading goroutine, before the next frame is
// dispatched, and returns the function that does the rest on another goroutine.
// In the other direction, a handler that returns an [Answer] has a function run
// after its response was handed to the writer: frames sent by that function follow
// the response.
//
// Waiting. While a notification is handled, nothing is read, so a slow handler
// slows the other side down and no queue grows. For the same reason a handler of
// notifications, and the first part of an ordered handler, must not wait for a
// call on their own connection: the response would be read only after they
// return. A call with the context that such a handler got, or one derived from it,
// fails with [ErrHandlerWait]. The context is the only sign of it: a handler that
// waits for a call with another context, such as context.Background, waits until
// the connection ends. Request handlers may make calls.
//
// Limits. A request beyond [Options.MaxRequests] is refused. Senders wait, with
// their context, while more than 1 MiB waits to be written; [Conn.Begin] alone
// does not.
//
// Cancellation. A call whose context ends returns at once and sends the other side
// $/cancel_request. When that notification arrives, the context of the request it
// names ends. A cancelled request still gets a response, by default
// [CodeCancelled].
//
// Ids. An id matches by type and text: 1, "1" and 1.0 are three ids. A response
// whose id is only spelled differently fails its call with a [Problem], and so does
// every other invalid response whose id can be read.
//
// End. When the other side ends the stream, calls fail after all responses that
// it sent were delivered. Requests go on and are answered, because the other side
// may still read. [Conn.Wait] waits for them; [Conn.Close] does not, and leaves no
// goroutine behind.
//
// # Processes
//
// A [Process] is a program at the other end of two pipes. Close ends it in steps
// and ends its children with it. It can be used with a Conn or without.
package jsonrpc
