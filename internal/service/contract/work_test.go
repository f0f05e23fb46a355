package contract_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

func TestContext(t *testing.T) {
	t.Parallel()
	t.Run("R1-038 R1-039 what is shared is kept with its contracts, and in the log that peers are told from", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		p, err := d.Share(t.Context(), d.front, contract.NewPacket{
			InProject: contract.In(c.Project), Type: coord.ContextCode, Content: json.RawMessage(`{"language":"python","snippet":"a < b && c"}`), Relations: contract.Relations{Related: []coord.ContractID{c.ID}},
		})
		d.ok(err)
		page, err := d.Packets(t.Context(), d.back, coord.PacketQuery{Project: c.Project})
		d.ok(err)
		equal(d, "packets", page.Packets, []coord.Packet{p})
		equal(d, "from", p.FromAgent, frontAID)
		last := d.last()
		equal(d, "change", []string{string(last.Kind), last.Object}, []string{string(hub.ChangePacket), string(p.ID)})
	})
	t.Run("R1-017 only the ten types, and only objects are shared", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		equal(d, "types", len(coord.PacketTypes), 10)
		for _, typ := range append(slices.Clone(coord.PacketTypes), "", "gossip") {
			_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: typ, Content: json.RawMessage(`{}`)})
			if typ.Known() {
				d.ok(err)
			} else {
				d.refused(err, hub.CodeInvalid, "type")
			}
		}
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`[]`)})
		d.refused(err, hub.CodeInvalid, "content")
		_, err = d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`), Relations: contract.Relations{Related: []coord.ContractID{"../x"}}})
		d.refused(err, hub.CodeInvalid, "related_contracts")
	})
	t.Run("R1-040 a question has its options and urgency", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for want, q := range map[string]contract.Question{
			`{"question":"JWT?","options":["yes","no"],"urgent":true}`: {Question: "JWT?", Options: []string{"yes", "no"}, Urgent: true},
			`{"question":"Why?","options":null,"urgent":false}`:        {Question: "Why?"},
		} {
			q.Project = d.project.ID
			p, err := d.Ask(t.Context(), d.back, q)
			d.ok(err)
			equal(d, "type", p.Type, coord.ContextQuestion)
			equal(d, "content", string(p.Content), want)
		}
		_, err := d.Ask(t.Context(), d.back, contract.Question{InProject: contract.In(d.project.ID)})
		d.refused(err, hub.CodeInvalid, "question required")
	})
	t.Run("R1-041 a decision has what was chosen, why, and what follows", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		p, err := d.Decide(t.Context(), d.back, contract.Decision{InProject: contract.In(d.project.ID), Decision: "auth", Chosen: "JWT", Rationale: "stateless"})
		d.ok(err)
		equal(d, "type", p.Type, coord.ContextDecision)
		equal(d, "content", string(p.Content), `{"decision":"auth","chosen":"JWT","rationale":"stateless","implications":[]}`)
		_, err = d.Decide(t.Context(), d.back, contract.Decision{InProject: contract.In(d.project.ID), Decision: "auth", Chosen: "JWT"})
		d.refused(err, hub.CodeInvalid, "rationale required")
	})
	t.Run("R1-072 packets are listed by type, contract and time, the newest if asked", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		var all []coord.Packet
		for i, typ := range []coord.ContextType{coord.ContextCode, coord.ContextTest, coord.ContextCode} {
			p, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: typ, Content: json.RawMessage(`{}`), Relations: contract.Relations{Related: []coord.ContractID{coord.ContractID(fmt.Sprint("c", i))}}})
			d.ok(err)
			all = append(all, p)
		}
		for _, test := range []struct {
			name string
			q    coord.PacketQuery
			want []coord.Packet
		}{
			{"all", coord.PacketQuery{}, all},
			{"type", coord.PacketQuery{Type: coord.ContextTest}, all[1:2]},
			{"contract", coord.PacketQuery{Contract: "c2"}, all[2:]},
			{"since", coord.PacketQuery{Since: all[1].At}, all[1:]},
			{"newest", coord.PacketQuery{Newest: true, Limit: 1}, all[2:]},
		} {
			test.q.Project = d.project.ID
			page, err := d.Packets(t.Context(), d.back, test.q)
			d.ok(err)
			equal(d, test.name, page.Packets, test.want)
		}
		_, err := d.Packets(t.Context(), d.back, coord.PacketQuery{Project: d.project.ID, Limit: 501})
		d.refused(err, hub.CodeInvalid, "limit")
	})
	t.Run("R1-073 a thread is a packet with its answers, and deeper if asked", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		say := func(to coord.PacketID) coord.Packet {
			p, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextQuestion, Content: json.RawMessage(`{}`), Relations: contract.Relations{ReplyTo: to}})
			d.ok(err)
			return p
		}
		root := say("")
		a := say(root.ID)
		deep := say(a.ID)
		b := say(root.ID)
		ids := func(packet coord.PacketID, all bool) (out []coord.PacketID) {
			thread, err := d.Thread(t.Context(), d.back, d.project.ID, packet, all)
			d.ok(err)
			for _, p := range thread {
				out = append(out, p.ID)
			}
			return out
		}
		equal(d, "from the root", ids(root.ID, false), []coord.PacketID{root.ID, a.ID, b.ID})
		equal(d, "from an answer", ids(b.ID, false), []coord.PacketID{root.ID, a.ID, b.ID})
		equal(d, "deep", ids(deep.ID, true), []coord.PacketID{root.ID, a.ID, deep.ID, b.ID})
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextQuestion, Content: json.RawMessage(`{}`), Relations: contract.Relations{ReplyTo: "none"}})
		d.refused(err, hub.CodeNotFound, "Packet none not found")
		_, err = d.Thread(t.Context(), d.back, d.project.ID, "none", false)
		d.refused(err, hub.CodeNotFound, "Packet none not found")
	})
}

func TestWork(t *testing.T) {
	t.Parallel()
	t.Run("R1-042 work begins on what is agreed, and keeps the plan", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		_, err := d.Start(t.Context(), d.back, d.work(d.propose()))
		d.refused(err, hub.CodeConflict, "Cannot start implementation of contract in status proposed")
		c := d.bring(coord.ContractAgreed)
		r, err := d.Start(t.Context(), d.back, d.work(c))
		d.ok(err)
		impl := r.Contract.Implementations[0]
		equal(d, "status", impl.Status, coord.ImplInProgress)
		equal(d, "plan", impl.Plan, "with SQLAlchemy")
		equal(d, "agent", impl.Agent, backAID)
		equal(d, "started", impl.StartedAt.IsZero(), false)
	})
	t.Run("R1-043 a contract is implemented when every repository has completed it", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		_, err := d.Complete(t.Context(), d.back, d.work(c))
		d.refused(err, hub.CodeConflict, "No implementation started")
		d.implement(c, d.back)
		c = d.read(c)
		equal(d, "status", c.Status, coord.ContractAgreed)
		equal(d, "files", c.Implementations[0].Files, []string{"src/routes/user.py"})
		d.implement(c, d.front)
		equal(d, "status", d.read(c).Status, coord.ContractImplemented)
		_, err = d.Complete(t.Context(), d.back, contract.Work{InContract: contract.Of(c.Project, c.ID)})
		d.refused(err, hub.CodeInvalid, "files required")
	})
	t.Run("R1-043 parties in the content say whom a contract concerns", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		r, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{"parties":["backend-api"]}`)})
		d.ok(err)
		_, err = d.respond(d.front, r.Contract, contract.ActionAgree, "")
		d.ok(err)
		d.implement(r.Contract, d.back)
		equal(d, "status", d.read(r.Contract).Status, coord.ContractImplemented)
	})
	t.Run("what was completed for one version does not count for the next", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		d.implement(c, d.back)
		_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`)})
		d.ok(err)
		equal(d, "status", d.read(c).Implementations[0].Status, coord.ImplNeedsRevision)
		_, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		_, err = d.Complete(t.Context(), d.back, d.work(c))
		d.refused(err, hub.CodeConflict, "for version 2")
		d.implement(c, d.front)
		equal(d, "status", d.read(c).Status, coord.ContractAgreed)
		d.implement(c, d.back)
		equal(d, "status", d.read(c).Status, coord.ContractImplemented)
	})
	t.Run("work on what was implemented opens it again", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractImplemented)
		r, err := d.Start(t.Context(), d.back, d.work(c))
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractAgreed)
	})
	t.Run("R1-044 verification succeeds, fails, or says nothing yet, and the notes are kept", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for result, want := range map[string]struct {
			status  coord.ContractStatus
			outcome string
			work    coord.ImplementationStatus
		}{
			contract.VerifySuccess: {coord.ContractVerified, "verified", coord.ImplComplete},
			contract.VerifyFailure: {coord.ContractAgreed, "failed", coord.ImplNeedsRevision},
			contract.VerifyPartial: {coord.ContractImplemented, "partial", coord.ImplComplete},
		} {
			c := d.bring(coord.ContractImplemented)
			r := d.verify(c, result)
			equal(d, result, r.Contract.Status, want.status)
			equal(d, result, r.Outcome, want.outcome)
			equal(d, result, d.read(c).Implementations[0].Status, want.work)
			page, err := d.Packets(t.Context(), d.back, coord.PacketQuery{Project: c.Project, Contract: c.ID})
			d.ok(err)
			equal(d, "notes", strings.Contains(string(page.Packets[0].Content), "integration tests"), true)
		}
		_, err := d.Verify(t.Context(), d.front, contract.Verification{InContract: contract.Of(d.project.ID, d.bring(coord.ContractAgreed).ID), Result: contract.VerifySuccess})
		d.refused(err, hub.CodeConflict, "Cannot verify contract in status agreed")
		_, err = d.Verify(t.Context(), d.front, contract.Verification{InContract: contract.Of(d.project.ID, "x"), Result: "maybe"})
		d.refused(err, hub.CodeInvalid, "result")
	})
	t.Run("R1-074 progress says who has not completed a contract", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		d.implement(c, d.back)
		p, err := d.Progress(t.Context(), d.back, c.Project, c.ID)
		d.ok(err)
		equal(d, "implementations", len(p.Contract.Implementations), 1)
		equal(d, "pending", len(p.Pending) == 1 && p.Pending[0].Name == "frontend-app", true)
	})
	t.Run("work on an old version does not count for the next one", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		d.implement(c, d.back)
		_, err := d.Start(t.Context(), d.front, d.work(c))
		d.ok(err)
		_, err = d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{"v":2}`)})
		d.ok(err)
		_, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		for _, who := range []hub.Caller{d.back, d.front} {
			_, err = d.Complete(t.Context(), who, d.work(c))
			d.refused(err, hub.CodeConflict, "")
		}
		// The peer sends the report of version 1 again, as if it were new.
		again := d.read(c)
		again.Implementations = slices.Clone(again.Implementations)
		for i := range again.Implementations {
			work := &again.Implementations[i]
			work.Status, work.Version, work.CompletedAt = coord.ImplComplete, 1, after(again.UpdatedAt, time.Second)
		}
		d.received(again, federation.SyncUpdated)
		progress, err := d.Progress(t.Context(), d.back, c.Project, c.ID)
		d.ok(err)
		equal(d, "status", progress.Contract.Status, coord.ContractAgreed)
		equal(d, "repositories that have not implemented version 2", len(progress.Pending), 2)
	})
	t.Run("the gate fails for a contract that did not get from hub to hub", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		dead := coord.InstantAt(start.Add(time.Hour))
		put := func(fn func(hub.Tx) error) { d.ok(d.store.Update(t.Context(), hub.SurvivesKill, fn)) }
		refuse := func(object coord.ContractID, origin coord.AID) {
			put(func(tx hub.Tx) error {
				if err := tx.PutPeer(hub.Peer{AID: peer, Endpoint: "https://other.example", State: hub.PeerApproved, Access: coord.AccessFull, AddedAt: dead}); err != nil {
					return err
				}
				return tx.AddDeadLetter(hub.DeadLetter{
					Peer: peer, Change: hub.Change{Project: c.Project, Kind: hub.ChangeContract, Object: string(object), Origin: origin}, Fault: "too large", At: dead,
				})
			})
		}
		check := func(rule string, want ...contract.Failure) {
			t.Helper()
			v, err := d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(c.Project)})
			d.ok(err)
			equal(d, rule, v.OK, len(want) == 0)
			equal(d, rule, len(v.Failures), len(want))
			for i, f := range v.Failures {
				reason := f.Reason
				f.Reason = want[i].Reason
				equal(d, rule, f, want[i])
				equal(d, rule+": "+reason, strings.HasPrefix(reason, want[i].Reason), true)
			}
		}
		check("an agreed contract passes")
		refused := contract.Failure{Contract: c.ID, Name: c.Name, Version: c.Version, Status: coord.ContractAgreed, Reason: "not delivered to " + string(peer) + ": too large"}
		theirs := contract.Failure{Contract: "theirs", Name: "theirs", Reason: "not accepted from " + string(peer) + ": too large"}
		refuse(theirs.Contract, peer)
		check("a contract of a peer that this hub refused fails", theirs)
		refuse(c.ID, "")
		check("a contract that a peer refused fails", refused, theirs)
		put(func(tx hub.Tx) error {
			return tx.PutMeta(federation.ComparedKey(peer), after(dead, time.Second).String())
		})
		check("after a complete comparison both are delivered")
	})
	t.Run("the gate says which contracts are not far enough, and why", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		check := func(require coord.ContractStatus, repo string) contract.Verdict {
			v, err := d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID), Require: require, Repo: repo})
			d.ok(err)
			return v
		}
		equal(d, "no contracts", check("", ""), contract.Verdict{Failures: []contract.Failure{}})
		none, err := d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID), AllowNone: true})
		d.ok(err)
		equal(d, "no contracts, allowed", none, contract.Verdict{OK: true, Failures: []contract.Failure{}})
		c := d.propose()
		v := check("", "frontend-app")
		equal(d, "proposed", v.OK, false)
		equal(d, "reason", v.Failures[0].Reason, "not agreed yet: waiting for frontend-app")
		_, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "agreed", check("", "").OK, true)
		d.implement(c, d.back)
		equal(d, "reason", check(coord.ContractImplemented, "").Failures[0].Reason, "not implemented yet: waiting for frontend-app")
		d.implement(c, d.front)
		equal(d, "implemented", check(coord.ContractImplemented, "").OK, true)
		equal(d, "reason", check(coord.ContractVerified, "").Failures[0].Reason, "not verified yet: waiting for a verification")
		d.verify(c, contract.VerifySuccess)
		equal(d, "verified", check(coord.ContractVerified, "").OK, true)
		_, err = d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{"parties":["backend-api"]}`)})
		d.ok(err)
		equal(d, "a contract of others", check("", "frontend-app").OK, true)
		equal(d, "one's own", check("", "backend-api").OK, false)
		_, err = d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID), Require: "proposed"})
		d.refused(err, hub.CodeInvalid, "require")
		_, err = d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID), Repo: "nowhere"})
		d.refused(err, hub.CodeNotFound, "nowhere")
	})
}

func TestFiles(t *testing.T) {
	t.Parallel()
	var root string
	share := func(t *testing.T, limits contract.Limits) *desk {
		root = t.TempDir()
		files, err := os.OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files.Close() })
		return newDesk(t, func(o *contract.Options) { o.Files, o.Limits = files, limits }).begin()
	}
	file := func(d *desk, name, content string) contract.NewFile {
		return contract.NewFile{Project: d.project.ID, Name: name, Content: base64.StdEncoding.EncodeToString([]byte(content))}
	}
	t.Run("R1-075 a file is kept below the project's folder, whatever its name", func(t *testing.T) {
		d := share(t, contract.Limits{})
		for _, name := range []string{"schema.sql", "../../etc/passwd", `..\..\x.exe`, "..", ".", "/", "a b\x00c", strings.Repeat("x", 500), "ü/漢"} {
			f, err := d.ShareFile(t.Context(), d.back, file(d, name, "data of "+name))
			d.ok(err)
			if !filepath.IsLocal(f.SavedTo) || filepath.Dir(f.SavedTo) != string(d.project.ID) || strings.ContainsAny(f.SavedTo, "\x00\\ ") {
				t.Errorf("%q went to %q", name, f.SavedTo)
			}
			got, err := os.ReadFile(filepath.Join(root, f.SavedTo))
			d.ok(err)
			equal(d, "content", string(got), "data of "+name)
			equal(d, "size", f.Size, len(got))
		}
	})
	t.Run("R1-087 what is too large or no base64 is refused and leaves nothing", func(t *testing.T) {
		d := share(t, contract.Limits{File: 100, Shared: 3 * 4096})
		for content, want := range map[string]hub.Code{
			"!!!": hub.CodeInvalid, "YQ": hub.CodeInvalid, "YR==": hub.CodeInvalid, "YQ==\n": hub.CodeInvalid, "YWJj ZGVm": hub.CodeInvalid,
			base64.StdEncoding.EncodeToString(make([]byte, 101)):    hub.CodeTooLarge,
			base64.StdEncoding.EncodeToString(make([]byte, 10_000)): hub.CodeTooLarge,
		} {
			_, err := d.ShareFile(t.Context(), d.back, contract.NewFile{Project: d.project.ID, Name: "x", Content: content})
			d.refused(err, want, "file.content")
		}
		for range 2 {
			_, err := d.ShareFile(t.Context(), d.back, file(d, "x", "y"))
			d.ok(err)
		}
		_, err := d.ShareFile(t.Context(), d.back, file(d, "x", "y")) // each counts more than its content
		d.refused(err, hub.CodeTooLarge, "shared files")
		_, err = d.ShareFile(t.Context(), d.back, contract.NewFile{Project: "../..", Name: "x", Content: "YQ=="})
		d.refused(err, hub.CodeInvalid, "projectId")
		_, err = d.ShareFile(t.Context(), d.back, contract.NewFile{Project: "unknown", Name: "x", Content: "YQ=="})
		d.refused(err, hub.CodeNotFound, "unknown")
		var names []string
		d.ok(filepath.WalkDir(root, func(name string, e os.DirEntry, err error) error {
			if !e.IsDir() {
				names = append(names, name)
			}
			return err
		}))
		equal(d, "files", len(names), 2)
	})
	t.Run("a file is asked for and sent once", func(t *testing.T) {
		d := share(t, contract.Limits{})
		var r coord.FileRequest
		requests := func() []coord.FileRequest {
			all, err := d.FileRequests(t.Context(), d.front, d.project.ID)
			d.ok(err)
			return all
		}
		t.Run("R1-076 a file is asked for", func(t *testing.T) {
			var err error
			r, err = d.RequestFile(t.Context(), d.back, contract.As{}, coord.FileRequest{Project: d.project.ID, Description: "the schema", Format: "sql"})
			d.ok(err)
			_, err = d.RequestFile(t.Context(), d.back, contract.As{}, coord.FileRequest{Project: d.project.ID})
			d.refused(err, hub.CodeInvalid, "description required")
		})
		t.Run("R1-077 requests are listed", func(t *testing.T) {
			equal(d, "requests", requests(), []coord.FileRequest{r})
		})
		t.Run("R1-078 a request is fulfilled once", func(t *testing.T) {
			f, err := d.FulfilRequest(t.Context(), d.front, r.ID, file(d, "schema.sql", "x"))
			d.ok(err)
			equal(d, "file", requests()[0].File, f.SavedTo)
			_, err = d.FulfilRequest(t.Context(), d.front, r.ID, file(d, "schema.sql", "x"))
			d.refused(err, hub.CodeConflict, "already fulfilled")
			_, err = d.FulfilRequest(t.Context(), d.front, "none", file(d, "schema.sql", "x"))
			d.refused(err, hub.CodeNotFound, "Request none not found")
		})
	})
	t.Run("a hub without a folder shares no files", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		_, err := d.ShareFile(t.Context(), d.back, file(d, "x", "y"))
		d.refused(err, hub.CodeNotEnabled, "")
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("R1-087 a project has so many contracts and packets, and no more", func(t *testing.T) {
		d := newDesk(t, func(o *contract.Options) { o.Limits = contract.Limits{Projects: 1, Contracts: 2, Packets: 2} }).begin()
		propose := func() error {
			_, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{}`)})
			return err
		}
		share := func() error {
			_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
			return err
		}
		for range 2 {
			d.ok(propose())
			d.ok(share())
		}
		d.refused(propose(), hub.CodeTooLarge, "2 contracts")
		d.refused(share(), hub.CodeTooLarge, "2 context packets")
		_, err := d.CreateProject(t.Context(), d.back, contract.NewProject{Name: "x"})
		d.refused(err, hub.CodeTooLarge, "projects")
		all, err := d.Sync(t.Context(), "peer", true, []federation.Copy{
			{Project: "other", Head: &coord.Project{ID: "other", Name: "x", Status: coord.ProjectPlanning}},
			{Project: d.project.ID, Packet: &coord.Packet{ID: "k", FromRepo: "r", Type: coord.ContextCode, Content: json.RawMessage(`{}`)}},
		})
		d.ok(err)
		equal(d, "from a peer", [2]hub.Code{all[0].Code, all[1].Code}, [2]hub.Code{hub.CodeTooLarge, hub.CodeTooLarge})
	})
	t.Run("R1-087 content has so many bytes, and so has a project", func(t *testing.T) {
		d := newDesk(t, func(o *contract.Options) { o.Limits.Bytes = 300_000 }).begin()
		big := json.RawMessage(`{"x":"` + strings.Repeat("y", 200_000) + `"}`)
		propose := func(content json.RawMessage) error {
			_, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: content})
			return err
		}
		d.refused(propose(json.RawMessage(`{"x":"`+strings.Repeat("y", federation.MaxContent)+`"}`)), hub.CodeTooLarge, "content")
		d.ok(propose(big))
		d.refused(propose(big), hub.CodeTooLarge, "bytes of content")
	})
	t.Run("a contract goes on after many versions: old ones are folded into a digest", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		update := func(i int) error {
			_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))})
			return err
		}
		for i := 1; i <= federation.MaxVersions; i++ {
			d.ok(update(i))
		}
		unfolded := d.read(c)
		d.ok(update(federation.MaxVersions + 1))
		got, err := d.Contract(t.Context(), d.back, c.Project, c.ID, true)
		d.ok(err)
		equal(d, "version", got.Version, federation.MaxVersions+2)
		equal(d, "folded", len(got.History) < federation.MaxVersions && federation.IsFold(got.History[0]), true)
		_, err = d.Diff(t.Context(), d.back, contract.DiffQuery{InContract: contract.Of(c.Project, c.ID), From: 1, To: 2})
		d.refused(err, hub.CodeNotFound, "folded")
		_, err = d.Diff(t.Context(), d.back, contract.DiffQuery{InContract: contract.Of(c.Project, c.ID), From: 0, To: 0})
		d.ok(err)
		_, err = d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: got.History[0].Content})
		d.refused(err, hub.CodeInvalid, "folded")
		// A hub that has not folded them merges both copies to the same.
		whole := got
		whole.History = got.History[1:]
		res, err := d.Sync(t.Context(), peer, true, []federation.Copy{{Project: c.Project, Contract: &whole}})
		d.ok(err)
		equal(d, "news", res[0].Status, federation.SyncSkipped)
		// A copy from before the fold does not bring the folded versions back.
		equal(d, "oldest version of the copy", unfolded.History[0].Version, 1)
		_, err = d.Sync(t.Context(), peer, true, []federation.Copy{{Project: c.Project, Contract: &unfolded}})
		d.ok(err)
		equal(d, "history", d.read(c).History, got.History)
	})
	t.Run("a high version that a peer sends freezes nothing", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		high := c
		high.Version = 1<<31 - 1
		res, err := d.Sync(t.Context(), peer, true, []federation.Copy{{Project: c.Project, Contract: &high}})
		d.ok(err)
		equal(d, "refused", res[0].Code, hub.CodeInvalid)
		_, err = d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{"next":1}`)})
		d.ok(err)
	})
	t.Run("R1-086 no id leads out of its place", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a b", "ü", "a\x00", strings.Repeat("x", 129)} {
			all, err := d.Sync(t.Context(), "peer", true, []federation.Copy{
				{Project: coord.ProjectID(id), Head: &coord.Project{ID: coord.ProjectID(id), Name: "x", Status: coord.ProjectPlanning}},
				{Project: d.project.ID, Contract: &coord.Contract{ID: coord.ContractID(id), Type: coord.ContractCustom, Name: "x", Version: 1, Status: coord.ContractProposed, Content: json.RawMessage(`{}`), ProposedBy: "r"}},
				{Project: d.project.ID, Packet: &coord.Packet{ID: coord.PacketID(id), FromRepo: "r", Type: coord.ContextCode, Content: json.RawMessage(`{}`)}},
				{Project: d.project.ID, Repo: &coord.Repo{ID: coord.RepoID(id), Name: "x", Role: "x", Language: "x"}},
			})
			d.ok(err)
			for _, s := range all {
				equal(d, fmt.Sprintf("%q", id), s.Code, hub.CodeInvalid)
			}
		}
		_, err := d.Project(t.Context(), d.back, "../x")
		d.refused(err, hub.CodeNotFound, "")
	})
	t.Run("the log of changes is trimmed up to what every peer has", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		var copies []federation.Copy
		for i := range 10_050 {
			copies = append(copies, federation.Copy{Project: c.Project, Packet: &coord.Packet{ID: coord.PacketID(fmt.Sprint("k", i)), FromRepo: "r", Type: coord.ContextCode, Content: json.RawMessage(`{}`)}})
		}
		_, err := d.Sync(t.Context(), "peer", true, copies)
		d.ok(err)
		peer := hub.Peer{AID: "slow", Endpoint: "x", State: hub.PeerApproved, Access: coord.AccessFull, AddedAt: c.CreatedAt}
		d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := tx.PutPeer(peer); err != nil {
				return err
			}
			return tx.PutOutbox(hub.Outbox{Peer: "slow", Sent: 7})
		}))
		oldest := func() int64 {
			d.ok(d.Trim(t.Context()))
			return d.changes(0)[0].Seq
		}
		equal(d, "a peer waits", oldest(), 8)
		peer.State = hub.PeerRemoved
		d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutPeer(peer) }))
		equal(d, "nobody waits", oldest() > 8, true)
	})
}

func TestNotices(t *testing.T) {
	t.Parallel()
	t.Run("an event is a message in the inbox of the agent whose repository it concerns", func(t *testing.T) {
		store := storetest.Open(t, t.TempDir())
		now := hub.Clock((&clock{now: start}).read)
		for _, id := range []hub.AgentID{"ada", "bob"} {
			err := store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
				return tx.PutAgent(hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: now.Now()}, "")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		wires := new(bus.Local)
		room, err := mailroom.New(store, nil, &mailroom.Options{Clock: now, Bus: wires})
		if err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, nil)
		d.Service = contract.New(store, &contract.Options{
			Clock: now, Self: backAID, Repo: "backend-api", Bus: wires, Sender: room,
			Local: func(aid coord.AID) (hub.AgentID, bool) {
				id, ok := map[coord.AID]hub.AgentID{backAID: "ada", frontAID: "bob"}[aid]
				return id, ok
			},
		})
		d.store = store
		d.begin()
		hints, cancel := wires.Subscribe(hub.TopicInbox("bob"))
		defer cancel()
		inbox := func(agent hub.AgentID) (out []hub.Message) {
			d.ok(store.View(t.Context(), func(r hub.Reader) error {
				page, err := r.Inbox(agent, hub.InboxFilter{Limit: 200, Now: now.Now()})
				out = page.Messages
				return err
			}))
			return out
		}
		c := d.propose()
		<-hints
		equal(d, "the proposer's own", len(inbox("ada")), 0)
		got := inbox("bob")
		equal(d, "messages", len(got), 1)
		equal(d, "from", got[0].From, hub.Self)
		equal(d, "type", got[0].Type, hub.TypeStatusUpdate)
		var payload struct{ Summary, Event, Contract_id string }
		d.ok(json.Unmarshal(got[0].Payload, &payload))
		equal(d, "contract", payload.Contract_id, string(c.ID))
		equal(d, "summary", payload.Summary, `backend-api: contract "Get User Profile" version 1 is proposed (proposed)`)
		_, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "the answer", len(inbox("ada")), 1)
		_, err = d.Ask(t.Context(), d.back, contract.Question{InProject: contract.In(c.Project), Question: "now?", Urgent: true})
		d.ok(err)
		equal(d, "urgent", inbox("bob")[0].Priority, hub.PriorityHigh)
		_, err = d.Sync(t.Context(), "aid://third/x@1.0.0", true, []federation.Copy{{Project: c.Project, Contract: &coord.Contract{
			ID: "foreign", Type: coord.ContractCustom, Name: "x", Version: 1, Status: coord.ContractProposed, Content: json.RawMessage(`{}`), ProposedBy: "r",
		}}})
		d.ok(err)
		equal(d, "from another hub", len(inbox("ada")), 2)
		for range 60 {
			d.propose()
		}
		if n := len(inbox("bob")); n > 35 {
			t.Errorf("%d messages: nobody can read so many", n)
		}
	})
}

func TestPersistence(t *testing.T) {
	t.Parallel()
	t.Run("R1-054 a change is stored with its journal row and its row for peers, whether or not a peer can be reached", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return tx.PutPeer(hub.Peer{AID: "dead", Endpoint: "http://127.0.0.1:1", State: hub.PeerApproved, Access: coord.AccessFull, AddedAt: d.project.CreatedAt})
		}))
		before, entries := d.last().Seq, len(d.journal())
		c := d.propose()
		equal(d, "contract", d.read(c).Status, coord.ContractProposed)
		equal(d, "changes", len(d.changes(before)), 1)
		equal(d, "entries", len(d.journal()), entries+1)
	})
	t.Run("R1-089 what was acknowledged is there after a restart, with its journal and log of changes", func(t *testing.T) {
		home := storetest.NewHome(t, t.TempDir())
		var before []byte
		for round := range 2 {
			store := home.Open()
			d := newDesk(t, nil)
			d.store, d.Service = store, contract.New(store, &contract.Options{Clock: d.clock.read, Self: backAID, Repo: "backend-api"})
			if round == 0 {
				d.begin()
				d.bring(coord.ContractVerified)
				equal(d, "changes", len(d.changes(0)), 13) // of them 3 of the status of the project
				if n := len(d.journal()); n != 13 {
					t.Errorf("the journal has %d entries, want one for each change: %v", n, d.journal())
				}
			} else {
				all, err := d.Projects(t.Context(), d.back, "", 0)
				d.ok(err)
				d.project = all[0]
			}
			if after := d.whole(nil); round == 1 && !bytes.Equal(before, after) {
				t.Errorf("got %s\nwant %s", after, before)
			} else {
				before = after
			}
			d.ok(store.Close())
		}
	})
}

// readByBob returns a desk of backend whose notices for frontend go to the agent bob.
func readByBob(t *testing.T) *desk {
	d := newDesk(t, nil)
	d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		return tx.PutAgent(hub.Agent{ID: "bob", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: hub.At(d.clock.read())}, "")
	}))
	room, err := mailroom.New(d.store, nil, &mailroom.Options{Clock: d.clock.read})
	d.ok(err)
	d.Service = contract.New(d.store, &contract.Options{
		Clock: d.clock.read, Self: backAID, Repo: "backend-api", Endpoint: "https://back", Sender: room,
		Local: func(a coord.AID) (hub.AgentID, bool) { return "bob", a == frontAID },
	})
	d.begin()
	return d
}

func TestHeldNotices(t *testing.T) {
	t.Parallel()
	d := readByBob(t)
	events := 0
	share := func(n int) {
		t.Helper()
		for range n {
			_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
			d.ok(err)
			events++
		}
	}
	// told returns the number of messages in the inbox, and of the events that they tell.
	told := func() (messages, counted int) {
		t.Helper()
		page, err := hub.Read(t.Context(), d.store, func(r hub.Reader) (hub.Page, error) {
			return r.Inbox("bob", hub.InboxFilter{Limit: 200, Now: hub.At(d.clock.read())})
		})
		d.ok(err)
		for _, m := range page.Messages {
			var n struct {
				Count  int
				Events []string
			}
			d.ok(json.Unmarshal(m.Payload, &n))
			counted += max(n.Count, 1)
		}
		return len(page.Messages), counted
	}
	t.Run("notices that come too fast are sent together later", func(t *testing.T) {
		share(80)
		if messages, counted := told(); messages != 30 || counted != 30 {
			t.Errorf("got %d messages about %d events, want 30 at once", messages, counted)
		}
		d.ok(d.SendHeld(t.Context()))
		if messages, _ := told(); messages != 30 {
			t.Errorf("got %d messages in the same minute", messages)
		}
		d.clock.add(time.Minute)
		d.ok(d.SendHeld(t.Context()))
		if messages, counted := told(); messages != 31 || counted != events {
			t.Errorf("got %d messages about %d events, want 31 about %d", messages, counted, events)
		}
		d.ok(d.SendHeld(t.Context()))
		if messages, counted := told(); messages != 31 || counted != events {
			t.Errorf("sent again: %d messages about %d events", messages, counted)
		}
	})
	t.Run("notices for an agent that does not read are held until it does", func(t *testing.T) {
		for range 69 {
			d.clock.add(3 * time.Second)
			share(1)
		}
		d.clock.add(time.Minute)
		share(5)
		d.ok(d.SendHeld(t.Context()))
		if messages, counted := told(); messages != 100 || counted != events-5 {
			t.Errorf("got %d messages about %d events, want 100 about %d", messages, counted, events-5)
		}
	})
}

// Of held notices the newest three that ask for an answer keep their words.
func TestHeldQuestions(t *testing.T) {
	t.Parallel()
	d := readByBob(t)
	for range 40 { // more than are told in a minute
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
		d.ok(err)
	}
	for i := range 4 {
		_, err := d.Ask(t.Context(), d.back, contract.Question{InProject: contract.In(d.project.ID), Question: fmt.Sprint("question ", i, "?")})
		d.ok(err)
	}
	d.clock.add(time.Minute)
	d.ok(d.SendHeld(t.Context()))
	page, err := hub.Read(t.Context(), d.store, func(r hub.Reader) (hub.Page, error) {
		return r.Inbox("bob", hub.InboxFilter{Limit: 200, Now: hub.At(d.clock.read())})
	})
	d.ok(err)
	var got []string
	for _, m := range page.Messages {
		for _, q := range m.Quotes() {
			if q.Answer {
				got = append(got, q.Said[0].Text)
			}
		}
	}
	if want := []string{"question 1?", "question 2?", "question 3?"}; !slices.Equal(got, want) {
		t.Errorf("got the words %v, want %v", got, want)
	}
}
