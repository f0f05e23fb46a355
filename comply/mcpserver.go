package comply

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/comply/fixture"
)

// httpRecord is the name of the record that the MCP server over HTTP writes into
// the folder for temporary files.
const httpRecord = "http.jsonl"

// mcpServer returns vars with what a test needs to name the built-in MCP server.
// One that speaks HTTP is only started for a test that names it; it runs until
// the returned function is called.
func (r *runner) mcpServer(t *Test, w *workspace, vars variables) (_ variables, closeServer func(), _ error) {
	program := r.opts.MCPServer
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, nil, err
		}
	}
	vars = vars.with(varMCPServer, quote(program))
	if !bytes.Contains(t.source, []byte("${"+varMCPURL+"}")) && !bytes.Contains(t.source, []byte("${"+varMCPStreamURL+"}")) {
		return vars, func() {}, nil
	}
	server, err := fixture.NewHTTP(filepath.Join(w.temp, httpRecord))
	if err != nil {
		return nil, nil, err
	}
	vars = vars.with(varMCPURL, quote(server.URL())).with(varMCPStreamURL, quote(server.StreamURL()))
	return vars, func() { server.Close() }, nil
}
