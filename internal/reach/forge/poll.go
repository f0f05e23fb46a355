package forge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

const (
	maxAnswer = 8 << 20 // bytes of an answer of an API
	pollTime  = 30 * time.Second

	// MinPoll and MaxPoll bound the time between two questions about a repository. A list has the
	// newest events alone.
	MinPoll = 30 * time.Second
	MaxPoll = 24 * time.Hour
)

// DefaultAPI returns the address of the API of a vendor; "" if it has no address that all use.
func DefaultAPI(name hub.EventVendor) string {
	v, ok := vendors[name]
	if !ok {
		return ""
	}
	return v.api()
}

// CheckAPI refuses an address over which a token could be overheard.
func CheckAPI(address string) error {
	const op = "forge.CheckAPI"
	u, err := url.Parse(address)
	isPlain := err == nil && u.Host != "" && u.User == nil && u.RawQuery == ""
	if !isPlain {
		return hub.Errorf(hub.CodeInvalid, op, "%s is not the address of an API", shorten.Quote(address)).WithHint("use an address such as https://git.example.com/api/v1")
	}
	ip := net.ParseIP(u.Hostname())
	isLocal := u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
	isSafe := u.Scheme == "https" || (u.Scheme == "http" && isLocal)
	if !isSafe {
		return hub.Errorf(hub.CodePolicy, op, "the API must be called over https: otherwise others could read the token")
	}
	return nil
}

// A Question asks for the events of a repository.
type Question struct {
	Vendor     hub.EventVendor
	API        string
	Repository string // owner/name
	Token      string // "" for none
}

// A Position says how far the events of a repository were read. It is stored between questions.
type Position struct {
	Since hub.Time          `json:"since,omitzero"` // events before it are not returned
	ETags map[string]string `json:"etags,omitempty"`
}

// An Answer has the new events, oldest first.
type Answer struct {
	Events   []hub.Event
	Position Position
	Wait     time.Duration // that the vendor wants before the next question; 0 if it says nothing
}

// A Client asks the APIs of vendors. Its zero value works.
type Client struct {
	HTTP *http.Client // default one that follows no redirects
}

// plainClient follows no redirects: a token must not go to another host.
var plainClient = &http.Client{
	Timeout:       pollTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A feed is one list of an API.
type feed struct {
	path  string
	read  func(body []byte, q Question) ([]stamped, error)
	extra bool // the vendor may not have it: an old server, or a repository without CI
}

// A stamped is an event with its time.
type stamped struct {
	hub.Event
	at hub.Time
}

// Poll returns the events of a repository since a position. A list that did not change since the
// last question costs the vendor nothing: it is asked for with the tag of its last answer. A list
// that cannot be read does not hide the others: the answer has their events, beside the error.
func (c *Client) Poll(ctx context.Context, q Question, from Position) (Answer, error) {
	out := Answer{Position: Position{Since: from.Since, ETags: map[string]string{}}}
	var all []feed
	v, ok := vendors[q.Vendor]
	if ok {
		all = v.feeds(strings.Trim(q.Repository, "/"))
	}
	if len(all) == 0 {
		return out, hub.Errorf(hub.CodeInvalid, "forge.Poll", "the events of %s cannot be polled", q.Vendor)
	}

	var found []stamped
	var failed error
	for _, f := range all {
		tag := from.ETags[f.path]
		got, err := c.get(ctx, q, f.path, tag)
		out.Wait = max(out.Wait, got.wait)
		var some []stamped
		if err == nil && got.body != nil {
			some, err = readFeed(f, got.body, q)
		}
		if err != nil {
			out.Position.ETags[f.path] = tag
			if isAbsent := f.extra && hub.CodeOf(err) == hub.CodeNotFound; !isAbsent {
				failed = cmp.Or(failed, err)
			}
			continue
		}
		out.Position.ETags[f.path] = cmp.Or(got.etag, tag)
		found = append(found, some...)
	}

	slices.SortStableFunc(found, func(a, b stamped) int { return a.at.Compare(b.at.Time) })
	for _, e := range found {
		if e.at.Before(from.Since.Time) {
			continue
		}
		e.Repository = cmp.Or(e.Repository, q.Repository)
		out.Events = append(out.Events, bounded(e.Event))
	}
	return out, failed
}

// readFeed returns the events of a list.
func readFeed(f feed, body []byte, q Question) ([]stamped, error) {
	some, err := f.read(body, q)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "forge.Poll", "the answer of %s is not in the form of %s: %v", q.API, q.Vendor, err)
	}
	return some, nil
}

// A page is an answer of an API. body is nil if nothing changed.
type page struct {
	body []byte
	etag string
	wait time.Duration
}

