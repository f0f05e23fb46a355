package records

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// An item is a thing whose every change is recorded with a digest of the whole:
// a contract or a context packet of a project, or a run.
type item struct {
	kind    string
	project hub.ProjectID // of a contract or packet
	id      string
}

func (i item) String() string {
	if i.project == "" {
		return i.kind + " " + i.id
	}
	return fmt.Sprintf("%s %s of project %s", i.kind, i.id, i.project)
}

// A recordedItem is the digest in the newest entry about an item.
type recordedItem struct {
	digest string
	row    int64
}

// itemKind returns the kind of item that an entry with this action records, or
// "".
func itemKind(a hub.Action) string {
	switch a {
	case hub.ActionContractProposed, hub.ActionContractAgreed, hub.ActionContractContested, hub.ActionContractRejected, hub.ActionContractUpdated,
		hub.ActionContractMerged, hub.ActionContractAdvanced, hub.ActionWorkStarted, hub.ActionWorkCompleted, hub.ActionWorkVerified:
		return "contract"
	case hub.ActionContextShared, hub.ActionContextReplaced:
		return "packet"
	}
	if strings.HasPrefix(string(a), "run.") {
		return "run"
	}
	return ""
}

// recordItem remembers the digest that an entry records.
func (v *verifier) recordItem(e hub.Entry) {
	kind := itemKind(e.Action)
	var f struct {
		Project hub.ProjectID `json:"project_id"`
		Digest  string        `json:"sha256"`
	}
	if kind == "" || !v.decodeFacts(e, &f) {
		return
	}
	if kind == "run" {
		f.Project = ""
	}
	v.items[item{kind, f.Project, e.Subject}] = recordedItem{f.Digest, e.Seq}
}

// checkItems compares contracts, packets and runs with the digests, all in one
// snapshot.
func (v *verifier) checkItems(r hub.Reader) error {
	projects := hub.ProjectID("")
	for more := true; more; {
		page, err := r.Projects(projects, archivePage)
		if err != nil {
			return err
		}
		for _, p := range page {
			if err := v.checkProject(r, p.ID); err != nil {
				return err
			}
			projects = p.ID
		}
		more = len(page) == archivePage
	}
	q := hub.RunQuery{Limit: pageSize}
	for more := true; more; {
		page, err := r.Runs(q)
		if err != nil {
			return v.unreadable("runs", err)
		}
		for _, run := range page {
			v.out.Runs++
			q.Cursor = run.ID
			id := item{kind: "run", id: string(run.ID)}
			if want, ok := v.items[id]; ok && want.digest != run.Digest() && withheldRun(r, run) {
				v.withheld++
				delete(v.items, id)
				continue
			}
			v.checkItem(id, run.Digest())
		}
		more = len(page) == pageSize
	}
	order := func(a, b item) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.project, b.project), cmp.Compare(a.id, b.id))
	}
	for _, id := range slices.SortedFunc(maps.Keys(v.items), order) {
		v.find(id.String(), missingThough, v.items[id].row)
	}
	return nil
}

// checkProject compares the contracts and packets of one project.
func (v *verifier) checkProject(r hub.Reader, id hub.ProjectID) error {
	contracts := hub.ContractQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Contracts(contracts)
		if err != nil {
			return err
		}
		for _, c := range page {
			v.out.Contracts++
			v.checkItem(item{"contract", id, string(c.ID)}, c.Digest())
			contracts.After = c.ID
		}
		more = len(page) == archivePage
	}
	packets := hub.PacketQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Packets(packets)
		if err != nil {
			return err
		}
		for _, p := range page.Packets {
			v.out.Packets++
			v.checkItem(item{"packet", id, string(p.ID)}, p.Digest())
		}
		packets.Cursor, more = page.Next, page.Next != ""
	}
	return nil
}

// checkItem compares the digest of an item, and removes it from those that the
// store must have.
func (v *verifier) checkItem(id item, digest string) {
	switch want, ok := v.items[id]; {
	case !ok && v.complete:
		v.find(id.String(), notRecorded)
	case ok && want.digest != digest:
		v.find(id.String(), "it differs from what journal row %d recorded", want.row)
	}
	delete(v.items, id)
}

// withheldRun reports whether an export has left out the content of a run,
// because its task came by a restricted handoff.
func withheldRun(r hub.Reader, run hub.Run) bool {
	if run.Handoff == "" || run.Task != "restricted" || run.Report != nil || run.Evidence != nil {
		return false
	}
	h, err := r.Handoff(run.Handoff)
	return err == nil && h.Restricted
}
