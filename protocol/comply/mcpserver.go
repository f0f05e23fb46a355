package comply

import (
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/protocol/comply/fixture"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// httpRecord is the file in the folder for temporary files to which the MCP server over
// HTTP writes its record.
const httpRecord = "http.jsonl"

// mcpServer returns vars with the variables that name the built-in MCP server. The server
// over HTTP is started only for a test that names it, and runs until the returned
// function is called.
// The server over standard input and output is started by the agent, from the
// command in the variable.
func (r *runner) mcpServer(t *jsont.Test, w *workspace, vars jsont.Variables) (_ jsont.Variables, closeServer func(), _ error) {
	// The test binary or parley itself serves MCP when it is called so.
	program := r.opts.MCPServer
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, nil, err
		}
	}
	vars = vars.With(jsont.VarMCPServer, jsont.Encode(program))
	if !t.Uses(jsont.VarMCPURL) && !t.Uses(jsont.VarMCPStreamURL) {
		return vars, func() {}, nil
	}
	server, err := fixture.NewHTTP(filepath.Join(w.temp, httpRecord))
	if err != nil {
		return nil, nil, err
	}
	vars = vars.With(jsont.VarMCPURL, jsont.Encode(server.URL())).With(jsont.VarMCPStreamURL, jsont.Encode(server.StreamURL()))
	return vars, func() { server.Close() }, nil
}
