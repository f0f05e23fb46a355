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
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) teamArtifactCommand() *cobra.Command {
	cmd := group("artifact", "Share files in a team, with versions",
		a.teamArtifactPutCommand(),
		a.teamArtifactGetCommand(),
		a.teamArtifactListCommand(),
		a.teamArtifactLogCommand(),
		a.teamArtifactMergeCommand(),
	)
	cmd.Long = `Share files in a team. Every put is a version, made from another one. A put on a
version that is no longer the newest is merged if it is text and the changes do not
touch; else it is kept beside the newest version until an integrator merges both.`
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
		Use: "put TEAM NAME FILE --parent VERSION", Short: "Put a version of a file",
		Long: `Put a version of a file. --parent names the version that was changed, 0 for a new
file. A dash stands for standard input.`,
		Example: `  parley team artifact put auth docs/plan.md plan.md --parent 0
  parley team artifact put auth docs/plan.md plan.md --parent 3 --note "names of the keys"`,
		Args: cobra.ExactArgs(3),
	}
	f := cmd.Flags()
	f.Int64Var(p.ParentVersion, "parent", -1, "version that was changed; 0 for a new file")
	f.StringVar(&p.Note, "note", "", "what was changed")
	f.StringVar((*string)(&p.Sensitivity), "sensitivity", "", "low, moderate or high: versions of a high one are merged by an integrator and signed by a reviewer")
	choices(cmd, "sensitivity", hub.Sensitivities...)
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Artifact), func(context.Context, []string) error {
		if *p.ParentVersion < 0 {
			return usagef("no parent").WithHint("name the version that was changed with --parent, 0 for a new file")
		}
		return nil
	}, a.upload(2, &p))
}

func (a *app) teamArtifactGetCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact"}
	cmd := &cobra.Command{Use: "get TEAM NAME", Short: "Write a version of a file to standard output", Args: cobra.ExactArgs(2)}
	cmd.Flags().Var(&p.Version, "version", "which one (default the newest)")
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
	cmd := &cobra.Command{Use: "list TEAM", Short: "List the files of a team", Args: cobra.ExactArgs(1)}
	cmd.Flags().Var(&p.Limit, "limit", "how many at most (default 50)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "next page")
	return operation(a, cmd, api.Team, &p, func(w io.Writer, got team.Answer) {
		writeList(w, "artifacts", "NAME, VERSION, BYTES, STATE, TO MERGE, BY, AT", got.Artifacts, func(x hub.TeamArtifact) []any {
			return []any{x.ID, x.Version, x.Size, x.State, len(x.Beside), x.Author, x.At}
		})
	}, argument(0, &p.Team))
}

func (a *app) teamArtifactLogCommand() *cobra.Command {
	p := api.TeamParams{Action: "artifact", Log: true}
	cmd := &cobra.Command{Use: "log TEAM NAME", Short: "List the versions of a file, newest first, and its conflicts", Args: cobra.ExactArgs(2)}
	cmd.Flags().Var(&p.Limit, "limit", "how many at most (default 50)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "next page")
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
		Use: "merge TEAM NAME FILE", Short: "Put the merge of the newest version and one beside it; or sign one",
		Long: `Put the merge of the newest version of a file and one that lies beside it. An
integrator or a coordinator may. Files of high sensitivity are merged by an
integrator alone, and the merge counts when a reviewer has signed it, with
--sign-off and no file.`,
		Example: `  parley team artifact merge auth docs/plan.md merged.md
  parley team artifact merge auth docs/plan.md merged.md --parents 4,3
  parley team artifact merge auth docs/plan.md --sign-off`,
		Args: cobra.RangeArgs(2, 3),
	}
	f := cmd.Flags()
	f.Int64SliceVar(&p.Parents, "parents", nil, "the newest version and the other (default the only one that is to be merged)")
	f.StringVar(&p.Note, "note", "", "how it was merged")
	f.BoolVar(&p.SignOff, "sign-off", false, "sign the merge of a file of high sensitivity")
	return a.team(cmd, &p, argument(0, &p.Team), argument(1, &p.Artifact), func(_ context.Context, args []string) error {
		if p.SignOff == (len(args) == 3) {
			return usagef("a merge has a file, a signature has none").WithHint("give FILE, or --sign-off")
		}
		return nil
	}, a.upload(2, &p))
}
