package records_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/records"
)

// negotiate lets two repositories agree on a contract, change it, and begin to
// implement it.
func (w *world) negotiate() (coord.ProjectID, coord.ContractID, coord.PacketID) {
	w.t.Helper()
	ctx, who := w.t.Context(), hub.Caller{ID: "ada"}
	s := contract.New(w.store, &contract.Options{Clock: w.clock, Self: "aid://example.com/back@1.0.0", Repo: "back"})
	p, err := s.CreateProject(ctx, who, contract.NewProject{Name: "Sign in", Policy: coord.AgreeAny, Repos: []coord.Repo{{Name: "back", Role: "backend", Language: "go"}}})
	w.must(nil, err)
	r, err := s.Propose(ctx, who, contract.Proposal{InProject: contract.In(p.ID), Type: coord.ContractCustom, Name: "c", Content: json.RawMessage(`{"a":1}`)})
	w.must(nil, err)
	id := r.Contract.ID
	w.must(s.Update(ctx, who, contract.Revision{InContract: contract.Of(p.ID, id), Content: json.RawMessage(`{"a":2}`)}))
	w.must(s.Respond(ctx, who, contract.Response{InContract: contract.Of(p.ID, id), Action: contract.ActionAgree}))
	w.must(s.Start(ctx, who, contract.Work{InContract: contract.Of(p.ID, id), Plan: "soon"}))
	packet, err := s.Share(ctx, who, contract.NewPacket{InProject: contract.In(p.ID), Type: coord.ContextCode, Content: json.RawMessage(`{"x":1}`), Relations: contract.Relations{Related: []coord.ContractID{id}}})
	w.must(nil, err)
	theirs, err := s.Contract(ctx, who, p.ID, id, true)
	w.must(nil, err)
	theirs.Name, theirs.UpdatedAt = "renamed", coord.InstantAt(w.now.Add(time.Minute))
	w.must(s.Sync(ctx, "peer", true, []federation.Copy{{Project: p.ID, Contract: &theirs}}))
	return p.ID, id, packet.ID
}

func TestPacts(t *testing.T) {
	t.Parallel()
	told := newWorld(t)
	project, id, packet := told.negotiate()
	told.copy()
	audit := told.wantClean()
	if audit.Contracts != 1 || audit.Packets != 1 {
		t.Errorf("looked at %d contracts and %d packets", audit.Contracts, audit.Packets)
	}
	contractIs, packetIs := fmt.Sprintf("contract %s of project %s: it ", id, project), fmt.Sprintf("packet %s of project %s: it ", packet, project)
	contractRow, packetRow := told.rowOf(actions.ContractMerged, 0), told.rowOf(actions.ContextShared, 0)
	differs := func(what string, row int64) string {
		return fmt.Sprintf("%sdiffers from journal row %d", what, row)
	}
	missing := func(what string, row int64) string {
		return fmt.Sprintf("%sis missing, though journal row %d records it", what, row)
	}

	for sql, want := range map[string]string{
		`UPDATE contracts SET content_json = '{"a":3}'`:        differs(contractIs, contractRow),
		`UPDATE contracts SET status = 'verified'`:             differs(contractIs, contractRow),
		`UPDATE contracts SET implementations_json = NULL`:     differs(contractIs, contractRow),
		`UPDATE contracts SET agreements_json = NULL`:          differs(contractIs, contractRow),
		`DELETE FROM contracts`:                                missing(contractIs, contractRow),
		`UPDATE packets SET content_json = '{"x":2}'`:          differs(packetIs, packetRow),
		`UPDATE packets SET from_agent = 'aid://evil/x@1.0.0'`: differs(packetIs, packetRow),
		`DELETE FROM packets`:                                  missing(packetIs, packetRow),
		`INSERT INTO packets SELECT project, 'k', from_repo, from_agent, at, type, reply_to, related_json, content_json FROM packets`: fmt.Sprintf("packet k of project %s: no journal row records it", project),
	} {
		t.Run("what was changed beside the hub is found: "+sql, func(t *testing.T) {
			w := told.duplicate(t)
			w.raw(sql)
			w.open()
			w.wantFound(want)
		})
	}
	t.Run("what archives record counts too", func(t *testing.T) {
		w := told.clone(t)
		w.pass(400 * 24 * time.Hour)
		w.archive(records.ArchiveOptions{})
		if a := w.wantClean(); a.Archived == 0 {
			t.Error("nothing is archived")
		}
		w.close()
		w.raw(`UPDATE contracts SET content_json = '{"a":3}'`)
		w.open()
		w.wantFound(differs(contractIs, contractRow))
	})
	t.Run("projects are exported and imported with everything", func(t *testing.T) {
		w := told.clone(t)
		dir := filepath.Join(t.TempDir(), "export")
		found := map[string]int{}
		for _, f := range w.export(dir).Tables {
			found[f.Name] = f.Rows
		}
		for table, want := range map[string]int{"projects": 1, "contracts": 1, "contract_versions": 1, "packets": 1, "changes": 8} {
			if found[table] != want {
				t.Errorf("%s: got %d rows, want %d", table, found[table], want)
			}
		}
	})
}
