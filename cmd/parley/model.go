package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/protocol/comply/model"
)

func (a *app) modelCommand() *cobra.Command {
	var script, addr string
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Serve a scripted language model",
		Long: `Serve the APIs that coding agents use (OpenAI chat completions and responses, Anthropic
messages, Gemini) on loopback, and answer from a script, so agents run without a real
model. Without a script the model obeys directives in the prompt, such as

  parley:write path=a.txt text="hello"

GET /_log returns the requests so far. docs/model.md describes scripts.`,
		Example: `  parley model
  parley model --script turn.json --addr 127.0.0.1:8123
  OPENAI_BASE_URL=http://127.0.0.1:8123/v1 OPENAI_API_KEY=any my-agent`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := modelScript(script)
			if err != nil {
				return err
			}

			listener, err := model.Listen(cmd.Context(), addr)
			if err != nil {
				return usagef("--addr: %w", err)
			}
			fmt.Fprintf(a.err, "listening on http://%s\n", listener.Addr())
			return model.New(s).Serve(cmd.Context(), listener)
		},
	}

	cmd.Flags().StringVar(&script, "script", "", "file with the script (default: obey directives in prompts)")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "loopback address to listen on; port 0 picks a free one")
	return cmd
}

// modelScript reads a script. It returns nil for an empty path.
func modelScript(path string) (*model.Script, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid(err)
	}
	s, err := model.ParseScript(text)
	if err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", path, err))
	}
	return s, nil
}