// get asks for a list.
func (c *Client) get(ctx context.Context, q Question, path, etag string) (page, error) {
	const op = "forge.Poll"
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(q.API, "/")+path, nil)
	if err != nil {
		return page{}, hub.Errorf(hub.CodeInvalid, op, "%v", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "parley")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	if q.Token != "" {
		vendors[q.Vendor].authorize(req.Header, q.Token)
	}

	answer, err := cmp.Or(c.HTTP, plainClient).Do(req)
	if err != nil {
		return page{}, hub.Errorf(hub.CodeUnreachable, op, "%s does not answer: %v", q.API, err)
	}
	defer answer.Body.Close()
	out := page{etag: answer.Header.Get("ETag"), wait: waitOf(answer.Header, time.Now())}
	switch {
	case answer.StatusCode == http.StatusNotModified:
		return out, nil
	case answer.StatusCode == http.StatusForbidden && isSpent(answer.Header):
		return out, refusal(op, q, http.StatusTooManyRequests)
	case answer.StatusCode != http.StatusOK:
		return out, refusal(op, q, answer.StatusCode)
	}
	out.body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(out.body) > maxAnswer {
		err = fmt.Errorf("it has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return out, hub.Errorf(hub.CodeUnreachable, op, "the answer of %s cannot be read: %v", q.API, err)
	}
	return out, nil
}

// refusal is the error for a status of an API.
func refusal(op string, q Question, status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return hub.Errorf(hub.CodeDenied, op, "%s does not let the token read %s (status %d)", q.API, q.Repository, status)
	case http.StatusNotFound:
		return hub.Errorf(hub.CodeNotFound, op, "%s has no repository %s that the token can read", q.API, q.Repository)
	case http.StatusTooManyRequests:
		return hub.Errorf(hub.CodeRateLimited, op, "%s allows no more questions for now", q.API)
	}
	return hub.Errorf(hub.CodeUnreachable, op, "%s answered with status %d", q.API, status)
}

// isSpent reports whether an answer of GitHub says that no more questions are allowed for now.
func isSpent(h http.Header) bool { return h.Get("X-RateLimit-Remaining") == "0" }

// waitOf returns the time that the headers of an answer ask for.
func waitOf(h http.Header, now time.Time) (wait time.Duration) {
	for _, name := range []string{"X-Poll-Interval", "Retry-After"} {
		n, err := strconv.Atoi(h.Get(name))
		if err == nil && n > 0 && n <= 24*3600 {
			wait = max(wait, time.Duration(n)*time.Second)
		}
	}
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && isSpent(h) {
		wait = max(wait, min(time.Unix(reset, 0).Sub(now), 24*time.Hour))
	}
	return wait
}

// stampOf reads a time of an API; the zero time if it has another form.
func stampOf(text string) hub.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return hub.Time{}
	}
	return hub.At(at)
}

// githubNames are the names of webhooks for the types of GitHub's list of events.
var githubNames = map[string]string{
	"PushEvent": "push", "PullRequestEvent": "pull_request", "PullRequestReviewEvent": "pull_request_review", "PullRequestReviewCommentEvent": "pull_request_review_comment",
	"IssuesEvent": "issues", "IssueCommentEvent": "issue_comment", "CommitCommentEvent": "commit_comment", "ReleaseEvent": "release",
}

// githubFeed reads the list of events of a repository of GitHub.
func githubFeed(body []byte, q Question) (out []stamped, err error) {
	var list []struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Actor     account         `json:"actor"`
		Payload   json.RawMessage `json:"payload"`
		CreatedAt string          `json:"created_at"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for _, one := range list {
		var b githubBody
		var pushed struct {
			Head string `json:"head"`
		}
		if decode(one.Payload, &b) != nil || decode(one.Payload, &pushed) != nil {
			continue // one event in an unknown form does not hide the others
		}
		b.Repository.FullName = q.Repository
		b.Sender = one.Actor
		b.After = pushed.Head
		e := githubEvent(cmp.Or(githubNames[one.Type], one.Type), b)
		if n := len(b.Commits); n > 0 && e.Kind == hub.EventPush {
			e.Title = firstLine(b.Commits[n-1].Message)
			e.Text = b.Commits[n-1].Message
		}
		e.Deliveries = []string{"poll:event:" + one.ID}
		out = append(out, stamped{e, stampOf(one.CreatedAt)})
	}
	return out, nil
}

// runsFeed reads a list of runs of workflows of GitHub or Gitea.
func runsFeed(body []byte, q Question) (out []stamped, err error) {
	var list struct {
		Runs []struct {
			result
			ID        int64  `json:"id"`
			Attempt   int64  `json:"run_attempt"`
			URL       string `json:"url"`
			UpdatedAt string `json:"updated_at"`
		} `json:"workflow_runs"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for _, run := range list.Runs {
		b := githubBody{Repository: repository{FullName: q.Repository}, Workflow: &run.result}
		e := githubEvent("workflow_run", b)
		e.URL = cmp.Or(run.HTMLURL, run.URL)
		e.Deliveries = []string{fmt.Sprintf("poll:run:%d:%d:%s", run.ID, run.Attempt, e.State)}
		out = append(out, stamped{e, stampOf(run.UpdatedAt)})
	}
	return out, nil
}

