package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/server"
)

// gatewayConfig says how the hub uses an OpenClaw gateway. Without a URL it uses none.
type gatewayConfig struct {
	URL            string                  `yaml:"url"`
	TokenFile      string                  `yaml:"token_file"`
	HooksTokenFile string                  `yaml:"hooks_token_file"`
	SessionMode    string                  `yaml:"session_mode"`
	Wake           bool                    `yaml:"wake"`
	Notify         *gatewayTarget          `yaml:"notify"`
	Workq          bool                    `yaml:"workq"`
	WorkqSession   string                  `yaml:"workq_session"`
	Agents         map[string]gatewayAgent `yaml:"agents"`
}

// A gatewayTarget is a chat room in which people are told.
type gatewayTarget struct {
	Channel string `yaml:"channel"`
	To      string `yaml:"to"`
	Account string `yaml:"account"`
}

// A gatewayAgent is the place of an agent of the hub at the gateway.
type gatewayAgent struct {
	Agent   string `yaml:"agent"`
	Session string `yaml:"session"`
}

// options reads the tokens. It returns nil if no gateway is configured.
func (c *gatewayConfig) options() (*server.GatewayOptions, error) {
	if c == nil {
		return nil, nil
	}

	o := &server.GatewayOptions{
		URL: c.URL, Session: gateway.Mode(c.SessionMode), Wake: c.Wake, Workq: c.Workq, WorkqKeys: gateway.KeyRule(c.WorkqSession),
		Agents: map[hub.AgentID]gateway.Agent{},
	}
	if c.Notify != nil {
		o.Notify = &gateway.Target{Channel: c.Notify.Channel, To: c.Notify.To, Account: c.Notify.Account}
	}
	for name, a := range c.Agents {
		o.Agents[hub.AgentID(name)] = gateway.Agent{ID: a.Agent, Session: a.Session}
	}

	// The tokens are in files, so that the configuration holds no secret.
	for _, t := range []struct {
		name, file string
		into       *string
	}{{"token_file", c.TokenFile, &o.Token}, {"hooks_token_file", c.HooksTokenFile, &o.HooksToken}} {
		if t.file == "" {
			continue
		}
		raw, err := os.ReadFile(t.file)
		if err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, "parley", "gateway.%s: %v", t.name, err)
		}
		if *t.into = strings.TrimSpace(string(raw)); *t.into == "" {
			return nil, hub.Errorf(hub.CodeInvalid, "parley", "gateway.%s: %s is empty", t.name, t.file)
		}
	}
	return o, nil
}

// testGateway tests every way in which the hub uses its OpenClaw gateway: it adds a line to the
// transcript of a session that is made for the test, requests a wake, and claims and releases an item
// of the queue. No turn of an agent begins. With dir the pages there get the report.
func (a *app) testGateway(ctx context.Context, dir string) error {
	got, err := call(ctx, a, api.ProbeGateway, api.None{})
	if err != nil {
		return err
	}

	works := true
	for _, f := range got.Findings {
		works = works && f.State != gateway.Failed
		if dir == "" {
			continue
		}
		if err := writeFinding(filepath.Join(dir, f.Name+".md"), got.Markdown(f)); err != nil {
			return err
		}
	}

	return a.check(works, got, func(w io.Writer) {
		if got.Version != "" {
			fmt.Fprintf(w, "OpenClaw %s at %s, protocol %d, %s\n", got.Version, got.URL, got.Protocol, strings.Join(got.Scopes, " "))
		}
		writeList(w, "findings", "WAY, STATE, SECONDS, DETAIL", got.Findings, func(f gateway.Finding) []any {
			return []any{f.Name, f.State, fmt.Sprintf("%.1f", f.Seconds), f.Detail}
		})
	})
}

// The marks around the report in a page about a spike.
const findingBegin, findingEnd = "<!-- gateway -->\n", "<!-- /gateway -->\n"

// writeFinding puts a report between the marks of a page, which it makes if it does not
// exist.
func writeFinding(name, text string) error {
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = []byte("# Spike: "+strings.TrimSuffix(filepath.Base(name), ".md")+"\n\n"+findingBegin+findingEnd), nil
	}
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), findingBegin)
	_, after, ok2 := strings.Cut(rest, findingEnd)
	if !ok || !ok2 {
		return invalid(fmt.Errorf("%s has no marks %s and %s", name, strings.TrimSpace(findingBegin), strings.TrimSpace(findingEnd)))
	}
	return durable.WriteFile(name, []byte(before+findingBegin+text+findingEnd+after), 0o644)
}
