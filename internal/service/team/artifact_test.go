package team_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/team"
)

// put returns a request that puts text, made from a version.
func put(name string, parent int64, text string) team.PutArtifact {
	return team.PutArtifact{Artifact: name, Parent: parent, Content: team.Text(text)}
}

// text returns a version of an artifact, the newest for 0.
func (r *room) text(name string, version int64) string {
	r.Helper()
	got := r.must(ana, team.ReadArtifact{Artifact: name, Version: version})
	if got.Content == nil {
		r.Fatalf("%s: got %+v", name, got)
	}
	return *got.Content
}

// merge returns a request that merges the versions beside the newest.
func merge(name, text string, parents ...int64) team.Merge {
	return team.Merge{Artifact: name, Content: team.Text(text), Parents: parents}
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

func TestArtifacts(t *testing.T) {
	t.Run("R3-154 a version has its number, hash, parent, author and note, and the members are told", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		q := put("docs/plan.md", 0, "one\n")
		q.Note = "first"
		got := r.must(bo, q)
		if v := got.Version; v.Version != 1 || v.Parent != 0 || v.SHA256 != sum("one\n") || v.Size != 4 || v.Author != "bo" || v.Note != "first" || v.At.IsZero() || got.Artifact.State != hub.MergeClean {
			t.Errorf("got %+v of %+v", v, got.Artifact)
		}
		if got := r.must(cy, put("docs/plan.md", 1, "two\n")); got.Version.Version != 2 || got.Version.Parent != 1 || got.Artifact.Version != 2 {
			t.Errorf("got %+v of %+v", got.Version, got.Artifact)
		}
		if got := r.must(bo, put("docs/plan.md", 1, "two\n")); got.Version.Version != 2 || got.Artifact.Versions != 2 || got.Version.Author != "cy" {
			t.Errorf("content equal to the newest: got %+v of %+v", got.Version, got.Artifact)
		}
		if one, two := r.text("docs/plan.md", 1), r.text("docs/plan.md", 0); one != "one\n" || two != "two\n" {
			t.Errorf("got %q and %q", one, two)
		}
		types, told := r.inbox(ana)
		if last := len(told) - 1; types[last] != hub.TypeTeamArtifactUpdate || !strings.Contains(told[last], `"artifact_id":"docs/plan.md"`) || !strings.Contains(told[last], `"state":"clean"`) {
			t.Errorf("R3-150 ana was told %s %s", types[last], told[last])
		}
		log := r.must(ana, team.ListVersions{Artifact: "docs/plan.md", Limit: 1})
		if len(log.Versions) != 1 || log.Versions[0].Version != 2 || log.Next != "2" {
			t.Errorf("log: got %+v", log)
		}
		if log := r.must(ana, team.ListVersions{Artifact: "docs/plan.md", Cursor: log.Next}); len(log.Versions) != 1 || log.Versions[0].Version != 1 {
			t.Errorf("log: got %+v", log)
		}
		if got := r.must(ana, team.ListArtifacts{}); len(got.Artifacts) != 1 || got.Artifacts[0].Version != 2 {
			t.Errorf("list: got %+v", got)
		}
	})
	t.Run("R3-154 bad names, parents and contents are refused and change nothing", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("docs/Plan.md", 0, "one\n"))
		long := strings.Repeat("x", 256<<10+1)
		both := put("a", 0, "x")
		both.SHA256 = sum("x")
		hash := func(sum string) team.PutArtifact {
			q := put("a", 0, "")
			q.Content = team.Content{SHA256: sum}
			return q
		}
		binary := put("a", 0, "not base64!")
		binary.Encoding = "base64"
		for _, test := range []struct {
			as   hub.Caller
			q    team.Request
			code hub.Code
		}{
			{bo, put("../x", 0, "x"), hub.CodeInvalid},
			{bo, put("/etc/passwd", 0, "x"), hub.CodeInvalid},
			{bo, put("a//b", 0, "x"), hub.CodeInvalid},
			{bo, put("a/.hidden", 0, "x"), hub.CodeInvalid},
			{bo, put(".versions/a", 0, "x"), hub.CodeInvalid},
			{bo, put(`a\b`, 0, "x"), hub.CodeInvalid},
			{bo, put("a\x00b", 0, "x"), hub.CodeInvalid},
			{bo, put("Registry.jsonl", 0, "x"), hub.CodeInvalid},
			{bo, put("registry.jsonl/a", 0, "x"), hub.CodeInvalid},
			{bo, put(strings.Repeat("a", 201), 0, "x"), hub.CodeInvalid},
			{bo, put("docs/plan.md", 1, "x"), hub.CodeConflict},
			{bo, put("docs", 0, "x"), hub.CodeConflict},
			{bo, put("DOCS/plan.md/more", 0, "x"), hub.CodeConflict},
			{bo, put("docs/Plan.md", -1, "x"), hub.CodeInvalid},
			{bo, put("docs/Plan.md", 2, "x"), hub.CodeNotFound},
			{bo, put("new", 1, "x"), hub.CodeNotFound},
			{bo, put("a", 0, long), hub.CodeTooLarge},
			{bo, both, hub.CodeInvalid},
			{bo, binary, hub.CodeInvalid},
			{bo, hash(sum("nothing")), hub.CodeNotFound},
			{bo, hash(sum("one\n")), hub.CodeNotFound}, // of the team, and not uploaded by bo
			{bo, hash("../../etc/passwd"), hub.CodeInvalid},
			{eve, put("a", 0, "x"), hub.CodeNotFound},
			{bo, team.ReadArtifact{Artifact: "docs/Plan.md", Version: 7}, hub.CodeNotFound},
			{bo, team.ReadArtifact{Artifact: "none"}, hub.CodeNotFound},
		} {
			if _, err := r.do(test.as, test.q); hub.CodeOf(err) != test.code {
				t.Errorf("%s %+v: got %v, want %s", test.as.ID, test.q, err, test.code)
			}
		}
		if got := r.must(ana, team.ListArtifacts{}); len(got.Artifacts) != 1 || got.Artifacts[0].Versions != 1 {
			t.Errorf("got %+v", got.Artifacts)
		}
	})
	t.Run("R3-154 larger content comes by its hash, at most 8 MiB, and is fetched by it", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		upload := func(size int) team.PutArtifact {
			ref, err := r.mail.StoreArtifact(t.Context(), bo, strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				t.Fatal(err)
			}
			q := put("big", 0, "")
			q.Content = team.Content{SHA256: ref.SHA256}
			return q
		}
		if _, err := r.do(bo, upload(10_000_000)); hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("10 MB: got %v", err)
		}
		q := upload(300 << 10)
		r.must(bo, q)
		if got := r.must(cy, team.ReadArtifact{Artifact: "big"}); got.Content != nil || got.Version.Size != 300<<10 || len(got.Warnings) != 1 {
			t.Errorf("got %+v", got)
		}
		f, err := r.mail.OpenArtifact(t.Context(), cy, q.SHA256)
		if err != nil {
			t.Fatalf("cy, a member that read the version: %v", err)
		}
		f.Close()
		if f, err := r.mail.OpenArtifact(t.Context(), di, q.SHA256); err == nil {
			f.Close()
			t.Error("di, who read nothing, got the content")
		}
	})
	t.Run("R3-161 a put on an earlier version is merged if the changes do not touch", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n2\n3\n4\n5\n"))
		r.must(bo, put("a", 1, "one\n2\n3\n4\n5\n"))
		got := r.must(cy, put("a", 1, "1\n2\n3\n4\nfive\n"))
		if got.Version.Version != 3 || got.Version.Parent != 1 || got.Artifact.Version != 4 || got.Artifact.State != hub.MergeResolved || len(got.Artifact.Beside) != 0 {
			t.Fatalf("got %+v of %+v", got.Version, got.Artifact)
		}
		if text := r.text("a", 0); text != "one\n2\n3\n4\nfive\n" {
			t.Errorf("got %q", text)
		}
		log := r.must(ana, team.ListVersions{Artifact: "a"})
		if m := log.Versions[0]; !slices.Equal(m.Parents, []int64{2, 3}) || m.Author != hub.Self {
			t.Errorf("the merge: got %+v", m)
		}
		// The author goes on from its own version.
		r.must(cy, put("a", 3, "1\n2\nthree\n4\nfive\n"))
		if text := r.text("a", 0); text != "one\n2\nthree\n4\nfive\n" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("R3-161 changes that touch are kept as a conflict until an integrator merges them", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n2\n3\n"))
		r.must(bo, put("a", 1, "1\ntwo\n3\n"))
		got := r.must(cy, put("a", 1, "1\nzwei\n3\n"))
		if got.Version.Version != 3 || got.Artifact.Version != 2 || got.Artifact.State != hub.MergeManual || !slices.Equal(got.Artifact.Beside, []int64{3}) {
			t.Fatalf("got %+v of %+v", got.Version, got.Artifact)
		}
		if newest, beside := r.text("a", 0), r.text("a", 3); newest != "1\ntwo\n3\n" || beside != "1\nzwei\n3\n" {
			t.Errorf("got %q and %q", newest, beside)
		}
		for _, as := range []hub.Caller{bo, di} {
			_, told := r.inbox(as)
			if !slices.ContainsFunc(told, func(text string) bool {
				return strings.Contains(text, `"state":"manual_merge"`) && strings.Contains(text, `"merge_by":["di"]`)
			}) {
				t.Errorf("%s was told %s", as.ID, told)
			}
		}
		r.must(bo, put("a", 2, "1\ntwo\n3\n4\n")) // on the newest, which stays allowed
		r.refuse(cy, merge("a", "x"), hub.CodeDenied, "cannot merge")
		r.refuse(di, merge("a", "x", 2, 3), hub.CodeConflict, "newest")
		r.refuse(di, merge("a", "x", 4, 1), hub.CodeConflict, "does not wait for a merge")
		got = r.must(di, merge("a", "1\ntwo zwei\n3\n4\n"))
		if got.Artifact.Version != 5 || got.Artifact.State != hub.MergeResolved || !slices.Equal(got.Version.Parents, []int64{4, 3}) {
			t.Errorf("got %+v of %+v", got.Version, got.Artifact)
		}
		r.refuse(di, merge("a", "x"), hub.CodeConflict, "no version")
		if text := r.text("a", 3); text != "1\nzwei\n3\n" {
			t.Errorf("version 3 is now %q", text)
		}
	})
	t.Run("R3-161 a version that comes from one beside is compared with the base of both, and its merge ends both", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n2\n3\n4\n5\n"))
		r.must(bo, put("a", 1, "one\n2\n3\n4\n5\n"))
		r.must(cy, put("a", 1, "eins\n2\n3\n4\n5\n"))     // 3, beside
		r.must(cy, put("a", 3, "eins\n2\n3\n4\nfuenf\n")) // 4, beside
		r.must(di, put("a", 1, "1\n2\n3\nx\n5\n"))        // 5 and its merge 6
		r.refuse(ana, merge("a", "x"), hub.CodeInvalid, "3, 4")
		got := r.must(ana, merge("a", "both\n", 6, 4))
		if len(got.Artifact.Beside) != 0 || got.Artifact.State != hub.MergeResolved {
			t.Errorf("got %+v", got.Artifact)
		}
	})
	t.Run("R3-161 content that is no text, and a new artifact with a taken name, conflict", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n\x00\n3\n"))
		r.must(bo, put("a", 1, "one\n\x00\n3\n"))
		if got := r.must(cy, put("a", 1, "1\n\x00\n3\nfour\n")); got.Artifact.State != hub.MergeManual {
			t.Errorf("got %+v", got.Artifact)
		}
		r.must(bo, put("b", 0, "mine\n"))
		if got := r.must(cy, put("b", 0, "yours\n")); got.Artifact.State != hub.MergeManual || got.Artifact.Version != 1 {
			t.Errorf("got %+v", got.Artifact)
		}
	})
	t.Run("R3-161 high sensitivity is never merged by the hub, and a reviewer signs the merge", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		q := put("a", 0, "1\n2\n3\n")
		q.Sensitivity = hub.SensitivityHigh
		r.must(bo, q)
		r.must(bo, put("a", 1, "one\n2\n3\n"))
		if got := r.must(di, put("a", 1, "1\n2\nthree\n")); got.Artifact.State != hub.MergeEscalated {
			t.Errorf("got %+v", got.Artifact)
		}
		sign := team.SignMerge{Artifact: "a"}
		r.refuse(cy, sign, hub.CodeConflict, "no merge")
		_, told := r.inbox(cy)
		if last := told[len(told)-1]; !strings.Contains(last, `"merge_by":["di"]`) {
			t.Errorf("cy was told %s", last)
		}
		r.refuse(ana, merge("a", "one\n2\nthree\n"), hub.CodeDenied, "cannot merge")
		easy := put("a", 2, "one\n2\n3\n4\n")
		easy.Sensitivity = hub.SensitivityLow
		r.refuse(ana, easy, hub.CodeConflict, "cannot be lowered")
		if got := r.must(di, merge("a", "one\n2\nthree\n")); got.Artifact.State != hub.MergeEscalated || got.Artifact.Version != 4 {
			t.Errorf("after the merge: got %+v", got.Artifact)
		}
		r.refuse(ana, easy, hub.CodeConflict, "cannot be lowered")
		r.refuse(bo, sign, hub.CodeDenied, "cannot sign")
		if got := r.must(cy, sign); got.Artifact.State != hub.MergeResolved || len(got.Artifact.Beside) != 0 {
			t.Errorf("after the signature: got %+v", got.Artifact)
		}
		lower := put("a", 4, "x\n")
		lower.Sensitivity = hub.SensitivityLow
		r.refuse(bo, lower, hub.CodeDenied, "sensitivity")
		if got := r.must(ana, lower); got.Artifact.Sensitivity != hub.SensitivityLow {
			t.Errorf("a coordinator, with nothing to merge: got %+v", got.Artifact)
		}
	})
	t.Run("R3-161 a team without an integrator is told that it needs one for high sensitivity, and the operator can merge", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(ana, team.RemoveMember{Agent: "di"})
		q := put("a", 0, "1\n")
		q.Sensitivity = hub.SensitivityHigh
		r.must(bo, q)
		r.must(bo, put("a", 1, "2\n"))
		r.must(cy, put("a", 1, "3\n"))
		_, told := r.inbox(ana)
		if last := told[len(told)-1]; !strings.Contains(last, `"merge_by":[]`) || !strings.Contains(last, "the team has none") {
			t.Errorf("ana was told %s", last)
		}
		r.refuse(ana, merge("a", "2 3\n"), hub.CodeDenied, "cannot merge")
		r.must(operator, merge("a", "2 3\n"))
	})
	t.Run("R3-161 a conflict that is not merged in time is escalated once", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n"))
		r.must(bo, put("a", 1, "2\n"))
		r.must(cy, put("a", 1, "3\n"))
		r.now = r.now.Add(4*time.Hour - time.Minute)
		wantCode(t, r.teams.Sweep(t.Context()), "", "")
		if got := r.must(ana, team.ReadArtifact{Artifact: "a"}); got.Artifact.State != hub.MergeManual {
			t.Errorf("before: got %+v", got.Artifact)
		}
		r.now = r.now.Add(2 * time.Minute)
		r.inbox(ana)
		for range 2 {
			wantCode(t, r.teams.Sweep(t.Context()), "", "")
		}
		if got := r.must(ana, team.ReadArtifact{Artifact: "a"}); got.Artifact.State != hub.MergeEscalated {
			t.Errorf("after: got %+v", got.Artifact)
		}
		if _, told := r.inbox(ana); len(told) != 1 || !strings.Contains(told[0], `"escalated"`) {
			t.Errorf("ana was told %q", told)
		}
	})
}

