package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// acpProxyCommand serves an agent of version 2 to a client of version 1.
func (a *app) acpProxyCommand() *cobra.Command {
	var verbose, strict bool
	cmd := &cobra.Command{
		Use:   "proxy [flags] -- COMMAND [ARGUMENT...]",
		Short: "Serve a version 2 agent to a version 1 client",
		Long: `Start an agent that speaks version 2 of the protocol (a draft) and serve it to a
client that speaks version 1: the frames between the agent and standard input and
output are converted. Configure this command in an editor instead of the agent's own.

Values that version 1 lacks are replaced by the nearest ones or dropped, and so are
updates that it cannot express; standard error names each once for each place. The
agent's own message travels along in _meta ("acp.v2/message"). With --strict such
values are errors: a request fails, and an update ends the proxy with an error.
With --verbose standard error names every loss, and the parts that version 1 does
not need.`,
		Example: `  parley acp proxy -- my-agent --acp
  parley comply -- parley acp proxy -- my-agent --acp`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tell := func(err error) { fmt.Fprintln(a.err, err) }
			proxy := &acp.Proxy{OnLoss: oncePerKind(tell), Strict: strict}
			if verbose {
				proxy.OnLoss, proxy.OnNote = tell, tell
			}

			// An interrupt is the usual end of a proxy, not an error.
			err := proxy.Serve(cmd.Context(), exec.Command(args[0], args[1:]...), a.in, a.out.raw)
			if err != nil && cmd.Context().Err() == nil {
				return explained(err)
			}
			return nil
		},
	}

	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&strict, "strict", false, "fail instead of dropping or replacing a value that version 1 lacks")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "name every loss, and the message parts that version 1 does not need")
	return cmd
}

// maxLossKinds bounds the kinds of losses that are named: an agent chooses the values.
const maxLossKinds = 1000

// oncePerKind returns a function that passes on the first loss of each kind: of the same member,
// for the same reason and with the same word, whatever its index in a list.
func oncePerKind(tell func(error)) func(error) {
	seen := map[string]bool{}
	return func(err error) {
		kind := err.Error()
		var problem interface{ Kind() string }
		if errors.As(err, &problem) {
			kind = problem.Kind()
		}
		if !seen[kind] && len(seen) < maxLossKinds {
			seen[kind] = true
			tell(fmt.Errorf("%w (named once)", err))
		}
	}
}

// acpValidateCommand checks recorded frames.
func (a *app) acpValidateCommand() *cobra.Command {
	var version int
	cmd := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Check recorded frames against the protocol",
		Long: `Check frames from files or standard input: each must be a JSON-RPC message whose
params or result match the protocol. A file is one conversation, with one frame per
line. Recordings written by "parley acp exec --json" and "parley comply --record" are
accepted as well. The order of the frames is not checked; "parley comply" does that.
The exit code is 1 if a frame is invalid.`,
		Example: `  parley acp validate frames.jsonl
  parley acp exec --json -- my-agent "hello" | parley acp validate
  parley acp validate --protocol 2 recorded/*.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != 1 && version != 2 {
				return usagef("--protocol: unknown version %d", version).WithHint("use 1 or 2")
			}
			if len(args) == 0 {
				args = []string{"-"}
			}

			type fault struct {
				File  string `json:"file"`
				Frame int    `json:"frame"` // from 1
				Error string `json:"error"`
			}
			faults, frames := []fault{}, 0

			// Each file is a conversation of its own, with its own validator.
			for _, name := range args {
				in := a.in
				if name != "-" {
					f, err := os.Open(name)
					if err != nil {
						return invalid(err)
					}
					defer f.Close()
					in = f
				}
				n := 0
				err := eachFrame(in, &acp.Validator{V2: version == 2}, func(err error) {
					if n++; err != nil {
						faults = append(faults, fault{name, n, err.Error()})
					}
				})
				if err != nil {
					return invalid(err)
				}
				frames += n
			}

			return a.check(len(faults) == 0, map[string]any{"frames": frames, "invalid": faults}, func(w io.Writer) {
				for _, f := range faults {
					fmt.Fprintf(w, "%s: frame %d: %s\n", f.File, f.Frame, f.Error)
				}
				fmt.Fprintf(w, "%d frames, %d invalid\n", frames, len(faults))
			})
		},
	}

	cmd.Flags().IntVar(&version, "protocol", 1, "protocol version: 1 or 2")
	return cmd
}

// eachFrame checks all frames of a conversation and calls told with each verdict.
func eachFrame(in io.Reader, check *acp.Validator, told func(error)) error {
	frames := jsonrpc.NewReader(in, 0)
	for {
		frame, err := frames.Next()
		var problem *jsonrpc.Problem
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &problem):
			told(problem)
			continue
		case err != nil:
			return err
		}

		// A line is a frame, or a line of a recording with the frame and its direction.
		var recorded struct {
			Direction string          `json:"direction"`
			Frame     json.RawMessage `json:"frame"`
			Text      *string         `json:"text"`
			Bytes     *string         `json:"bytes"`
		}
		switch json.Unmarshal(frame.Raw, &recorded); {
		case recorded.Direction == "":
			told(check.Check("", frame.Raw))
		case recorded.Frame != nil:
			told(check.Check(recorded.Direction, recorded.Frame))
		case recorded.Text != nil || recorded.Bytes != nil:
			told(errors.New("the line is not a message"))
		default:
			told(errors.New("the recording was cut off here"))
		}
	}
}
