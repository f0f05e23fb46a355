package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

func (a *app) artifactCommand() *cobra.Command {
	return group("artifact", "Store content too large for a message", a.artifactPutCommand(), a.artifactGetCommand())
}

func (a *app) artifactPutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "put FILE",
		Short: "Store a file and print its reference",
		Long: `Store a file by its hash and print the reference to send as a member of
context.artifacts. Use - for standard input. "parley send --attach FILE" stores the
file and sends the reference in one step.`,
		Example: `  parley artifact put build.log
  parley send tester "the build is red" --attach build.log`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ref, err := a.putArtifact(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.print(server.Artifact{Artifact: ref}, func(w io.Writer) {
				fmt.Fprintf(w, "%s\nsha256 %s, %d bytes\n", ref.Path, ref.SHA256, *ref.SizeBytes)
				raw, _ := json.Marshal(map[string]any{"artifacts": []hub.ArtifactRef{ref}}) // strings and numbers: cannot fail
				fmt.Fprintf(w, "send it with: --context '%s'\n", raw)
			})
		},
	}
}

// putArtifact stores a file on the hub.
func (a *app) putArtifact(ctx context.Context, c *rpc.Client, name string) (hub.ArtifactRef, error) {
	var body io.Reader = a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return hub.ArtifactRef{}, invalid(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return hub.ArtifactRef{}, hub.Errorf(hub.CodeInvalid, "parley", "%s is not a regular file", name)
		}
		body = f
	}
	res, err := c.Do(ctx, http.MethodPost, "/artifacts", "application/octet-stream", body)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return hub.ArtifactRef{}, rpc.ReadError(res)
	}
	var out server.Artifact
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.Artifact.SizeBytes == nil {
		return hub.ArtifactRef{}, errors.Join(errors.New("cannot read the hub's answer"), err)
	}
	return out.Artifact, nil
}

func (a *app) artifactGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get SHA256",
		Short: "Write stored content to standard output",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeArtifact(cmd.Context(), args[0])
		},
	}
}

// writeArtifact writes stored content to standard output.
func (a *app) writeArtifact(ctx context.Context, sha256 string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	res, err := c.Do(ctx, http.MethodGet, "/artifacts/"+sha256, "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return rpc.ReadError(res)
	}
	_, err = io.Copy(a.out.content(), res.Body)
	return err
}