func TestRacingPuts(t *testing.T) {
	const writers = 50
	var base []string
	for i := range 2 * writers {
		base = append(base, fmt.Sprintf("line %d\n", i))
	}
	edit := func(i int) string {
		lines := slices.Clone(base)
		lines[2*i] = fmt.Sprintf("edit %d\n", i)
		return strings.Join(lines, "")
	}
	lines := slices.Clone(base)
	for i := range writers {
		lines[2*i] = fmt.Sprintf("edit %d\n", i)
	}
	want := strings.Join(lines, "")
	t.Run("R3-161 50 racing puts of lines apart end in one text, in every order, and no version is lost", func(t *testing.T) {
		for round := range 3 {
			r := open(t)
			r.work(nil)
			r.must(bo, put("a", 0, strings.Join(base, "")))
			var wg sync.WaitGroup
			acked := make([]team.Answer, writers)
			for _, i := range rand.Perm(writers) {
				run := func() {
					var err error
					if acked[i], err = r.do(bo, put("a", 1, edit(i))); err != nil {
						t.Errorf("put %d: %v", i, err)
					}
				}
				if round == 0 {
					run() // one after the other, in a random order
				} else {
					wg.Go(run)
				}
			}
			wg.Wait()
			if got := r.text("a", 0); got != want {
				t.Fatalf("round %d: got %q", round, got)
			}
			for i, a := range acked {
				if got := r.text("a", a.Version.Version); got != edit(i) {
					t.Errorf("put %d, which is version %d, has other bytes", i, a.Version.Version)
				}
			}
			if a := r.must(ana, team.ReadArtifact{Artifact: "a"}).Artifact; a.Versions != 2*writers || len(a.Beside) != 0 {
				t.Errorf("got %+v", a)
			}
		}
	})
	t.Run("R3-161 50 racing puts of one line: one is the newest, 49 lie beside it", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "x\n"))
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				got, err := r.do(bo, put("a", 1, fmt.Sprintf("%d\n", i)))
				if err != nil {
					t.Errorf("put %d: %v", i, err)
				} else if text := r.text("a", got.Version.Version); text != fmt.Sprintf("%d\n", i) {
					t.Errorf("put %d: version %d is %q", i, got.Version.Version, text)
				}
			})
		}
		wg.Wait()
		if a := r.must(ana, team.ReadArtifact{Artifact: "a"}).Artifact; a.Version != 2 || a.Versions != writers+1 || len(a.Beside) != writers-1 {
			t.Errorf("got %+v", a)
		}
	})
}
