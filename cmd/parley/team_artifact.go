package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
)

func (a *app) teamArtifactCommand() *cobra.Command {
	cmd := noun("document", "Share versioned files in a team", a.teamArtifactListCommand(),
		a.teamArtifactPutCommand(),
		a.teamArtifactGetCommand(),
		a.teamArtifactLogCommand(),
		a.teamArtifactMergeCommand(),
	)
	cmd.Long = `Share files in a team. Every put creates a version, based on another one. If that one is
no longer the newest, the new version is merged when the file is text and the changes
do not overlap; otherwise it is kept beside the newest version until an integrator
merges both.`
	return cmd
}

// upload stores a file on the hub, and puts its hash into a request.
func (a *app) upload(i int, p *api.TeamParams) preparation {
	return func(ctx context.Context, args []string) error {
		if i >= len(args) {
			return nil
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		ref, err := a.putArtifact(ctx, c, args[i])
		p.SHA256 = ref.SHA256
		return err
	}
}

func (a *app) teamArtifactPutCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact", ParentVersion: new(int64)}
	cmd := &cobra.Command{
		Use: "put TEAM NAME FILE --parent VERSION", Short: "Add a version of a file",
		Long: `Add a version of a file. --parent names the version that you changed, 0 for a new file.
Use - for standard input.`,
		Example: `  parley team document put auth docs/plan.md plan.md --parent 0
  parley team document put auth docs/plan.md plan.md --parent 3 --note "names of the keys"`,
		Args: cobra.ExactArgs(3),
	}
	f := cmd.Flags()
	f.Int64Var(p.ParentVersion, "parent", -1, "version that you changed; 0 for a new file")
	f.Lookup("parent").DefValue = "0" // the help shows no default
	f.StringVar(&p.Note, "note", "", "description of the change")
	f.StringVar((*string)(&p.Sensitivity), "sensitivity", "", "sensitivity: low, moderate or high; with high, an integrator merges and a reviewer signs")
	choices(cmd, "sensitivity", hub.Sensitivities...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Artifact), func(context.Context, []string) error {
		if *p.ParentVersion < 0 {
			return usagef("--parent is required").WithHint("pass the version that you changed, or 0 for a new file")
		}
		return nil
	}, a.upload(2, &p))
}

func (a *app) teamArtifactGetCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact"}
	cmd := &cobra.Command{Use: "get TEAM NAME", Short: "Print a version of a file", Args: cobra.ExactArgs(2)}
	cmd.Flags().Var(&p.Version, "version", "version to print (default the newest)")
	return prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, api.Team, p)
		if err != nil {
			return err
		}
		switch {
		case a.json || got.Version == nil:
			return a.print(got, func(w io.Writer) { writeTeam(w, got) })
		case got.Content != nil && got.Encoding == "":
			_, err = io.WriteString(a.out.content(), *got.Content)
		case got.Content != nil:
			_, err = io.Copy(a.out.content(), base64.NewDecoder(base64.StdEncoding, strings.NewReader(*got.Content)))
		default:
			err = a.writeArtifact(ctx, got.Version.SHA256)
		}
		return err
	}, argument(0, &p.Team), argument(1, &p.Artifact))
}

func (a *app) teamArtifactListCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact"}
	cmd := &cobra.Command{Use: "list TEAM", Short: "List a team's files", Args: cobra.ExactArgs(1)}
	cmd.Flags().Var(&p.Limit, "limit", "maximum number of results (default 50)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	return operation(a, cmd, api.Team, &p, func(w io.Writer, got team.Answer) {
		writeList(w, "artifacts", "NAME, VERSION, BYTES, STATE, TO MERGE, BY, AT", got.Artifacts, func(x hub.TeamArtifact) []any {
			return []any{x.ID, x.Version, x.Size, x.State, len(x.Beside), x.Author, x.At}
		})
	}, argument(0, &p.Team))
}

func (a *app) teamArtifactLogCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact", Log: true}
	cmd := &cobra.Command{Use: "log TEAM NAME", Short: "List a file's versions and conflicts", Args: cobra.ExactArgs(2)}
	cmd.Flags().Var(&p.Limit, "limit", "maximum number of results (default 50)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "continue from the cursor printed by the previous page")
	return operation(a, cmd, api.Team, &p, func(w io.Writer, got team.Answer) {
		writeList(w, "versions", "VERSION, FROM, BY, AT, BYTES, SHA-256, NOTE", got.Versions, func(v hub.ArtifactVersion) []any {
			from := []string{strconv.FormatInt(v.Parent, 10)}
			if len(v.Parents) == 2 {
				from = append(from, strconv.FormatInt(v.Parents[1], 10))
			}
			return []any{v.Version, strings.Join(from, "+"), v.Author, v.At, v.Size, v.SHA256[:12], v.Note}
		})
		for _, k := range got.Conflicts {
			fmt.Fprintf(w, "to merge: version %d, made from %d, is %s\n", k.Version, k.Base, k.State)
		}
	}, argument(0, &p.Team), argument(1, &p.Artifact))
}

func (a *app) teamArtifactMergeCommand() *cobra.Command {
	p := api.TeamParams{Action: "merge"}
	cmd := &cobra.Command{
		Use: "merge TEAM NAME FILE", Short: "Merge two versions of a file, or sign a merge",
		Long: `Add the merge of the newest version of a file and a version beside it. Only an integrator
or a coordinator can do this. Files of high sensitivity can be merged only by an
integrator, and the merge takes effect when a reviewer signs it, with --sign-off and no
file.`,
		Example: `  parley team document merge auth docs/plan.md merged.md
  parley team document merge auth docs/plan.md merged.md --parents 4,3
  parley team document merge auth docs/plan.md --sign-off`,
		Args: cobra.RangeArgs(2, 3),
	}
	f := cmd.Flags()
	f.Int64SliceVar(&p.Parents, "parents", nil, "newest version and the other one (default the only version to merge)")
	f.Lookup("parents").DefValue = "" // the text says it
	f.StringVar(&p.Note, "note", "", "description of the merge")
	f.BoolVar(&p.SignOff, "sign-off", false, "sign the merge of a file of high sensitivity")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Artifact), func(_ context.Context, args []string) error {
		if p.SignOff == (len(args) == 3) {
			return usagef("FILE or --sign-off is required, but not both").WithHint("pass the merged FILE, or --sign-off to sign a merge")
		}
		return nil
	}, a.upload(2, &p))
}
