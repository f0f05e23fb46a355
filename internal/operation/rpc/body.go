package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/parley-agents/parley/hub"
)

// bodyTimeout is how long a body may take to arrive after its header.
const bodyTimeout = 15 * time.Second

// ReadBody reads a request's body of at most so many bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	return readBody(w, r, nil, most)
}

func readBody(w http.ResponseWriter, r *http.Request, buf []byte, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return buf, tooLarge(most)
	}
	ArriveWithin(w, bodyTimeout)
	body := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var over *http.MaxBytesError
		switch {
		case err == nil:
		case err == io.EOF:
			return buf, nil
		case errors.As(err, &over):
			return buf, tooLarge(most)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return buf, hub.Errorf(hub.CodeInvalid, "http", "the request did not arrive within %s", bodyTimeout)
		default:
			return buf, hub.Errorf(hub.CodeInvalid, "http", "the request body ended early")
		}
	}
}

// ArriveWithin bounds how long the body of a request may take. The server lifts
// the deadline itself when the body has ended; a body that has not ended keeps
// it, or the server would wait without an end for the rest of it.
func ArriveWithin(w http.ResponseWriter, d time.Duration) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(d)) // without a connection there is nothing to wait for
}

// tooLarge is the error of a request with more bytes than it may have.
func tooLarge(most int64) error {
	return hub.Errorf(hub.CodeTooLarge, "http", "the request is larger than %d bytes", most).
		WithHint("store large content as an artifact: {artifact.put}")
}
