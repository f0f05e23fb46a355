package records

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// projectItems is what repositories agreed on and let each other know, as the journal
// tells it.
type projectItems struct {
	contracts map[itemID]recordedItem
	packets   map[itemID]recordedItem
}

// An itemID names a contract or a packet of a project.
type itemID struct {
	project hub.ProjectID
	id      string
}

// A recordedItem is the digest in the newest entry about it.
type recordedItem struct {
	digest string
	row    int64
}

func newProjectItems() *projectItems {
	return &projectItems{map[itemID]recordedItem{}, map[itemID]recordedItem{}}
}

// kindOf returns which things an action leaves as its entry says, or nil.
func (p *projectItems) kindOf(a hub.Action) map[itemID]recordedItem {
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
func (p *projectItems) replay(v *verifier, e hub.Entry) {
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
	kind[itemID{f.Project, e.Subject}] = recordedItem{f.Digest, e.Seq}
}

// checkProjects compares contracts and packets with what the journal says they
// are.
func (v *verifier) checkProjects(r hub.Reader) error {
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
	v.missing("contract", v.items.contracts)
	v.missing("packet", v.items.packets)
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
			v.checkItem("contract", v.items.contracts, itemID{id, string(c.ID)}, c.Digest())
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
			v.checkItem("packet", v.items.packets, itemID{id, string(p.ID)}, p.Digest())
		}
		packets.Cursor, more = page.Next, page.Next != ""
	}
	return nil
}

// checkItem compares one thing, and takes it off the list.
func (v *verifier) checkItem(kind string, all map[itemID]recordedItem, id itemID, digest string) {
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
func (v *verifier) missing(kind string, all map[itemID]recordedItem) {
	order := func(a, b itemID) int { return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.id, b.id)) }
	for _, id := range slices.SortedFunc(maps.Keys(all), order) {
		v.find(kind+" "+id.id+" of project "+string(id.project), "it is missing, though journal row %d records it", all[id].row)
	}
}
