package routes

import (
	"encoding/json"
	"net"
	"net/http"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// maxLogin is the size of the largest request of a handshake.
const maxLogin = 4 << 10

// challenge answers the opening of an operator's handshake.
// The handshake proves that the caller has the operator's key without sending it,
// and that the hub has it as well; see package handshake.
func (s *Site) challenge(w http.ResponseWriter, r *http.Request, _ hub.Caller) error {
	var in handshake.Opening
	if err := readLogin(w, r, &in); err != nil {
		return err
	}
	out, err := s.o.Login.Challenge(r.Context(), s.channel(r), in)
	if err == nil {
		rpc.WriteJSON(w, http.StatusOK, out)
	}
	return err
}

// grant gives an operator a token for the answer to a challenge.
func (s *Site) grant(w http.ResponseWriter, r *http.Request, _ hub.Caller) error {
	var in handshake.Answer
	if err := readLogin(w, r, &in); err != nil {
		return err
	}
	out, err := s.o.Login.Grant(s.channel(r), in)
	if err == nil {
		rpc.WriteJSON(w, http.StatusOK, out)
	}
	return err
}

// readLogin reads the body of a handshake, which anyone may send: it is bounded,
// and everything wrong with it gets one text.
func readLogin(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLogin)).Decode(into); err != nil {
		return hub.Errorf(hub.CodeInvalid, "operator", "a handshake request must be a JSON object of at most %d bytes", maxLogin)
	}
	return nil
}

// channel names the way that a request took, as its sender sees it too.
// Both sides mix it into their proofs, so a proof that was relayed from another
// connection fails. Without one, as on the socket in the home, a handshake is refused.
func (s *Site) channel(r *http.Request) handshake.Channel {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case r.TLS != nil:
		return handshake.TLS(s.o.Cert)
	case local == nil:
		return ""
	}
	return handshake.TCP(local)
}
