package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/proof"
)

// proofData is the page that lists what leaves the hub with a proof, before it is downloaded.
type proofData struct {
	ID      string
	Made    proof.Made
	Problem string // why there is no proof
}

func proofPage(ctx context.Context, v *visit) (string, any, error) {
	d := proofData{ID: v.r.PathValue("id")}
	got, err := perform(ctx, v, api.Prove, api.ProveParams{ID: d.ID})
	switch hub.CodeOf(err) {
	case hub.CodeUnproven, hub.CodePolicy, hub.CodeDegraded, hub.CodeConflict:
		d.Problem = err.Error()
		return "Proof", d, nil
	}
	d.Made = got
	return "Proof", d, err
}

// exportProof answers GET /journal/proof/{id}: the file with which strangers check what the hub says.
func (h *Handler) exportProof(w http.ResponseWriter, r *http.Request, s session) {
	v := &visit{Handler: h, caller: s.caller, r: r}
	got, err := perform(r.Context(), v, api.Prove, api.ProveParams{ID: r.PathValue("id")})
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	raw, err := json.MarshalIndent(got.File, "", " ")
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	isPlain := func(c rune) bool {
		return c == '-' || ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
	}
	name := strings.Map(func(c rune) rune {
		if isPlain(c) {
			return c
		}
		return -1
	}, got.File.Of)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.proof.json"`)
	w.Write(plaintext.JSON(append(raw, '\n')))
}
