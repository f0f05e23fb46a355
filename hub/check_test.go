package hub_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestStageOf(t *testing.T) {
	for _, c := range []struct {
		name    string
		proof   hub.Proof
		checks  hub.ChecksWord
		review  hub.ReviewWord
		landing hub.LandingWord
		want    hub.Stage
	}{
		{"work that is not proven is claimed", hub.ProofUnproven, hub.ChecksNone, hub.ReviewNone, hub.LandingNone, hub.StageClaimed},
		{"work that is not proven is claimed though checks passed on the commit", hub.ProofUnproven, hub.ChecksPassed, hub.ReviewApproved, hub.LandingNone, hub.StageClaimed},
		{"verified work is there", hub.ProofVerified, hub.ChecksNone, hub.ReviewNone, hub.LandingNone, hub.StageThere},
		{"work whose checks run is there", hub.ProofVerified, hub.ChecksRunning, hub.ReviewNone, hub.LandingNone, hub.StageThere},
		{"work whose checks failed is there", hub.ProofVerified, hub.ChecksFailed, hub.ReviewNone, hub.LandingNone, hub.StageThere},
		{"work whose checks passed passes", hub.ProofVerified, hub.ChecksPassed, hub.ReviewWaiting, hub.LandingNone, hub.StagePasses},
		{"approved work is reviewed", hub.ProofVerified, hub.ChecksPassed, hub.ReviewApproved, hub.LandingQueued, hub.StageReviewed},
		{"approved work without checks is reviewed", hub.ProofVerified, hub.ChecksNone, hub.ReviewApproved, hub.LandingNone, hub.StageReviewed},
		{"an approval does not outweigh failed checks", hub.ProofVerified, hub.ChecksFailed, hub.ReviewApproved, hub.LandingNone, hub.StageThere},
		{"work that wants changes passes", hub.ProofVerified, hub.ChecksPassed, hub.ReviewChanges, hub.LandingNone, hub.StagePasses},
		{"returned work is what it was before", hub.ProofVerified, hub.ChecksPassed, hub.ReviewNone, hub.LandingReturned, hub.StagePasses},
		{"work in the target branch has landed", hub.ProofUnproven, hub.ChecksNone, hub.ReviewNone, hub.LandingLanded, hub.StageLanded},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := hub.StageOf(c.proof, c.checks, c.review, c.landing); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCheckResultAdvance(t *testing.T) {
	all := []hub.CheckState{hub.ResultQueued, hub.ResultRunning, hub.ResultPassed, hub.ResultFailed, hub.ResultTimedOut, hub.ResultNotStarted, hub.ResultCancelled, hub.ResultInterrupted}
	moves := map[hub.CheckState]string{
		hub.ResultQueued:  "running not_started cancelled ",
		hub.ResultRunning: "queued passed failed timed_out not_started cancelled interrupted ",
	}
	for _, from := range all {
		got := ""
		for _, to := range all {
			r := hub.CheckResult{ID: "c1", State: from}
			moved, err := r.Advance(to, hub.At(time.Unix(1, 0)))
			switch {
			case err == nil:
				got += string(to) + " "
			case hub.CodeOf(err) != hub.CodeConflict || moved.State != from:
				t.Errorf("%s to %s: got %s, %v", from, to, moved.State, err)
			}
		}
		if got != moves[from] {
			t.Errorf("from %s: got %q, want %q", from, got, moves[from])
		}
		if from.Over() != (moves[from] == "") {
			t.Errorf("%s: over is %v", from, from.Over())
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{"10m": "10m", "90s": "1m30s", "1h": "1h", "1h10m": "1h10m", "1h0m5s": "1h0m5s", "500ms": "500ms", "0s": "0s", "20s": "20s"} {
		var d hub.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, d, err, want)
		}
	}
	raw, _ := json.Marshal(map[string]hub.Duration{"timeout": hub.Duration(time.Minute)})
	if string(raw) != `{"timeout":"1m"}` {
		t.Errorf("got %s", raw)
	}
}

func TestRunDigestOfChecks(t *testing.T) {
	no := false
	base := hub.RepositoryCheck{Name: "test", Command: []string{"make", "test"}, Timeout: hub.Duration(time.Minute)}
	same := map[string]hub.RepositoryCheck{"its name": base, "when it runs": base}
	renamed := base
	renamed.Name = "other"
	same["its name"] = renamed
	scoped := base
	scoped.Required, scoped.When = true, []string{"src"}
	same["when it runs"] = scoped
	for what, c := range same {
		if c.RunDigest() != base.RunDigest() {
			t.Errorf("%s changes the digest", what)
		}
	}

	other := map[string]func(*hub.RepositoryCheck){
		"the command":  func(c *hub.RepositoryCheck) { c.Command = []string{"make test"} },
		"the setup":    func(c *hub.RepositoryCheck) { c.Setup = []string{"npm", "ci"} },
		"a key":        func(c *hub.RepositoryCheck) { c.SetupKey = []string{"go.sum"} },
		"a kept one":   func(c *hub.RepositoryCheck) { c.Keep = []string{"vendor"} },
		"a variable":   func(c *hub.RepositoryCheck) { c.Env = map[string]string{"CI": "1"} },
		"the network":  func(c *hub.RepositoryCheck) { c.Network = &no },
		"the time":     func(c *hub.RepositoryCheck) { c.Timeout *= 2 },
		"the report":   func(c *hub.RepositoryCheck) { c.JUnit = "r.xml" },
		"the place":    func(c *hub.RepositoryCheck) { c.InPlace = true },
		"a folder":     func(c *hub.RepositoryCheck) { c.Writable = []string{"/cache"} },
		"confinement":  func(c *hub.RepositoryCheck) { c.Unconfined = true },
		"the argument": func(c *hub.RepositoryCheck) { c.Command = []string{"make", "tests"} },
	}
	seen := map[string]string{base.RunDigest(): "nothing"}
	for what, change := range other {
		c := base
		change(&c)
		if twin := seen[c.RunDigest()]; twin != "" {
			t.Errorf("%s has the same digest as %s", what, twin)
		}
		seen[c.RunDigest()] = what
	}
}

func TestRepositoryPath(t *testing.T) {
	for folder, want := range map[string]string{"/src/shop/.git": "/src/shop", "/src/shop.git": "/src/shop.git", `C:\shop\.git`: `C:\shop`, "/.git": "/.git"} {
		if got := hub.RepositoryPath(folder); got != want {
			t.Errorf("%s: got %s, want %s", folder, got, want)
		}
	}
}
