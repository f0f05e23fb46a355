// Package forge reads the events of code hosts: GitHub, GitLab, Gitea with Forgejo, and programs
// that use the form of this hub.
//
// [Verify] checks the signature of a webhook in the vendor's own form, and [Parse] turns its body
// into a hub.Event. [Client] asks the API of a vendor for the events of a repository, for hubs that
// no webhook reaches. All three return the same nouns, so that nobody above knows the vendors.
//
// A right signature says that the vendor sent a request. It says nothing about the person whose
// words are in it: Parse tells whether the vendor calls the author a member of the repository.
//
// The package decides nothing and stores nothing. It is tested with bodies in the documented
// shapes of the vendors; no request of a real vendor was recorded.
package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A Hook is one request of a webhook, whose signature is right.
type Hook struct {
	Vendor hub.EventVendor
	Header http.Header
	Body   []byte
	Fields map[string]string // of a generic source: members of an event by their JSON pointers
}

// Parse returns the event of a webhook, without its source. It reports CodeInvalid for a body that
// is not in the form of the vendor. A kind of event that it does not know is hub.EventOther, with
// the members that all events of the vendor have.
func Parse(h Hook) (hub.Event, error) {
	var e hub.Event
	var err error
	switch h.Vendor {
	case hub.VendorGitHub:
		e, err = parseGitHub(h.Header, h.Body)
	case hub.VendorGitLab:
		e, err = parseGitLab(h.Header.Get("X-Gitlab-Event"), h.Body)
	case hub.VendorGitea:
		e, err = parseGitea(first(h.Header, "X-Gitea-Event", "X-Forgejo-Event"), h.Body)
	case hub.VendorGeneric:
		e, err = parseGeneric(h.Body, h.Fields)
	default:
		return hub.Event{}, hub.Errorf(hub.CodeInvalid, "forge.Parse", "unknown vendor %q", h.Vendor)
	}
	if err != nil {
		return hub.Event{}, hub.Errorf(hub.CodeInvalid, "forge.Parse", "the body is not in the form of %s: %v", h.Vendor, err)
	}
	e.Deliveries = deliveries(h)
	return bounded(e), nil
}

// deliveries returns the ids of a webhook. The header with the id of a delivery is not signed by
// GitHub and Gitea, so the hash of the signed body is an id, too: a request that somebody recorded
// cannot come again under another id. Generic requests sign their id. GitLab's id is the same for all
// tries of a delivery, and signed if the source has a signing token, in Webhook-Id; requests of
// servers that are too old for it are known by the body alone.
func deliveries(h Hook) []string {
	sum := sha256.Sum256(h.Body)
	body := "body:" + hex.EncodeToString(sum[:])
	id := ""
	switch h.Vendor {
	case hub.VendorGitHub:
		id = h.Header.Get("X-GitHub-Delivery")
	case hub.VendorGitea:
		id = first(h.Header, "X-Gitea-Delivery", "X-Forgejo-Delivery")
	case hub.VendorGitLab:
		if key := first(h.Header, standardID, "Idempotency-Key"); key != "" {
			return []string{"id:" + shorten.Bytes(key, maxDelivery)}
		}
	case hub.VendorGeneric:
		return []string{"id:" + shorten.Bytes(h.Header.Get(DeliveryHeader), maxDelivery)}
	}
	if id == "" {
		return []string{body}
	}
	return []string{"id:" + shorten.Bytes(id, maxDelivery), body}
}

// first returns the first header that is set.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// Bounds of the members of an event, in bytes. With them an event fits into a message.
const (
	maxDelivery = 200
	maxName     = 100
	maxPath     = 250 // of a repository or a branch
	maxTitle    = 300
	maxURL      = 500
)

// commitPattern is the whole name of a commit.
var commitPattern = pattern.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// webPattern is an address that a person can open: printable ASCII without quotes and angles.
var webPattern = pattern.New(`^https?://[!#-;=?-~]+$`)

// bounded returns an event whose members are as long as they may be, with the task that its text
// names. A commit or an address of another form is left out.
func bounded(e hub.Event) hub.Event {
	if e.Task == "" {
		e.Task = taskIn(e.Text)
	}
	for _, p := range []*string{&e.Name, &e.State, &e.Actor, &e.Task} {
		*p = shorten.Bytes(oneLine(*p), maxName)
	}
	for _, p := range []*string{&e.Repository, &e.Branch} {
		*p = shorten.Bytes(oneLine(*p), maxPath)
	}
	e.Title = shorten.Bytes(oneLine(e.Title), maxTitle)
	e.Text = shorten.Bytes(strings.TrimSpace(e.Text), hub.MaxEventText)
	e.Commit = strings.ToLower(e.Commit)
	isCommit := commitPattern().MatchString(e.Commit) && strings.Trim(e.Commit, "0") != ""
	if !isCommit {
		e.Commit = ""
	}
	if len(e.URL) > maxURL || !webPattern().MatchString(e.URL) {
		e.URL = ""
	}
	return e
}

// taskLine finds the task in a commit message, a comment or a description.
var taskLine = pattern.New(`(?mi)^parley-task:[ \t]*([a-z0-9._-]{1,100})[ \t\r]*$`)

// taskIn returns the task of this hub that a text names in a line Parley-Task; "" if there is none.
func taskIn(text string) string {
	m := taskLine().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// oneLine returns a text without line ends, other control characters and repeated spaces.
func oneLine(text string) string {
	isGap := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError }
	return strings.Join(strings.FieldsFunc(text, isGap), " ")
}

// branchOf returns the branch of a ref such as refs/heads/main.
func branchOf(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// isTag reports whether a ref is a tag.
func isTag(ref string) bool { return strings.HasPrefix(ref, "refs/tags/") }

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// decode reads a body. A member of another type than in the struct is left out: vendors use some
// names for different things in different events.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return nil // the rest was read
	}
	return err
}
