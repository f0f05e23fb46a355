package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

// chromium returns the browser. Without one a test is skipped, and with CI=true it fails.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("chromium is not installed: scripts/chromium installs it")
	}
	t.Skip("chromium is not installed: scripts/chromium installs it")
	return ""
}

// TestOpenInBrowser opens the file of parley open in a real browser, and then a link of a
// viewer to another port of the machine.
func TestOpenInBrowser(t *testing.T) {
	browser := chromium(t)
	h := newHouse(t)
	given := filepath.Join(t.TempDir(), "given")
	launcher := write(t, "launcher", "#!/bin/sh\nprintf %s \"$1\" >"+given+"\n")
	if err := os.Chmod(launcher, 0o700); err != nil {
		t.Fatal(err)
	}
	opened := do(t, parley(t, append(h.env(""), "BROWSER="+launcher), "open", "--as-operator"))
	h.ok(opened, nil)
	contains(t, opened.out, "Opening a browser, signed in.")
	file, err := os.ReadFile(given)
	if err != nil {
		t.Fatal(err)
	}

	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // root cannot have one
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancelTab := chromedp.NewContext(alloc)
	defer func() {
		chromedp.Cancel(ctx) // waits for the process
		cancelTab()
		cancel()
	}()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	until := func(what, expression string) {
		t.Helper()
		poll(t, what, func() bool {
			ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
			return err == nil && ok
		})
	}
	visit := func(address string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
			t.Fatal(err)
		}
	}

	visit("file://" + string(file))
	until("the page is signed in", "!!document.querySelector('nav') && document.querySelector('.who').innerText === 'operator'")
	var sessions api.WebSessionList
	h.ok(h.operator("hub", "viewer", "--json"), &sessions)
	if len(sessions.Sessions) != 1 || !strings.Contains(sessions.Sessions[0].Client, "Chrome") || sessions.Sessions[0].Seen == nil {
		t.Errorf("sessions: %+v, want one of Chrome that made a request", sessions.Sessions)
	}

	var mu sync.Mutex
	var cookies []string
	requests := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		cookies = append(cookies, r.Header["Cookie"]...)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<script>fetch("/again", {credentials: "include"}).then(() => document.title = "asked")</script>`)
	}))
	defer other.Close()
	var invite api.WebLink
	h.ok(h.operator("hub", "viewer", "invite", "mallory", "--json"), &invite)
	name := strings.TrimPrefix(invite.URL, "http://")
	name = name[:strings.LastIndex(name, ":")]
	visit("http://" + name + other.URL[strings.LastIndex(other.URL, ":"):])
	until("the listener was asked twice", "document.title === 'asked'")
	mu.Lock()
	defer mu.Unlock()
	if requests < 2 || len(cookies) > 0 {
		t.Errorf("%d requests brought the cookies %v, want none", requests, cookies)
	}
}

// The journal and the answers of the hub have no code, and no name of the page.
func TestOpenKeepsItsNames(t *testing.T) {
	h := readersHouse(t)
	var link api.WebLink
	h.ok(h.operator("open", "--no-browser", "--json"), &link)
	label := strings.TrimPrefix(link.URL, "http://")
	label, _, _ = strings.Cut(label, ".")
	var journal struct{ Entries []hub.Entry }
	h.ok(h.operator("hub", "journal", "--json"), &journal)
	raw, err := json.Marshal(journal)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "export")
	h.ok(h.operator("hub", "export", "--jsonl", out), nil)
	exported, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(exported) == 0 {
		t.Fatalf("export: %v, %v", exported, err)
	}
	for _, path := range exported {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "web.seed") || strings.Contains(string(text), "web.sessions") {
			t.Errorf("%s has secrets of the page", filepath.Base(path))
		}
		raw = append(raw, text...)
	}
	for _, secret := range []string{label, link.Code} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the journal or the export has %s", secret)
		}
	}
}
