package jsonrpc

import (
	"context"
	"log/slog"
	"time"
)

// Options changes how a Conn works. The zero value works: it makes calls,
// refuses those of the other side and ignores notifications.
type Options struct {
	// Request answers a request of the other side. Each runs on a goroutine of
	// its own, after the handlers of all notifications that came before it. The
	// result is encoded with encoding/json; a json.RawMessage is sent as it is.
	// An *Error is sent as it is; any other error is logged and sent as an
	// internal error, or as cancelled if the request was. The context ends when
	// the other side cancels the request or can no longer be answered, and when
	// the connection is closed.
	Request func(ctx context.Context, c *Conn, r Request) (result any, err error)

	// Notification is called for one notification after the other, in their
	// order. While it runs nothing else is read. It must not wait for a call on
	// its own connection; see ErrHandlerWait.
	Notification func(ctx context.Context, c *Conn, r Request)

	// Problem is told what the other side did wrong. Like Notification, it must
	// return soon. By default problems are logged without their text.
	Problem func(p *Problem)

	// Tap sees every frame in both directions: one that comes in before
	// anything is done about it, refused ones too, and one that goes out just
	// before it is written, so that no answer is seen before its request. It is
	// called for one frame after the other in each direction, but for both at
	// the same time. It must return soon, and not use the connection. What Raw
	// holds may be neither changed nor kept.
	Tap func(d Direction, f Frame)

	// AnswerUnreadable makes the connection answer what cannot be read with an
	// error whose id is null, as JSON-RPC asks of a server. It is off by default
	// because the prose of an agent is no request.
	AnswerUnreadable bool

	MaxFrame    int           // bytes of an incoming frame; default DefaultMaxFrame
	MaxRequests int           // requests handled at once, more are refused; default 1024
	Grace       time.Duration // how long Close waits for each thing it has to wait for; default 5 s
	Logger      *slog.Logger  // default: silent
}

// A Direction tells what came in from what went out.
type Direction string

// The directions.
const (
	In  Direction = "in"
	Out Direction = "out"
)
