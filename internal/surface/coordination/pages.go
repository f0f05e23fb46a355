package coordination

import (
	"bytes"
	"net/http"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/surface/api"
)

// Peers answers GET /peers: to the operator everything, to others who are
// admitted the names.
func (h *Handler) Peers(w http.ResponseWriter, r *http.Request) {
	v, err := h.Identify(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if v.Kind == hub.CallerLegacyPeer || v.Scope != nil {
		h.fail(w, r, v, "peers", hub.Errorf(hub.CodeDenied, "peers", "%s may not see the peers of this hub", v.AID))
		return
	}
	all, err := h.services.Network.Standings(r.Context())
	if err != nil {
		h.fail(w, r, v, "peers", err)
		return
	}
	if !v.IsOperator() {
		for i, s := range all {
			all[i] = hub.Standing{Lag: s.Lag, Peer: hub.Peer{AID: s.AID, Endpoint: s.Endpoint, Repo: s.Repo, State: s.State, Trust: s.Trust, Health: s.Health, AddedAt: s.AddedAt}}
		}
	}
	write(w, http.StatusOK, Peers{all})
}

func write(w http.ResponseWriter, status int, v any) {
	raw, err := api.Marshal(v)
	if err != nil {
		api.WriteError(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw) // a caller that is gone needs no answer
}

// fail answers a page that could not be made.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, v hub.Caller, page string, err error) {
	h.services.observe(r.Context(), v, page, func() error { return err })
	status := http.StatusBadRequest
	switch hub.CodeOf(err) {
	case hub.CodeUnauthenticated, hub.CodeTampering, hub.CodeDenied:
		refuse(w, err)
		return
	case hub.CodeRateLimited:
		status = http.StatusTooManyRequests
	case hub.CodeUnreachable:
		status = http.StatusBadGateway
	case hub.CodeDegraded, hub.CodeInternal:
		status = http.StatusServiceUnavailable
	}
	api.WriteError(w, status, err)
}

// Registered is the answer to POST /peers/register.
type Registered struct {
	Status string        `json:"status"`
	Count  int           `json:"peerCount"`
	State  hub.PeerState `json:"state"` // pending until the operator has let it in
}

// Register answers POST /peers/register, with which a peer makes itself known.
func (h *Handler) Register(w http.ResponseWriter, r *http.Request) {
	if !h.readable(r) {
		notJSON(w)
		return
	}
	v, err := h.Identify(r)
	if c := credentials(r); err != nil && (hub.CodeOf(err) != hub.CodeUnauthenticated || c.Bearer != "" || c.Token != "") {
		refuse(w, err)
		return // who shows a key must show a good one; others may be vouched for
	}
	var in PeerParams
	body, err := api.ReadBody(w, r, maxGuestBody)
	if err == nil {
		err = api.DecodeLoose("peers/register", bytes.TrimSpace(body), &in)
	}
	if err == nil {
		err = required("peers/register", "agentId", string(in.AID), "endpoint", in.Endpoint)
	}
	if err != nil {
		h.fail(w, r, v, "peers/register", err)
		return
	}
	p, err := h.services.Access.RegisterPeer(r.Context(), v, access.NewPeer{AID: in.AID, Endpoint: in.Endpoint, Repo: in.Repo})
	if err != nil {
		h.fail(w, r, v, "peers/register", err)
		return
	}
	all, err := h.services.Network.Standings(r.Context())
	if err != nil {
		h.fail(w, r, v, "peers/register", err)
		return
	}
	n := 0
	for _, s := range all {
		if s.State == hub.PeerApproved {
			n++
		}
	}
	write(w, http.StatusOK, Registered{"registered", n, p.State})
}
