package jsonrpc

import "context"

// Options changes how a Conn works. The zero value works: it makes calls, refuses
// the requests of the other side and ignores its notifications.
type Options struct {
	// Request answers a request. Each call runs on a goroutine of its own, after
	// the handlers of all notifications that arrived before it. The result is
	// encoded with encoding/json; a json.RawMessage is sent as it is, and an Answer
	// has a function run after the response. An *Error is sent as it is. Any other
	// error is sent as an internal error without its text, or as cancelled if the
	// other side cancelled the request. The context ends when the request is
	// cancelled, when it can no longer be answered, and when the connection closes.
	Request func(ctx context.Context, c *Conn, r Request) (result any, err error)

	// Ordered holds the handlers of methods whose order of arrival matters, by
	// method. It is used in place of Request.
	Ordered map[string]OrderedHandler

	// Notification handles one notification after the other, in their order.
	// Nothing is read while it runs. It must not wait for a call on its own
	// connection; see ErrHandlerWait.
	Notification func(ctx context.Context, c *Conn, r Request)

	// Problem is told about invalid input. Like Notification it must return soon
	// and must not wait for a call.
	Problem func(p *Problem)

	// Tap sees every frame in both directions: an incoming one before it is
	// dispatched, refused ones too, and an outgoing one just before it is written,
	// so that a request is seen before its response. Frames of one direction come
	// one after the other; both directions run at the same time. Tap must return
	// soon and must not use the connection. It must neither change nor keep Raw.
	Tap func(d Direction, f Frame)

	// AnswerUnreadable answers input that cannot be read with an error whose id is
	// null, as JSON-RPC asks of a server. It is off by default because the prose
	// that an agent prints is not a request.
	AnswerUnreadable bool

	MaxFrame    int // bytes of an incoming frame; default DefaultMaxFrame
	MaxRequests int // requests handled at once, more are refused; default 1024
}

// An OrderedHandler is entered in the order of arrival, before the next frame is
// dispatched. It records the state that the handlers of later frames must find and returns
// the function that answers the request. That function runs like Options.Request,
// with the context of the request. Nothing is read while the OrderedHandler itself
// runs; ctx is that of a notification handler.
type OrderedHandler func(ctx context.Context, c *Conn, r Request) func(ctx context.Context) (result any, err error)

// An Answer is a result with a function that runs after the response.
type Answer struct {
	Result any

	// After runs once, on the goroutine of the handler, after the response was
	// handed to the writer: every frame that is sent from then on follows it. If
	// the result could not be sent, err says why. After must return soon; the
	// request counts as running until then.
	After func(err error)
}

// A Direction distinguishes incoming from outgoing frames.
type Direction string

// The directions.
const (
	In  Direction = "in"
	Out Direction = "out"
)
