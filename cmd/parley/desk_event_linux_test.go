package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
)

// TestWakeByEvent has comments on a pull request wake real CLIs in their terminals: those of a
// member once together, those of a stranger and those that are signed wrongly never. The model
// reads the comments in its inbox; the notice that wakes it has no word of them.
func TestWakeByEvent(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		if c.asleep {
			continue
		}
		t.Run(c.name, func(t *testing.T) { testWakeByEvent(t, c) })
	}
}

func testWakeByEvent(t *testing.T, c realCLI) {
	d := c.open(t, quickWakes+"in_addr: 127.0.0.1:0\n")
	d.await("an armed session", d.idle)
	const secret = "0123456789abcdef0123"
	var source api.SourceAnswer
	d.ok(d.operator("events", "add", "gh", "--from", "github", "--secret-file", write(t, "secret", secret), "--to", d.agent, "--json"), &source)

	post := func(n int, key, association string, want int) {
		t.Helper()
		body := fmt.Sprintf(`{"action":"created","issue":{"title":"Parser","number":7,"pull_request":{}},"comment":{"id":%d,"body":"mulberry %[1]d: rename it","html_url":"https://github.com/acme/shop/pull/7#c%[1]d","user":{"login":"grace"},"author_association":%[2]q},"repository":{"full_name":"acme/shop"},"sender":{"login":"grace"}}`, n, association)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(body))
		req, err := http.NewRequest(http.MethodPost, source.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-GitHub-Event", "issue_comment")
		req.Header.Set("X-GitHub-Delivery", fmt.Sprintf("delivery-%d", n))
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("event %d: got status %d, want %d", n, answer.StatusCode, want)
		}
	}
	post(1, secret, "NONE", http.StatusOK)
	post(2, "another secret of 20", "OWNER", http.StatusUnauthorized)
	quiet()
	if n := len(d.wakes()); n != 0 {
		t.Errorf("a stranger and a forgery: got %d turns, want none", n)
	}

	for n := 3; n < 6; n++ {
		post(n, secret, "MEMBER", http.StatusOK)
	}
	d.await("a turn", func() bool { return len(d.wakes()) > 0 && d.idle() })
	quiet()
	if n := len(d.wakes()); n != 1 {
		t.Errorf("three comments at once: got %d turns, want 1", n)
	}
	wasRead := false
	for _, x := range d.exchanges() {
		if strings.Contains(x.Prompt, "mulberry") {
			t.Errorf("the notice has text of a comment: %s", x.Prompt)
		}
		wasRead = wasRead || strings.Contains(string(x.Body), "mulberry 5")
	}
	if !wasRead {
		t.Error("the model did not read the comments in its inbox")
	}
}
