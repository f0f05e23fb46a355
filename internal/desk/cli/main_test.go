package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asCLI makes the test binary act as an agent CLI: each line says what the one
// of that name answers when asked for its version.
const asCLI = "PARLEY_TEST_AS_CLI"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asCLI) != "" && len(os.Args) == 2:
		answer(filepath.Base(os.Args[0]), os.Args[1])
	case len(os.Args) > 1 && os.Args[1] == "mcp":
		serveMCP(os.Args[len(os.Args)-1])
	default:
		os.Exit(m.Run())
	}
}

func answer(name, arg string) {
	for line := range strings.Lines(os.Getenv(asCLI)) {
		who, what, _ := strings.Cut(strings.TrimSpace(line), "=")
		if who != name {
			continue
		}
		switch mode, file, _ := strings.Cut(what, " "); mode {
		case "fail":
			os.Exit(3)
		case "flood":
			fmt.Print(strings.Repeat("x", 1<<20), " 1.0")
		case "hang":
			if arg == "--version" { // a script around the real program
				_ = exec.Command(os.Args[0], "grandchild").Run()
				return
			}
			pipe, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				os.Exit(4)
			}
			fmt.Fprintln(pipe, "started") // the pipe is closed when this process ends
			<-time.After(time.Hour)       // it is killed before
		default:
			fmt.Println(what)
		}
	}
}

// serveMCP is the least of an MCP server that a CLI takes for one. It leaves a
// file beside the key file, to tell that it was started.
func serveMCP(keyFile string) {
	_ = os.WriteFile(keyFile+".started", nil, 0o600)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if reply := mcpReply(in.Bytes()); reply != nil {
			fmt.Printf("%s\n", reply)
		}
	}
}

// mcpReply answers a request, and nothing to a notification.
func mcpReply(frame []byte) []byte {
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(frame, &req) != nil || req.ID == nil {
		return nil
	}
	result := map[string]any{}
	switch req.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": req.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "parley", "version": "1"},
		}
	case "tools/list":
		result["tools"] = []any{}
	}
	reply, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": req.ID, "result": result})
	if err != nil {
		return nil
	}
	return reply
}
