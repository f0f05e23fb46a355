package records

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// pacts is what repositories agreed on and let each other know, as the journal
// tells it.
type pacts struct {
	contracts map[pact]recordedPact
	packets   map[pact]recordedPact
}

// A pact names a contract or a packet of a project.
type pact struct {
	project hub.ProjectID
	id      string
}

// A recordedPact is the digest in the newest entry about it.
type recordedPact struct {
	digest string
	row    int64
}

func newPacts() *pacts { return &pacts{map[pact]recordedPact{}, map[pact]recordedPact{}} }

// kindOf returns which things an action leaves as its entry says, or nil.
func (p *pacts) kindOf(a hub.Action) map[pact]recordedPact {
	switch a {
	case hub.ActionContractProposed, hub.ActionContractAgreed, hub.ActionContractContested, hub.ActionContractRejected, hub.ActionContractUpdated,
		hub.ActionContractMerged, hub.ActionContractSettled, hub.ActionWorkStarted, hub.ActionWorkCompleted, hub.ActionWorkVerified:
		return p.contracts
	case hub.ActionContextShared, hub.ActionContextReplaced:
		return p.packets
	}
	return nil
}

// replay lets an entry take effect.
func (p *pacts) replay(v *verifier, e hub.Entry) {
	kind := p.kindOf(e.Action)
	if kind == nil {
		return
	}
	var f struct {
		Project hub.ProjectID `json:"project_id"`
		Digest  string        `json:"sha256"`
	}
	if err := json.Unmarshal(e.Facts, &f); err != nil {
		v.find(row(e.Seq), "its facts cannot be read: %v", err)
		return
	}
	kind[pact{f.Project, e.Subject}] = recordedPact{f.Digest, e.Seq}
}

// checkPacts compares contracts and packets with what the journal says they
// are.
func (v *verifier) checkPacts(r hub.Reader) error {
	for after := hub.ProjectID(""); ; {
		projects, err := r.Projects(after, archivePage)
		if err != nil {
			return err
		}
		for _, p := range projects {
			if err := v.checkProject(r, p.ID); err != nil {
				return err
			}
			after = p.ID
		}
		if len(projects) < archivePage {
			break
		}
	}
	v.missing("contract", v.pacts.contracts)
	v.missing("packet", v.pacts.packets)
	return nil
}

func (v *verifier) checkProject(r hub.Reader, id hub.ProjectID) error {
	contracts := hub.ContractQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		found, err := r.Contracts(contracts)
		if err != nil {
			return err
		}
		for _, c := range found {
			v.out.Contracts++
			v.checkPact("contract", v.pacts.contracts, pact{id, string(c.ID)}, c.Digest())
			contracts.After = c.ID
		}
		more = len(found) == archivePage
	}
	packets := hub.PacketQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Packets(packets)
		if err != nil {
			return err
		}
		for _, p := range page.Packets {
			v.out.Packets++
			v.checkPact("packet", v.pacts.packets, pact{id, string(p.ID)}, p.Digest())
		}
		packets.Cursor, more = page.Next, page.Next != ""
	}
	return nil
}

// checkPact compares one thing, and takes it off the list.
func (v *verifier) checkPact(kind string, all map[pact]recordedPact, id pact, digest string) {
	where := kind + " " + id.id + " of project " + string(id.project)
	switch want, ok := all[id]; {
	case !ok && v.complete:
		v.find(where, "no journal row records it")
	case ok && want.digest != digest:
		v.find(where, "it differs from what journal row %d recorded", want.row)
	}
	delete(all, id)
}

// missing finds what the journal records and is not there.
func (v *verifier) missing(kind string, all map[pact]recordedPact) {
	order := func(a, b pact) int { return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.id, b.id)) }
	for _, id := range slices.SortedFunc(maps.Keys(all), order) {
		v.find(kind+" "+id.id+" of project "+string(id.project), "it is missing, though journal row %d records it", all[id].row)
	}
}
