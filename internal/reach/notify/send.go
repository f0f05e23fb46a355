package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/ground/text/tail"
)

// A notice is one message to a person.
type notice struct {
	ID    string   `json:"id"`
	At    hub.Time `json:"at,omitzero"`
	Waits []Wait   `json:"waits"`
	Ended []Wait   `json:"ended"`
	// Events need no answer.
	Events []Wait `json:"events,omitempty"`
	Test   bool   `json:"test,omitempty"`
}

func same(w Wait) func(Wait) bool { return func(o Wait) bool { return o.key() == w.key() } }

func (n *notice) has(w Wait) bool { return slices.ContainsFunc(n.Waits, same(w)) }

// size returns the number of things in the notice.
func (n *notice) size() int { return len(n.Waits) + len(n.Ended) + len(n.Events) }

// add adds an entry. A thing that ended in the same notice did not wait for its reader.
func (n *notice) add(action actions.Action, w Wait) {
	switch action {
	case actions.WaitBegan:
		n.Waits = append(n.Waits, w)
	case actions.PeopleEvent:
		n.Events = append(n.Events, w)
	default:
		n.Waits = slices.DeleteFunc(n.Waits, same(w))
		n.Ended = append(n.Ended, w)
	}
}

// title returns the notice in a few words.
func (n notice) title() string {
	switch {
	case n.Test:
		return "Parley: this is a test"
	case len(n.Waits) == 1:
		return "Parley: one item is waiting for you"
	case len(n.Waits) > 1:
		return fmt.Sprintf("Parley: %d items are waiting for you", len(n.Waits))
	case len(n.Events) == 1:
		return "Parley: " + n.Events[0].Kind
	case len(n.Events) > 1:
		return fmt.Sprintf("Parley: %d events", len(n.Events))
	}
	return "Parley: answered"
}

// text returns the notice for people, a line for each thing.
func (n notice) text() string {
	lines := []string{n.title()}
	if n.Test {
		lines = append(lines, "Nothing is waiting for you; parley notify test sent this notice.")
	}
	for _, w := range slices.Concat(n.Waits, n.Events) {
		line := fmt.Sprintf("- %s: %s", w.Kind, plaintext.Line(w.Fact))
		if text := shorten.Characters(plaintext.Line(w.Text), maxText); text != "" {
			line += ": " + text
		}
		if w.Command != "" {
			line += " (" + plaintext.Line(w.Command) + ")"
		}
		lines = append(lines, line)
	}
	for _, w := range n.Ended {
		lines = append(lines, fmt.Sprintf("- no longer waiting: %s: %s", w.Kind, plaintext.Line(w.Fact)))
	}
	return plaintext.Text(strings.Join(lines, "\n"))
}

// A refusalError is an answer that another attempt would not change.
type refusalError struct{ error }

// usable reports why a target cannot work.
func (n *Notifier) usable(t Target) error {
	if t.URL != "" {
		return n.o.HTTP.CheckEndpoint(t.URL)
	}
	_, err := exec.LookPath(t.Command[0])
	return err
}

// send sends a notice to a target.
func (n *Notifier) send(ctx context.Context, t Target, notice notice) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if t.URL == "" {
		return run(ctx, t, notice)
	}
	address, body, err := t.document(notice)
	if err != nil {
		return err
	}
	header := http.Header{}
	if len(t.Secret) > 0 {
		sign(header, t.Secret, notice.ID, notice.At.Time, body)
	}
	status, err := n.o.HTTP.Post(ctx, address, header, body)
	switch {
	case hub.CodeOf(err) == hub.CodePolicy:
		return refusalError{err}
	case err != nil:
		return err
	case status < 200 || status > 299:
		err = fmt.Errorf("it answered with status %d", status)
		if status >= 400 && status < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, status) {
			return refusalError{err}
		}
	}
	return err
}

// sign adds the signature of a document as the Standard Webhooks specification says:
// HMAC-SHA256 over id, time and body.
func sign(header http.Header, secret []byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", stamp)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// slackText makes text of agents text for Slack, which reads <!channel> and links.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// document returns the body of a webhook and the address that it goes to.
func (t Target) document(n notice) (address string, body []byte, err error) {
	var v any
	address = t.URL
	switch t.Template {
	case TemplateSlack:
		v = map[string]any{"text": slackText.Replace(n.text()), "unfurl_links": false}

	case TemplateDiscord:
		v = map[string]any{"content": shorten.Characters(n.text(), 1900), "allowed_mentions": map[string]any{"parse": []string{}}}

	case TemplateNtfy:
		u, err := url.Parse(t.URL)
		if err != nil {
			return "", nil, refusalError{fmt.Errorf("cannot parse the url")}
		}

		// The server of ntfy takes JSON at its root, with the topic in the document.
		topic := strings.Trim(u.Path, "/")
		u.Path = "/"
		if i := strings.LastIndexByte(topic, '/'); i >= 0 {
			u.Path, topic = "/"+topic[:i+1], topic[i+1:]
		}
		address = u.String()
		title, text, _ := strings.Cut(n.text(), "\n")
		v = map[string]any{"topic": topic, "title": title, "message": shorten.Characters(text, 3900)}

	default:
		for _, list := range [...][]Wait{n.Waits, n.Events} {
			for i := range list {
				list[i].Text = shorten.Characters(list[i].Text, maxText)
			}
		}
		v = struct {
			Type string `json:"type"`
			notice
		}{"parley.waiting", n}
	}

	body, err = json.Marshal(v)
	return address, body, err
}

// run runs the command of a target. A program that does not end in time is killed.
func run(ctx context.Context, t Target, n notice) error {
	args := make([]string, len(t.Command)-1)
	for i, a := range t.Command[1:] {
		args[i] = strings.NewReplacer("{title}", n.title(), "{text}", n.text()).Replace(a)
	}
	cmd := exec.CommandContext(ctx, t.Command[0], args...)
	cmd.Stdin = strings.NewReader(n.text() + "\n")
	cmd.WaitDelay = time.Second
	end := tail.NewBuffer(200)
	cmd.Stderr = end
	if err := cmd.Run(); err != nil {
		said, _ := end.Bytes()
		return fmt.Errorf("%w: %s", err, plaintext.Line(string(said)))
	}
	return nil
}
