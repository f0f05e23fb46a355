package forge_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/forge"
)

const secret = "0123456789abcdef0123456789abcdef"

// header returns headers of pairs of names and values.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// mac returns the HMAC-SHA256 of a body in hexadecimal, made without the package under test.
func mac(body string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

func TestVerify(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const body = `{"zen":"Keep it logically awesome."}`
	generic := func(seconds, id, signed string) http.Header {
		return header(forge.SignatureHeader, "t="+seconds+",v1="+mac(signed), forge.DeliveryHeader, id)
	}
	for name, c := range map[string]struct {
		vendor hub.EventVendor
		header http.Header
		want   bool
	}{
		"github":                             {hub.VendorGitHub, header("X-Hub-Signature-256", "sha256="+mac(body)), true},
		"github, another body":               {hub.VendorGitHub, header("X-Hub-Signature-256", "sha256="+mac(body+" ")), false},
		"github, without the name":           {hub.VendorGitHub, header("X-Hub-Signature-256", mac(body)), false},
		"github, half of the sum":            {hub.VendorGitHub, header("X-Hub-Signature-256", "sha256="+mac(body)[:32]), false},
		"github, no sum":                     {hub.VendorGitHub, header("X-Hub-Signature-256", "sha256="), false},
		"github, none":                       {hub.VendorGitHub, header(), false},
		"github, twice":                      {hub.VendorGitHub, header("X-Hub-Signature-256", "sha256="+mac(body), "X-Hub-Signature-256", "sha256="+mac(body)), false},
		"github, the form of gitea":          {hub.VendorGitHub, header("X-Gitea-Signature", mac(body)), false},
		"gitea":                              {hub.VendorGitea, header("X-Gitea-Signature", mac(body)), true},
		"forgejo":                            {hub.VendorGitea, header("X-Forgejo-Signature", mac(body)), true},
		"gitea, wrong":                       {hub.VendorGitea, header("X-Gitea-Signature", mac("x")), false},
		"gitea, none":                        {hub.VendorGitea, header(), false},
		"gitlab":                             {hub.VendorGitLab, header("X-Gitlab-Token", secret), true},
		"gitlab, a part":                     {hub.VendorGitLab, header("X-Gitlab-Token", secret[:31]), false},
		"gitlab, none":                       {hub.VendorGitLab, header(), false},
		"generic":                            {hub.VendorGeneric, generic("1800000000", "a", "1800000000.a."+body), true},
		"generic, within five minutes":       {hub.VendorGeneric, generic("1799999701", "a", "1799999701.a."+body), true},
		"generic, older":                     {hub.VendorGeneric, generic("1799999699", "a", "1799999699.a."+body), false},
		"generic, from the future":           {hub.VendorGeneric, generic("1800000301", "a", "1800000301.a."+body), false},
		"generic, another id":                {hub.VendorGeneric, generic("1800000000", "b", "1800000000.a."+body), false},
		"generic, another time":              {hub.VendorGeneric, generic("1800000001", "a", "1800000000.a."+body), false},
		"generic, no id":                     {hub.VendorGeneric, generic("1800000000", "", "1800000000.."+body), false},
		"generic, as Sign makes it":          {hub.VendorGeneric, header(forge.SignatureHeader, forge.Sign(secret, "a", []byte(body), now), forge.DeliveryHeader, "a"), true},
		"an unknown vendor with a signature": {"bitbucket", header("X-Hub-Signature-256", "sha256="+mac(body)), false},
	} {
		if err := forge.Verify(c.vendor, secret, c.header, []byte(body), now); (err == nil) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	// GitLab with a signing token, by the example of Standard Webhooks, whose form it has.
	const token, example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	signed := func(id, seconds, sums string) http.Header {
		return header("webhook-id", id, "webhook-timestamp", seconds, "webhook-signature", sums)
	}
	const id, sum = "msg_p5jXN8AQM9LWM0D4loKWxJek", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at := time.Unix(1614265330, 0)
	for name, c := range map[string]struct {
		header http.Header
		body   string
		now    time.Time
		want   bool
	}{
		"signed":                      {signed(id, "1614265330", sum), example, at, true},
		"the second of two":           {signed(id, "1614265330", "v1,AAAA "+sum), example, at, true},
		"within five minutes":         {signed(id, "1614265330", sum), example, at.Add(5 * time.Minute), true},
		"older":                       {signed(id, "1614265330", sum), example, at.Add(5*time.Minute + time.Second), false},
		"from the future":             {signed(id, "1614265330", sum), example, at.Add(-5*time.Minute - time.Second), false},
		"another time":                {signed(id, "1614265331", sum), example, at, false},
		"another id":                  {signed("msg", "1614265330", sum), example, at, false},
		"another body":                {signed(id, "1614265330", sum), example + " ", at, false},
		"another version":             {signed(id, "1614265330", "v2"+sum[2:]), example, at, false},
		"no signature":                {signed(id, "1614265330", ""), example, at, false},
		"no id":                       {header("webhook-timestamp", "1614265330", "webhook-signature", sum), example, at, false},
		"the eleventh of a long list": {signed(id, "1614265330", strings.Repeat("v1,AAAA ", 10)+sum), example, at, false},
		"the token in clear":          {header("X-Gitlab-Token", token), example, at, false},
	} {
		if err := forge.Verify(hub.VendorGitLab, token, c.header, []byte(c.body), c.now); (err == nil) != c.want {
			t.Errorf("gitlab, %s: got %v, want %v", name, err, c.want)
		}
	}
	if forge.Verify(hub.VendorGitLab, secret, signed(id, "1614265330", sum), []byte(example), at) == nil {
		t.Error("a source with a secret token took a request with a signature alone")
	}

	if forge.Verify(hub.VendorGitLab, "", header(), nil, now) == nil {
		t.Error("a source without a secret took a request without a token")
	}
}

func TestCheckSecret(t *testing.T) {
	for _, c := range []struct {
		vendor hub.EventVendor
		secret string
		want   hub.Code
	}{
		{hub.VendorGitLab, secret, ""},
		{hub.VendorGitLab, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ""},
		{hub.VendorGitLab, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", hub.CodeInvalid}, // cut
		{hub.VendorGitLab, "whsec_MfKQ9r8GKYqrTwjU", hub.CodeInvalid},                // short
		{hub.VendorGitHub, "whsec_chosen by the operator", ""},
	} {
		if err := forge.CheckSecret(c.vendor, c.secret); hub.CodeOf(err) != c.want {
			t.Errorf("%s %s: got %v, want %q", c.vendor, c.secret, err, c.want)
		}
	}
}

const commit = "1481a2de7b2a7d02428ad93446ab166be7793fbb"

// The bodies have the members of the vendors' documentation that are read, and some more.
func TestParse(t *testing.T) {
	repo := `"repository":{"full_name":"acme/shop","html_url":"https://github.com/acme/shop","owner":{"login":"acme"}},"sender":{"login":"ada"}`
	project := `"project":{"path_with_namespace":"acme/shop","web_url":"https://gitlab.com/acme/shop"}`
	pull := `"pull_request":{"number":7,"title":"Parser","html_url":"https://github.com/acme/shop/pull/7","user":{"login":"ada"},"author_association":"MEMBER","merged":false,"head":{"ref":"parser","sha":"` + commit + `","repo":{"full_name":"acme/shop"}}}`
	fork := strings.Replace(pull, `"repo":{"full_name":"acme/shop"}`, `"repo":{"full_name":"mallory/shop"}`, 1)
	for name, c := range map[string]struct {
		vendor hub.EventVendor
		event  string
		body   string
		want   hub.Event
	}{
		"github push": {hub.VendorGitHub, "push", `{"ref":"refs/heads/parser","after":"` + commit + `","compare":"https://github.com/acme/shop/compare/a...b","head_commit":{"message":"parser: reads\n\nmore"},` + repo + `}`,
			hub.Event{Kind: hub.EventPush, Name: "push", State: "pushed", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "parser: reads", URL: "https://github.com/acme/shop/compare/a...b", Text: "parser: reads\n\nmore", Member: true}},
		"github tag": {hub.VendorGitHub, "push", `{"ref":"refs/tags/v1","after":"` + commit + `",` + repo + `}`,
			hub.Event{Kind: hub.EventRelease, Name: "push", State: "pushed", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "v1", URL: "https://github.com/acme/shop", Member: true}},
		"github deleted branch": {hub.VendorGitHub, "push", `{"ref":"refs/heads/parser","after":"0000000000000000000000000000000000000000","deleted":true,"head_commit":null,` + repo + `}`,
			hub.Event{Kind: hub.EventPush, Name: "push", State: "deleted", Repository: "acme/shop", Branch: "parser", Actor: "ada", URL: "https://github.com/acme/shop", Member: true}},
		"github workflow": {hub.VendorGitHub, "workflow_run", `{"action":"completed","workflow_run":{"name":"build","head_branch":"parser","head_sha":"` + commit + `","status":"completed","conclusion":"failure","html_url":"https://github.com/acme/shop/actions/runs/1","head_repository":{"full_name":"acme/shop"}},` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "workflow_run", State: "failure", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "build", URL: "https://github.com/acme/shop/actions/runs/1"}},
		"github workflow of a fork": {hub.VendorGitHub, "workflow_run", `{"action":"completed","workflow_run":{"name":"build","head_branch":"parser","head_sha":"` + commit + `","status":"completed","conclusion":"failure","head_repository":{"full_name":"mallory/shop"}},` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "workflow_run", State: "failure", Repository: "acme/shop", Branch: "mallory:parser", Commit: commit, Actor: "ada", Title: "build", URL: "https://github.com/acme/shop"}},
		"github check": {hub.VendorGitHub, "check_run", `{"action":"completed","check_run":{"name":"lint","head_sha":"` + commit + `","status":"completed","conclusion":"success","output":{"title":null,"summary":"fine"},"check_suite":{"head_branch":"parser"}},` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "check_run", State: "success", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "lint", URL: "https://github.com/acme/shop", Text: "fine"}},
		"github status": {hub.VendorGitHub, "status", `{"sha":"` + commit + `","state":"error","context":"ci/x","description":"broke","target_url":"https://ci.example.com/1","branches":[{"name":"parser"}],` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "status", State: "error", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "ci/x", URL: "https://ci.example.com/1", Text: "broke"}},
		"github comment of a member": {hub.VendorGitHub, "issue_comment", `{"action":"created","issue":{"number":7,"title":"Parser"},"comment":{"body":"rename it","html_url":"https://github.com/acme/shop/issues/7#c1","user":{"login":"grace"},"author_association":"COLLABORATOR"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "grace", Title: "Parser", URL: "https://github.com/acme/shop/issues/7#c1", Text: "rename it", Member: true}},
		"github comment of a contributor": {hub.VendorGitHub, "issue_comment", `{"action":"created","issue":{"title":"Parser"},"comment":{"body":"run rm -rf /","user":{"login":"mallory"},"author_association":"CONTRIBUTOR"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "mallory", Title: "Parser", URL: "https://github.com/acme/shop", Text: "run rm -rf /"}},
		"github review": {hub.VendorGitHub, "pull_request_review", `{"action":"submitted","review":{"body":"no","state":"changes_requested","html_url":"https://github.com/acme/shop/pull/7#r1","user":{"login":"grace"},"author_association":"OWNER"},` + pull + `,` + repo + `}`,
			hub.Event{Kind: hub.EventReview, Name: "pull_request_review", State: "changes_requested", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "grace", Title: "Parser", URL: "https://github.com/acme/shop/pull/7#r1", Text: "no", Member: true}},
		"github change of a fork": {hub.VendorGitHub, "pull_request", `{"action":"opened",` + fork + `,` + repo + `}`,
			hub.Event{Kind: hub.EventChange, Name: "pull_request", State: "opened", Repository: "acme/shop", Branch: "mallory:parser", Commit: commit, Actor: "ada", Title: "Parser", URL: "https://github.com/acme/shop/pull/7", Member: true}},
		"github change of a fork that is gone": {hub.VendorGitHub, "pull_request", `{"action":"closed",` + strings.Replace(pull, `"repo":{"full_name":"acme/shop"}`, `"label":"mallory:parser","repo":null`, 1) + `,` + repo + `}`,
			hub.Event{Kind: hub.EventChange, Name: "pull_request", State: "closed", Repository: "acme/shop", Branch: "mallory:parser", Commit: commit, Actor: "ada", Title: "Parser", URL: "https://github.com/acme/shop/pull/7", Member: true}},
		"github change of a branch that nobody is named for": {hub.VendorGitHub, "pull_request", `{"action":"closed",` + strings.Replace(pull, `,"repo":{"full_name":"acme/shop"}`, ``, 1) + `,` + repo + `}`,
			hub.Event{Kind: hub.EventChange, Name: "pull_request", State: "closed", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "Parser", URL: "https://github.com/acme/shop/pull/7", Member: true}},
		"github job, whose branch may be one of a fork": {hub.VendorGitHub, "workflow_job", `{"action":"completed","workflow_job":{"name":"test","head_branch":"parser","head_sha":"` + commit + `","status":"completed","conclusion":"failure"},` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "workflow_job", State: "failure", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "test", URL: "https://github.com/acme/shop"}},
		"github comment below a description that names a task": {hub.VendorGitHub, "issue_comment", `{"action":"created","issue":{"title":"Parser","body":"Reads.\r\n\r\nParley-Task: shop-1\r\n","author_association":"MEMBER"},"comment":{"body":"rename it","user":{"login":"grace"},"author_association":"MEMBER"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "grace", Title: "Parser", URL: "https://github.com/acme/shop", Text: "rename it", Task: "shop-1", Member: true}},
		"github comment that names another task than the description": {hub.VendorGitHub, "issue_comment", `{"action":"created","issue":{"title":"Parser","body":"Parley-Task: shop-1","author_association":"MEMBER"},"comment":{"body":"parley-task: shop-2","user":{"login":"grace"},"author_association":"MEMBER"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "grace", Title: "Parser", URL: "https://github.com/acme/shop", Text: "parley-task: shop-2", Task: "shop-2", Member: true}},
		"github comment below a description by a stranger": {hub.VendorGitHub, "issue_comment", `{"action":"created","issue":{"title":"Parser","body":"Parley-Task: shop-1","author_association":"NONE"},"comment":{"body":"no","user":{"login":"grace"},"author_association":"MEMBER"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "grace", Title: "Parser", URL: "https://github.com/acme/shop", Text: "no", Member: true}},
		"github comment of a deleted account": {hub.VendorGitHub, "issue_comment", `{"action":"edited","issue":{"title":"Parser"},"comment":{"body":"run it","user":null,"author_association":"NONE"},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "edited", Repository: "acme/shop", Title: "Parser", URL: "https://github.com/acme/shop", Text: "run it"}},
		"github release": {hub.VendorGitHub, "release", `{"action":"published","release":{"name":"One","tag_name":"v1","body":"notes","author":{"login":"ada"}},` + repo + `}`,
			hub.Event{Kind: hub.EventRelease, Name: "release", State: "published", Repository: "acme/shop", Actor: "ada", Title: "One", URL: "https://github.com/acme/shop", Text: "notes", Member: true}},
		"github check that is to run again": {hub.VendorGitHub, "check_run", `{"action":"rerequested","check_run":{"name":"lint","head_sha":"` + commit + `","status":"completed","conclusion":"failure"},` + repo + `}`,
			hub.Event{Kind: hub.EventCI, Name: "check_run", State: "rerequested", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "lint", URL: "https://github.com/acme/shop"}},
		"github issue": {hub.VendorGitHub, "issues", `{"action":"opened","issue":{"title":"It breaks","body":"always","html_url":"https://github.com/acme/shop/issues/8","user":{"login":"eve"},"author_association":"NONE"},` + repo + `}`,
			hub.Event{Kind: hub.EventIssue, Name: "issues", State: "opened", Repository: "acme/shop", Actor: "eve", Title: "It breaks", URL: "https://github.com/acme/shop/issues/8", Text: "always"}},
		"github ping": {hub.VendorGitHub, "ping", `{"zen":"x",` + repo + `}`,
			hub.Event{Kind: hub.EventPing, Name: "ping", Repository: "acme/shop", Actor: "ada", URL: "https://github.com/acme/shop"}},
		"github star": {hub.VendorGitHub, "star", `{"action":"created",` + repo + `}`,
			hub.Event{Kind: hub.EventOther, Name: "star", State: "created", Repository: "acme/shop", Actor: "ada", URL: "https://github.com/acme/shop"}},
		"gitlab push": {hub.VendorGitLab, "Push Hook", `{"object_kind":"push","ref":"refs/heads/parser","after":"` + commit + `","user_username":"ada","commits":[{"id":"x","message":"parser: reads","url":"https://gitlab.com/acme/shop/-/commit/1"}],` + project + `}`,
			hub.Event{Kind: hub.EventPush, Name: "push", State: "pushed", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "parser: reads", URL: "https://gitlab.com/acme/shop/-/commit/1", Text: "parser: reads", Member: true}},
		"gitlab pipeline": {hub.VendorGitLab, "Pipeline Hook", `{"object_kind":"pipeline","object_attributes":{"id":31,"ref":"parser","tag":false,"sha":"` + commit + `","status":"failed","url":"https://gitlab.com/acme/shop/-/pipelines/31"},"user":{"username":"ada"},"commit":{"id":"` + commit + `"},` + project + `}`,
			hub.Event{Kind: hub.EventCI, Name: "pipeline", State: "failed", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "pipeline", URL: "https://gitlab.com/acme/shop/-/pipelines/31"}},
		"gitlab pipeline of a tag": {hub.VendorGitLab, "Pipeline Hook", `{"object_kind":"pipeline","object_attributes":{"ref":"parser","tag":true,"sha":"` + commit + `","status":"failed"},"user":{"username":"ada"},` + project + `}`,
			hub.Event{Kind: hub.EventCI, Name: "pipeline", State: "failed", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "pipeline", URL: "https://gitlab.com/acme/shop"}},
		"gitlab pipeline of a fork": {hub.VendorGitLab, "Pipeline Hook", `{"object_kind":"pipeline","object_attributes":{"ref":"parser","tag":false,"sha":"` + commit + `","status":"failed"},"merge_request":{"source_branch":"parser","source_project_id":9,"target_project_id":5},"user":{"username":"ada"},` + project + `}`,
			hub.Event{Kind: hub.EventCI, Name: "pipeline", State: "failed", Repository: "acme/shop", Branch: "fork:parser", Commit: commit, Actor: "ada", Title: "pipeline", URL: "https://gitlab.com/acme/shop"}},
		"gitlab job, whose commit has a number and whose tag is a truth value": {hub.VendorGitLab, "Job Hook", `{"object_kind":"build","ref":"parser","tag":false,"sha":"` + commit + `","build_name":"test","build_status":"failed","build_failure_reason":"script_failure","commit":{"id":2366,"sha":"x"},"user":{"username":"ada"},` + project + `}`,
			hub.Event{Kind: hub.EventCI, Name: "build", State: "failed", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "test", URL: "https://gitlab.com/acme/shop", Text: "script_failure"}},
		"gitlab note": {hub.VendorGitLab, "Note Hook", `{"object_kind":"note","user":{"username":"grace"},"object_attributes":{"note":"rename it","url":"https://gitlab.com/acme/shop/-/merge_requests/1#n1"},"merge_request":{"title":"Parser","source_branch":"parser","source_project_id":5,"target_project_id":5,"last_commit":{"id":"` + commit + `"}},` + project + `}`,
			hub.Event{Kind: hub.EventComment, Name: "note", State: "created", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "grace", Title: "Parser", URL: "https://gitlab.com/acme/shop/-/merge_requests/1#n1", Text: "rename it"}},
		"gitlab merge request of a fork": {hub.VendorGitLab, "Merge Request Hook", `{"object_kind":"merge_request","user":{"username":"mallory"},"object_attributes":{"title":"Parser","description":"d","action":"open","url":"https://gitlab.com/acme/shop/-/merge_requests/1","source_branch":"parser","source_project_id":9,"target_project_id":5,"source":{"path_with_namespace":"mallory/shop"},"last_commit":{"id":"` + commit + `"}},` + project + `}`,
			hub.Event{Kind: hub.EventChange, Name: "merge_request", State: "open", Repository: "acme/shop", Branch: "mallory/shop:parser", Commit: commit, Actor: "mallory", Title: "Parser", URL: "https://gitlab.com/acme/shop/-/merge_requests/1", Text: "d"}},
		"gitlab job of a tag": {hub.VendorGitLab, "Job Hook", `{"object_kind":"build","ref":"parser","tag":true,"sha":"` + commit + `","build_name":"test","build_status":"failed","user":{"username":"ada"},` + project + `}`,
			hub.Event{Kind: hub.EventCI, Name: "build", State: "failed", Repository: "acme/shop", Commit: commit, Actor: "ada", Title: "test", URL: "https://gitlab.com/acme/shop"}},
		"gitlab release": {hub.VendorGitLab, "Release Hook", `{"object_kind":"release","tag":"v1","description":"notes","url":"https://gitlab.com/acme/shop/-/releases/v1","action":"create",` + project + `}`,
			hub.Event{Kind: hub.EventRelease, Name: "release", State: "create", Repository: "acme/shop", Title: "v1", URL: "https://gitlab.com/acme/shop/-/releases/v1", Text: "notes", Member: true}},
		"gitlab issue by its author": {hub.VendorGitLab, "Issue Hook", `{"object_kind":"issue","user":{"id":7,"username":"mallory"},"object_attributes":{"author_id":7,"title":"t","description":"d","action":"open"},` + project + `}`,
			hub.Event{Kind: hub.EventIssue, Name: "issue", State: "open", Repository: "acme/shop", Actor: "mallory", Title: "t", URL: "https://gitlab.com/acme/shop", Text: "d"}},
		"gitlab issue of a stranger that a member labels": {hub.VendorGitLab, "Issue Hook", `{"object_kind":"issue","user":{"id":1,"username":"acme"},"object_attributes":{"author_id":7,"title":"obey","description":"Parley-Task: shop-1","action":"update"},` + project + `}`,
			hub.Event{Kind: hub.EventIssue, Name: "issue", State: "update", Repository: "acme/shop", Actor: "acme", URL: "https://gitlab.com/acme/shop", Member: true}},
		"gitlab merge request of a stranger that a member closes": {hub.VendorGitLab, "Merge Request Hook", `{"object_kind":"merge_request","user":{"id":1,"username":"acme"},"object_attributes":{"author_id":7,"title":"obey","description":"d","action":"close","source_branch":"parser","source_project_id":5,"target_project_id":5,"last_commit":{"id":"` + commit + `"}},` + project + `}`,
			hub.Event{Kind: hub.EventChange, Name: "merge_request", State: "close", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "acme", URL: "https://gitlab.com/acme/shop", Member: true}},
		"gitlab note of a stranger that a member edits": {hub.VendorGitLab, "Note Hook", `{"object_kind":"note","user":{"id":1,"username":"acme"},"object_attributes":{"author_id":7,"note":"obey","action":"update"},` + project + `}`,
			hub.Event{Kind: hub.EventComment, Name: "note", State: "update", Repository: "acme/shop", Actor: "acme", URL: "https://gitlab.com/acme/shop", Member: true}},
		"gitlab of the owner": {hub.VendorGitLab, "Issue Hook", `{"object_kind":"issue","user":{"username":"acme"},"object_attributes":{"title":"t","action":"open"},` + project + `}`,
			hub.Event{Kind: hub.EventIssue, Name: "issue", State: "open", Repository: "acme/shop", Actor: "acme", Title: "t", URL: "https://gitlab.com/acme/shop", Member: true}},
		"gitea push": {hub.VendorGitea, "push", `{"ref":"refs/heads/parser","after":"` + commit + `","compare_url":"https://git.example.com/c","head_commit":{"message":"parser: reads"},` + repo + `}`,
			hub.Event{Kind: hub.EventPush, Name: "push", State: "pushed", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "parser: reads", URL: "https://git.example.com/c", Text: "parser: reads", Member: true}},
		"gitea approval": {hub.VendorGitea, "pull_request_approved", `{"action":"reviewed","review":{"type":"pull_request_review_approved","content":"good"},` + pull + `,` + repo + `}`,
			hub.Event{Kind: hub.EventReview, Name: "pull_request_approved", State: "approved", Repository: "acme/shop", Branch: "parser", Commit: commit, Actor: "ada", Title: "Parser", URL: "https://github.com/acme/shop/pull/7", Text: "good"}},
		"gitea comment": {hub.VendorGitea, "issue_comment", `{"action":"created","issue":{"title":"It breaks"},"comment":{"body":"always","html_url":"https://git.example.com/1","user":{"login":"eve"}},` + repo + `}`,
			hub.Event{Kind: hub.EventComment, Name: "issue_comment", State: "created", Repository: "acme/shop", Actor: "eve", Title: "It breaks", URL: "https://git.example.com/1", Text: "always"}},
		"generic": {hub.VendorGeneric, "", `{"kind":"ci","state":"failure","repository":"acme/shop","branch":"refs/heads/parser","commit":"` + commit + `","title":"nightly","url":"https://ci.example.com/1","text":"3 tests fail"}`,
			hub.Event{Kind: hub.EventCI, State: "failure", Repository: "acme/shop", Branch: "parser", Commit: commit, Title: "nightly", URL: "https://ci.example.com/1", Text: "3 tests fail", Member: true}},
		"generic of an actor, of another kind": {hub.VendorGeneric, "", `{"kind":"alarm","actor":"eve","url":"javascript:alert(1)","commit":"HEAD"}`,
			hub.Event{Kind: hub.EventOther, Name: "alarm", Actor: "eve"}},
	} {
		h := forge.Hook{Vendor: c.vendor, Body: []byte(c.body), Header: header("X-GitHub-Event", c.event, "X-Gitlab-Event", c.event, "X-Gitea-Event", c.event)}
		got, err := forge.Parse(h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.Deliveries) == 0 {
			t.Errorf("%s: no id", name)
		}
		got.Deliveries = nil
		if !sameEvent(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

// GitHub proposes a form for the body of a new webhook, and signs the form.
func TestParseForm(t *testing.T) {
	body := "payload=" + url.QueryEscape(`{"action":"created","repository":{"full_name":"acme/shop"},"sender":{"login":"ada"}}`)
	h := header("X-GitHub-Event", "star", "Content-Type", "application/x-www-form-urlencoded; charset=utf-8", "X-Hub-Signature-256", "sha256="+mac(body))
	if err := forge.Verify(hub.VendorGitHub, secret, h, []byte(body), time.Now()); err != nil {
		t.Error(err)
	}
	got, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitHub, Header: h, Body: []byte(body)})
	if want := (hub.Event{Kind: hub.EventOther, Name: "star", State: "created", Repository: "acme/shop", Actor: "ada"}); err != nil || !sameEvent(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, body := range []string{"payload=", "other=1", "payload=%zz", `{"action":"created"}`} {
		if _, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitHub, Header: h, Body: []byte(body)}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

// sameEvent compares events without their ids.
func sameEvent(a, b hub.Event) bool {
	isSame := a.Kind == b.Kind && a.Name == b.Name && a.State == b.State && a.Repository == b.Repository && a.Branch == b.Branch && a.Commit == b.Commit
	return isSame && a.Actor == b.Actor && a.Title == b.Title && a.URL == b.URL && a.Text == b.Text && a.Member == b.Member && a.Task == b.Task
}

func TestParseFields(t *testing.T) {
	body := `{"build":{"result":"failure","git":[{"ref":"refs/heads/parser"}],"number":12},"kind":"ignored"}`
	got, err := forge.Parse(forge.Hook{Vendor: hub.VendorGeneric, Body: []byte(body), Header: header(forge.DeliveryHeader, "d1"), Fields: map[string]string{
		"kind": "/nothing", "state": "/build/result", "branch": "/build/git/0/ref", "title": "/build/number", "text": "/build/git/7/ref",
	}})
	want := hub.Event{Kind: hub.EventOther, State: "failure", Branch: "parser", Title: "12", Member: true}
	if err != nil || !sameEvent(got, want) || got.Deliveries[0] != "id:d1" {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseBounds(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	got, err := forge.Parse(forge.Hook{Vendor: hub.VendorGeneric, Header: header(), Body: []byte(`{"kind":"issue","title":"a\nb` + long + `","text":"` + long + `","branch":"` + long + `","url":"https://x.example.com/` + long + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Text) > hub.MaxEventText || len(got.Title) > 300 || len(got.Branch) > 250 || got.URL != "" || strings.Contains(got.Title, "\n") {
		t.Errorf("got %d bytes of text, %d of title, %d of branch, url %q", len(got.Text), len(got.Title), len(got.Branch), got.URL)
	}
	hidden, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitHub, Header: header("X-GitHub-Event", "st\xffar"), Body: []byte(`{"action":"a\u0001\u001b[2Jb","repository":{"full_name":"acme/shop","html_url":"https://x.example.com/\u0007"}}`)})
	if err != nil || hidden.Name != "st ar" || hidden.State != "a [2Jb" || hidden.URL != "" {
		t.Errorf("control characters: got %+v, %v", hidden, err)
	}
	late, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitHub, Header: header("X-GitHub-Event", "push"), Body: []byte(`{"ref":"refs/heads/main","head_commit":{"message":"x\n\n` + long + `\n\nParley-Task: shop-1\n"}}`)})
	if err != nil || late.Task != "shop-1" {
		t.Errorf("a task behind the text that is kept: got %q, %v", late.Task, err)
	}
	for name, body := range map[string]string{"no JSON": `hello`, "a list": `[]`, "nothing": ``, "half": `{"kind":`} {
		for _, vendor := range hub.EventVendors {
			if _, err := forge.Parse(forge.Hook{Vendor: vendor, Header: header(), Body: []byte(body)}); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%s for %s: got %v", name, vendor, err)
			}
		}
	}
}

// A request that somebody recorded is known, whatever its unsigned headers say.
func TestDeliveries(t *testing.T) {
	parse := func(id string) []string {
		e, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitHub, Body: []byte(`{"action":"x"}`), Header: header("X-GitHub-Event", "star", "X-GitHub-Delivery", id)})
		if err != nil {
			t.Fatal(err)
		}
		return e.Deliveries
	}
	first, second := parse("a"), parse("b")
	if len(first) != 2 || first[0] == second[0] || first[1] != second[1] {
		t.Errorf("got %v and %v", first, second)
	}

	// GitLab has one key for all tries; two pushes of the same commits have the same body.
	for name, c := range map[string]struct {
		header http.Header
		want   string
	}{"a key": {header("Idempotency-Key", "k", "X-Gitlab-Webhook-UUID", "u"), "id:k"}, "a signed id": {header("Idempotency-Key", "changed", "Webhook-Id", "k"), "id:k"}, "no key": {header("X-Gitlab-Webhook-UUID", "u"), "body:"}} {
		e, err := forge.Parse(forge.Hook{Vendor: hub.VendorGitLab, Body: []byte(`{"object_kind":"push"}`), Header: c.header})
		if err != nil || len(e.Deliveries) != 1 || !strings.HasPrefix(e.Deliveries[0], c.want) {
			t.Errorf("gitlab with %s: got %v, %v", name, e.Deliveries, err)
		}
	}
}

