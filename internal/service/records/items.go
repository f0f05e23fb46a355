package records

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// An item is a thing whose every change is recorded with a digest of the whole: a
// contract or a context packet of a project, or a run. The register of items holds the
// digest of the newest entry.

// itemKind returns the kind of item that an entry with this action records, or
// "".
func itemKind(a actions.Action) string {
	switch a {
	case actions.ContractProposed, actions.ContractAgreed, actions.ContractContested, actions.ContractRejected, actions.ContractUpdated,
		actions.ContractMerged, actions.ContractAdvanced, actions.WorkStarted, actions.WorkCompleted, actions.WorkVerified,
		actions.ContractUsed, actions.ContractDeprecated, actions.ContractWithdrawn, actions.ContractHandedOver, actions.ContractTested:
		return "contract"
	case actions.ResultRecorded:
		return "result"
	case actions.Deployed:
		return "deployment"
	case actions.ContextShared, actions.ContextReplaced:
		return "packet"
	}
	if strings.HasPrefix(string(a), "run.") {
		return "run"
	}
	return ""
}

// itemOf names an item of a project.
func itemOf(id string, project coord.ProjectID) string {
	return fmt.Sprintf("%s of project %s", id, project)
}

// recordItem remembers the digest that an entry records.
func (v *verifier) recordItem(e hub.Entry) {
	kind := itemKind(e.Action)
	var f struct {
		Project coord.ProjectID `json:"project_id"`
		Digest  string          `json:"sha256"`
	}
	if kind == "" || !v.decodeFacts(e, &f) {
		return
	}
	if v.Items[kind] == nil { // a verification that an earlier version paused
		v.Items[kind] = register[string]{}
	}
	id := e.Subject
	if kind == "contract" || kind == "packet" {
		id = itemOf(id, f.Project)
	}
	v.Items[kind].put(id, f.Digest, e)
}

// checkItem compares the digest of an item.
func (v *verifier) checkItem(kind, id, digest string) {
	v.Items[kind].check(v, kind, id, func(want string, row int64) string { return unless(want == digest, differsFrom, row) })
}

// checkItems compares contracts, packets and runs with the digests, all in one
// snapshot.
func (v *verifier) checkItems(r hub.Reader) error {
	projects := coord.ProjectID("")
	for more := true; more; {
		page, err := r.Coordination().Projects(projects, archivePage)
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
			v.Out.Runs++
			q.Cursor = run.ID

			// A run whose content an export left out cannot be compared. It is counted instead.
			digest := run.Digest()
			if want, ok := v.Items["run"][string(run.ID)]; ok && want.Want != digest && withheldRun(r, run) {
				v.Withheld++
				digest = want.Want
			}
			v.checkItem("run", string(run.ID), digest)
		}
		more = len(page) == pageSize
	}

	for _, kind := range []string{"contract", "packet", "run", "result", "deployment"} {
		v.Items[kind].missing(v, kind)
	}
	return nil
}

// checkProject compares the contracts and packets of one project.
func (v *verifier) checkProject(r hub.Reader, id coord.ProjectID) error {
	contracts := coord.ContractQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Coordination().Contracts(contracts)
		if err != nil {
			return err
		}
		for _, c := range page {
			v.Out.Contracts++
			v.checkItem("contract", itemOf(string(c.ID), id), c.Digest())
			contracts.After = c.ID
		}
		more = len(page) == archivePage
	}
	packets := coord.PacketQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Coordination().Packets(packets)
		if err != nil {
			return err
		}
		for _, p := range page.Packets {
			v.Out.Packets++
			v.checkItem("packet", itemOf(string(p.ID), id), p.Digest())
		}
		packets.Cursor, more = page.Next, page.Next != ""
	}
	return v.checkTests(r, id)
}

// checkTests compares the results and the deployments of one project.
func (v *verifier) checkTests(r hub.Reader, id coord.ProjectID) error {
	results := coord.ResultQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Coordination().Results(results)
		if err != nil {
			return err
		}
		for _, x := range page {
			v.checkItem("result", x.Name(), x.Digest())
			results.Before = x.N
		}
		more = len(page) == archivePage
	}
	deployments := coord.DeploymentQuery{Project: id, Limit: archivePage}
	for more := true; more; {
		page, err := r.Coordination().Deployments(deployments)
		if err != nil {
			return err
		}
		for _, x := range page {
			v.checkItem("deployment", x.Name(), x.Digest())
			deployments.Before = x.N
		}
		more = len(page) == archivePage
	}
	return nil
}

// withheldRun reports whether an export has left out the content of a run,
// because its task came by a restricted handoff.
func withheldRun(r hub.Reader, run hub.Run) bool {
	hasNoContent := run.Task == "restricted" && run.Report == nil && run.Evidence == nil
	if run.Handoff == "" || !hasNoContent {
		return false
	}
	h, err := r.Handoff(run.Handoff)
	return err == nil && h.Restricted
}
