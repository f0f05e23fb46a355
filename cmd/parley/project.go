package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

func (a *app) projectCommand() *cobra.Command {
	cmd := group("project", "What several repositories build together",
		a.projectCreateCommand(), a.projectListCommand(), a.projectShowCommand(), a.projectJoinCommand(), a.projectSetCommand(), a.projectTokenCommand())
	cmd.Long = `A project is what several repositories build together. It holds the contracts
that they agree on and what they let each other know. Every hub that takes part
has all of it.`
	return cmd
}

func (a *app) projectCreateCommand() *cobra.Command {
	var objective, policy string
	var repos []string
	cmd := &cobra.Command{
		Use: "create NAME --objective TEXT --repo NAME:ROLE:LANGUAGE", Short: "Make a project",
		Long: `Make a project. The repository that this hub speaks for, if it is among those
named, is claimed at once; the others are claimed by those who join.`,
		Example: `  parley project create "User Auth" --objective "log in with OAuth" \
    --repo backend-api:backend:go --repo frontend-app:frontend:typescript`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := coordination.NewProject{Name: args[0], Objective: objective, Policy: hub.AgreementPolicy(policy)}
			for _, r := range repos {
				parts := strings.Split(r, ":")
				if len(parts) != 3 {
					return usagef("--repo: %q is not NAME:ROLE:LANGUAGE", r)
				}
				p.Repos = append(p.Repos, coordination.NewRepo{Name: parts[0], Role: parts[1], Language: parts[2]})
			}
			return answer(cmd.Context(), a, coordination.CreateProject, p, func(w io.Writer, got coordination.ProjectCreated) {
				fmt.Fprintf(w, "project %s, %d repositories\n", got.Project, got.RepoCount)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&objective, "objective", "", "what is built")
	f.StringArrayVar(&repos, "repo", nil, "a repository that takes part, as NAME:ROLE:LANGUAGE (repeatable)")
	f.StringVar(&policy, "policy", "", "whose word makes a contract agreed: any, counterparty or all (default any)")
	return cmd
}

func (a *app) projectListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the projects", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd.Context(), a, coordination.ListProjects, coordination.ListParams{Summary: true}, func(w io.Writer, got coordination.Projects) {
				if len(got.Projects) == 0 {
					fmt.Fprintln(w, "no projects")
					return
				}
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "ID\tSTATUS\tREPOS\tCONTRACTS\tNAME")
				for _, p := range got.Projects {
					fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", p.ID, p.Status, p.Repos, p.Contracts, visible(p.Name))
				}
				t.Flush()
			})
		},
	}
}

func (a *app) projectShowCommand() *cobra.Command {
	var project *projectFlag
	cmd := &cobra.Command{
		Use: "show [ID]", Short: "Show a project with its repositories and contracts", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				project.id = args[0]
			}
			in, err := project.find(cmd.Context(), a)
			if err != nil {
				return err
			}
			return answer(cmd.Context(), a, coordination.GetProject, coordination.ProjectParams{InProject: in}, writeProject)
		},
	}
	project = projectOf(cmd)
	return cmd
}

func writeProject(w io.Writer, p hub.ProjectCopy) {
	fmt.Fprintf(w, "%s: %s\n%s, %d packets of context, agreement by %s\n\n", visible(p.Name), visible(p.Objective), p.Status, len(p.Packets), orAny(p.Policy))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REPOSITORY\tROLE\tLANGUAGE\tCLAIMED BY")
	names := map[hub.RepoID]string{}
	for _, r := range p.Repos {
		names[r.ID] = r.Name
		by := string(r.Agent)
		if by == "" {
			by = "nobody yet"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", visible(r.Name), visible(r.Role), visible(r.Language), visible(by))
	}
	t.Flush()
	if len(p.Contracts) == 0 {
		fmt.Fprintln(w, "\nno contracts")
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(t, "CONTRACT\tVERSION\tSTATUS\tBY\tNAME")
	for _, c := range p.Contracts {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", c.ID, c.Version, c.Status, visible(names[c.ProposedBy]), visible(c.Name))
	}
	t.Flush()
}

func orAny(p hub.AgreementPolicy) hub.AgreementPolicy {
	if p == "" {
		return hub.AgreeAny
	}
	return p
}

func (a *app) projectJoinCommand() *cobra.Command {
	var repo, endpoint string
	cmd := a.inProject(&cobra.Command{
		Use: "join --repo NAME", Short: "Claim a repository of a project",
		Long: `Claim a repository of a project for yourself: as the operator for the hub, as an
agent for that agent. What you say about contracts is then said for it.`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		p := coordination.JoinParams{InProject: in, Repo: repo, Endpoint: endpoint}
		return answer(ctx, a, coordination.JoinProject, p, func(w io.Writer, got coordination.Joined) {
			fmt.Fprintf(w, "%s of %s is yours\n", repo, visible(got.Project))
		})
	})
	cmd.Flags().StringVar(&repo, "repo", "", "the repository")
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "where you can be called")
	return cmd
}

func (a *app) projectSetCommand() *cobra.Command {
	var status, policy string
	cmd := a.inProject(&cobra.Command{
		Use: "set [--status STATUS] [--policy POLICY]", Short: "Say how far a project has come, or whose word makes a contract agreed",
		Args: cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		if status == "" && policy == "" {
			return usagef("give --status or --policy")
		}
		var got coordination.ProjectChanged
		var err error
		if policy != "" {
			if got, err = call(ctx, a, coordination.SetPolicy, coordination.PolicyParams{InProject: in, Policy: hub.AgreementPolicy(policy)}); err != nil {
				return err
			}
		}
		if status != "" {
			if got, err = call(ctx, a, coordination.UpdateProjectStatus, coordination.StatusParams{InProject: in, Status: hub.ProjectStatus(status)}); err != nil {
				return err
			}
		}
		return a.print(got, func(w io.Writer) { fmt.Fprintf(w, "%s, agreement by %s\n", got.Status, got.Policy) })
	})
	cmd.Flags().StringVar(&status, "status", "", "planning, implementing, integrating or complete")
	cmd.Flags().StringVar(&policy, "policy", "", "any, counterparty or all")
	return cmd
}

func (a *app) projectTokenCommand() *cobra.Command {
	var agent string
	var permissions []string
	var ttl time.Duration
	cmd := a.inProject(&cobra.Command{
		Use: "token --agent NAME", Short: "Make a token for one agent and one project (operator)",
		Long: `Make a token that lets one agent do some things in one project, for a while. It
is sent as X-Project-Token, and shown this once.`,
		Example: `  parley project token --project ID --agent ci --permissions project:read --ttl 24h`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, in coordination.InProject, _ []string) error {
		p := coordination.TokenParams{InProject: in, Agent: agent, Permissions: typed[coordination.Permission](permissions), TTLS: int64(ttl / time.Second)}
		return answer(ctx, a, coordination.MintToken, p, func(w io.Writer, got coordination.Token) {
			fmt.Fprintln(w, got.Token)
			fmt.Fprintf(a.err, "for %s until %s; it is shown this once\n", got.Agent, got.ExpiresAt)
		})
	})
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "an agent of this hub, or the agent id of another")
	f.StringSliceVar(&permissions, "permissions", nil, "what it permits (default project:read, contract:propose, contract:respond, context:share, implementation:update)")
	f.DurationVar(&ttl, "ttl", 0, "how long it lives (default 24h)")
	return cmd
}