// A vendor that allows no more questions is not asked before the time that it names.
func TestPollLimits(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		want   hub.Code
		wait   time.Duration // at least
	}{
		"questions are spent": {403, header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)), hub.CodeRateLimited, 59 * time.Minute},
		"too many":            {429, header("Retry-After", "120"), hub.CodeRateLimited, 2 * time.Minute},
		"a wrong token":       {403, header("X-RateLimit-Remaining", "12"), hub.CodeDenied, 0},
		"a redirect":          {302, header("Location", "https://elsewhere.example.com"), hub.CodeUnreachable, 0},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), c.header)
			w.WriteHeader(c.status)
		}))
		var client forge.Client
		got, err := client.Poll(t.Context(), forge.Question{Vendor: hub.VendorGitHub, API: s.URL, Repository: "acme/shop", Token: "t"}, forge.Position{})
		if hub.CodeOf(err) != c.want || got.Wait < c.wait {
			t.Errorf("%s: got %v and a wait of %s, want %s and at least %s", name, err, got.Wait, c.want, c.wait)
		}
		s.Close()
	}
}

// TestEveryVendorHasItsRow holds that a vendor of the hub's list is in the table, and no other.
func TestEveryVendorHasItsRow(t *testing.T) {
	for _, name := range hub.EventVendors {
		if forge.Verify(name, "secret", http.Header{}, nil, time.Now()) == nil {
			t.Errorf("%s takes a request without a signature", name)
		}
		if _, err := forge.Parse(forge.Hook{Vendor: name, Header: http.Header{}, Body: []byte("{}")}); err != nil && strings.Contains(err.Error(), "unknown vendor") {
			t.Errorf("%s is not in the table of vendors", name)
		}
	}
	if _, err := forge.Parse(forge.Hook{Vendor: "nobody", Body: []byte("{}")}); err == nil {
		t.Error("a vendor that is not in the list has an event")
	}
}
