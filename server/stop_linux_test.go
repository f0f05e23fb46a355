package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// TestStopWithWorkUnderWay asks a hub to end while a check runs that ignores signals, an agent waits
// for mail and others compare large contracts. It ends, in order or cut off, and the next start knows
// the check.
func TestStopWithWorkUnderWay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	defer cancel()
	c := &chaos{chaosHub: &chaosHub{t: t, binary: program(t), home: filepath.Join(t.TempDir(), "home")}, transport: &http.Transport{}, keys: map[hub.AgentID]string{}}
	c.start(ctx)
	repo := newLandingRepo(t)
	must(rpc.Call(ctx, c.operator(), api.AddRoot, api.RootParams{Path: filepath.Dir(repo.dir)}))(t)
	for _, name := range []hub.AgentID{"a0", "a1", "a2"} {
		c.keys[name] = must(rpc.Call(ctx, c.operator(), api.AddAgent, api.AgentParams{ID: name}))(t).Key
	}

	// The check writes its process id to the pipe when it has begun.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in := api.RepositoryParams{Repository: repo.dir}
	script := fmt.Sprintf("trap '' TERM INT HUP; echo $$ > %s; while :; do sleep 1; done", pipe)
	must(rpc.Call(ctx, c.operator(), api.AddCheck, api.AddCheckParams{RepositoryParams: in, Name: "endless", Command: []string{"sh", "-c", script}, Unconfined: true}))(t)
	noWait := 0
	run := must(rpc.Call(ctx, c.client(c.url, "a0"), api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: in, Name: "endless"}, Wait: &noWait}))(t).Result
	raw, err := os.ReadFile(pipe)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}

	var asking sync.WaitGroup
	asking.Go(func() {
		rpc.Call(ctx, c.client(c.url, "a0"), api.Inbox, api.InboxParams{WaitS: 60}) // it ends with the hub
	})
	of := heavyContract(ctx, t, c)
	begun := make(chan bool, 2)
	for _, name := range []hub.AgentID{"a1", "a2"} {
		asking.Go(func() {
			for n := 0; ; n++ {
				_, err := rpc.Call(ctx, c.client(c.url, name), coordination.DiffContract, contract.DiffQuery{InContract: of, Content: heavyContent(string(name), n)})
				if n == 0 {
					begun <- err == nil
				}
				if err != nil { // the hub has ended
					return
				}
			}
		})
	}
	if first, second := <-begun, <-begun; !first || !second {
		t.Fatal("a contract was not compared")
	}

	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.ended:
	case <-time.After(patience.For(server.EndTime)):
		t.Fatalf("the hub has not ended: %s", c.log)
	}
	asking.Wait()
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the hub ended with %d: %s", code, c.log)
	}

	isCutOff := strings.Contains(c.log.String(), "cut off")
	t.Logf("cut off: %v", isCutOff)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && !isCutOff {
		t.Errorf("the check still runs as process %d: %v", pid, err)
	}
	c.start(ctx)
	defer c.stop()
	got := must(rpc.Call(ctx, c.operator(), api.ShowResult, api.ResultParams{ID: run.ID}))(t).Result
	isAgain := got.State == hub.ResultQueued || got.State == hub.ResultRunning
	if !isAgain && (!isCutOff || got.State != hub.ResultInterrupted) {
		t.Errorf("after the next start the run is %s; cut off: %v", got.State, isCutOff)
	}
}

// heavyContent returns a content that takes long to compare, different for each question.
func heavyContent(name string, n int) json.RawMessage {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object","title":"%s %d","properties":{"kind":{"anyOf":[`, name, n)
	for i := range 1_000 {
		fmt.Fprintf(&b, `{"const":"v%d-%d"},`, i, n)
	}
	b.WriteString(`{"const":"last"}]}}}`)
	return json.RawMessage(b.String())
}

// heavyContract makes a contract of a project, and returns where it is.
func heavyContract(ctx context.Context, t *testing.T, c *chaos) contract.InContract {
	t.Helper()
	p := must(rpc.Call(ctx, c.operator(), coordination.CreateProject, coordination.NewProject{Name: "p", Objective: "p", Repos: []coordination.NewRepo{{Name: "api", Role: "backend", Language: "go"}}}))(t)
	must(rpc.Call(ctx, c.client(c.url, "a0"), coordination.JoinProject, coordination.JoinParams{InProject: contract.In(p.Project), Repo: "api"}))(t)
	made := must(rpc.Call(ctx, c.client(c.url, "a0"), coordination.Propose, contract.Proposal{
		InProject: contract.In(p.Project), As: contract.As{Repo: "api"}, Type: coord.ContractModel, Name: "Heavy", Content: heavyContent("first", 0),
	}))(t)
	return contract.Of(p.Project, made.Contract)
}
