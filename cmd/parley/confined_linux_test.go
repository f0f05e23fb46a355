package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/server"
)

// callSocket is a program for node: it posts a request to the socket of a hub, with a key that
// it invents, and prints the status and the answer, or the error.
const callSocket = `
const [socketPath, key] = process.argv.slice(1);
const headers = {"content-type": "application/json", authorization: "Bearer " + key};
const call = require("http").request({socketPath, method: "POST", path: "/", headers}, answer => {
  console.log(answer.statusCode);
  answer.pipe(process.stdout);
});
call.on("error", e => console.log(e.code));
call.end(JSON.stringify({jsonrpc: "2.0", id: 1, method: "parley/agent/list", params: {}}));
`

// confined runs a command as the hub runs a check that may not read the hidden paths.
func confined(t *testing.T, hidden []string, env []string, args ...string) (confine.Report, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	work := t.TempDir()
	p, err := confine.Start(self, confine.Command{
		Args: args, Dir: work, Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + work}, env...),
		Rules: confine.Rules{Write: []string{work}, Hidden: hidden},
	}, out)
	out.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	report, waited := p.Wait()
	if err := errors.Join(err, waited); err != nil {
		t.Fatal(err)
	}
	return report, string(text)
}

// A check finds the socket of the hub where the system makes no mounts of its own for it. It has
// no key, and the hub refuses it and counts that.
func TestCheckCallsTheHub(t *testing.T) {
	t.Parallel()
	if err := confine.Supported(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	h := readersHouse(t)
	socket := filepath.Join(h.home, server.SocketFile)
	forged := "cacp_sk_live_" + strings.Repeat("0", 43)

	// Only the key is hidden, so that the socket is left.
	key := filepath.Join(h.home, "operator.key")
	report, out := confined(t, []string{key}, nil, "node", "-e", callSocket, socket, forged)
	if !strings.HasPrefix(out, "401\n") || strings.Contains(out, "builder") || !report.Confined {
		t.Errorf("got %+v, %s", report, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	report, out = confined(t, []string{key}, []string{asParley + "=1", "PARLEY_HOME=" + h.home}, self, "agent", "list", "--as-operator")
	if report.ExitCode == 0 || strings.Contains(out, "builder") {
		t.Errorf("as the operator: got %+v, %s", report, out)
	}
	var got struct{ Entries []hub.Entry }
	h.ok(h.operator("hub", "journal", "--action", "call.refused", "--json"), &got)
	if len(got.Entries) == 0 {
		t.Error("the journal has no refusal")
	}

	// As the hub runs checks, its home is hidden.
	report, out = confined(t, []string{h.home}, nil, "node", "-e", callSocket, socket, forged)
	if report.Sealed && !strings.HasPrefix(out, "ECONNREFUSED\n") {
		t.Errorf("in mounts of its own: got %+v, %s", report, out)
	}
}