// gitlabFeed reads the list of events of a project of GitLab.
func gitlabFeed(body []byte, q Question) (out []stamped, err error) {
	var list []struct {
		ID         int64  `json:"id"`
		Action     string `json:"action_name"`
		TargetType string `json:"target_type"`
		Title      string `json:"target_title"`
		Author     string `json:"author_username"`
		CreatedAt  string `json:"created_at"`
		Note       *struct {
			Body string `json:"body"`
		} `json:"note"`
		Push *struct {
			Ref      string `json:"ref"`
			RefType  string `json:"ref_type"`
			CommitTo string `json:"commit_to"`
			Title    string `json:"commit_title"`
		} `json:"push_data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	kinds := map[string]hub.EventKind{"MergeRequest": hub.EventChange, "Issue": hub.EventIssue, "WorkItem": hub.EventIssue}
	for _, one := range list {
		e := hub.Event{
			Kind: cmp.Or(kinds[one.TargetType], hub.EventOther), Name: oneLine(one.Action + " " + one.TargetType), State: one.Action, Repository: q.Repository, Actor: one.Author, Title: one.Title,
			Member: ownsPath(one.Author, q.Repository), Deliveries: []string{"poll:event:" + strconv.FormatInt(one.ID, 10)},
		}
		switch {
		case one.Push != nil:
			e.Kind = hub.EventPush
			e.Member = true
			e.Commit = one.Push.CommitTo
			e.Title = one.Push.Title
			if one.Push.RefType == "branch" {
				e.Branch = one.Push.Ref
			}
		case one.Note != nil:
			e.Kind = hub.EventComment
			e.Text = one.Note.Body
		case one.Action == "approved":
			e.Kind = hub.EventReview
		}
		out = append(out, stamped{e, stampOf(one.CreatedAt)})
	}
	return out, nil
}

// pipelineFeed reads the list of pipelines of a project of GitLab.
func pipelineFeed(body []byte, q Question) (out []stamped, err error) {
	var list []struct {
		ID        int64  `json:"id"`
		Status    string `json:"status"`
		Ref       string `json:"ref"`
		SHA       string `json:"sha"`
		WebURL    string `json:"web_url"`
		UpdatedAt string `json:"updated_at"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for _, p := range list {
		e := hub.Event{
			Kind: hub.EventCI, Name: "pipeline", State: p.Status, Repository: q.Repository, Branch: branchOf(p.Ref), Commit: p.SHA, Title: "pipeline", URL: p.WebURL,
			// A pipeline that is retried keeps its id.
			Deliveries: []string{fmt.Sprintf("poll:pipeline:%d:%s:%s", p.ID, p.Status, p.UpdatedAt)},
		}
		out = append(out, stamped{e, stampOf(p.UpdatedAt)})
	}
	return out, nil
}

// giteaKinds are the kinds of the operations in Gitea's list of activities.
var giteaKinds = map[string]hub.EventKind{
	"commit_repo": hub.EventPush, "push_tag": hub.EventRelease, "publish_release": hub.EventRelease, "create_issue": hub.EventIssue, "close_issue": hub.EventIssue, "reopen_issue": hub.EventIssue,
	"comment_issue": hub.EventComment, "comment_pull": hub.EventComment, "create_pull_request": hub.EventChange, "merge_pull_request": hub.EventChange, "close_pull_request": hub.EventChange,
	"reopen_pull_request": hub.EventChange, "approve_pull_request": hub.EventReview, "reject_pull_request": hub.EventReview,
}

// giteaFeed reads the list of activities of a repository of Gitea. Its content has parts that are
// separated by bars: a number and words.
func giteaFeed(body []byte, q Question) (out []stamped, err error) {
	var list []struct {
		ID      int64   `json:"id"`
		Op      string  `json:"op_type"`
		Actor   account `json:"act_user"`
		Ref     string  `json:"ref_name"`
		Content string  `json:"content"`
		Created string  `json:"created"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	for _, one := range list {
		e := hub.Event{
			Kind: cmp.Or(giteaKinds[one.Op], hub.EventOther), Name: one.Op, Repository: q.Repository, Actor: one.Actor.Login,
			Deliveries: []string{"poll:event:" + strconv.FormatInt(one.ID, 10)},
		}
		switch e.Kind {
		case hub.EventPush:
			e.Branch = branchOf(one.Ref)
			var pushed struct {
				Head struct {
					SHA     string `json:"Sha1"`
					Message string `json:"Message"`
				} `json:"HeadCommit"`
			}
			if json.Unmarshal([]byte(one.Content), &pushed) == nil {
				e.Commit = pushed.Head.SHA
				e.Title = firstLine(pushed.Head.Message)
			}
		default:
			number, words, _ := strings.Cut(one.Content, "|")
			e.Title = "#" + number
			e.Text = words
		}
		mayWrite := e.Kind == hub.EventPush || e.Kind == hub.EventRelease
		e.Member = mayWrite || ownsPath(e.Actor, e.Repository)
		out = append(out, stamped{e, stampOf(one.Created)})
	}
	return out, nil
}
