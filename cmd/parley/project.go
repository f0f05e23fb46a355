package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

func (a *app) projectCommand() *cobra.Command {
	cmd := noun("project", "Coordinate the work of several repositories", a.projectListCommand(),
		a.projectCreateCommand(), a.projectShowCommand(), a.projectJoinCommand(), a.projectLeaveCommand(), a.projectSetCommand(), a.projectTokenCommand())
	cmd.Long = `A project is the joint work of several repositories. It holds the contracts that they
agree on and the context that they share. Every participating hub has a full copy.`
	return cmd
}

func (a *app) projectCreateCommand() *cobra.Command {
	var p coordination.NewProject
	var repos []string
	cmd := &cobra.Command{
		Use: "create NAME --objective TEXT --repo NAME:ROLE:LANGUAGE", Short: "Create a project",
		Long: `Create a project. If this hub's own repository is among those named, it is claimed at
once; the other repositories are claimed when their owners join.`,
		Example: `  parley project create "User Auth" --objective "log in with OAuth" \
    --repo backend-api:backend:go --repo frontend-app:frontend:typescript`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&p.Objective, "objective", "", "objective of the project")
	f.StringArrayVar(&repos, "repo", nil, "participating repository, as NAME:ROLE:LANGUAGE (repeatable)")
	f.StringVar((*string)(&p.Policy), "policy", "", "agreement required for a contract: any, counterparty or all (default counterparty)")
	return operation(a, cmd, coordination.CreateProject, &p, func(w io.Writer, got coordination.ProjectCreated) {
		fmt.Fprintf(w, "project %s, %d repositories\n", got.Project, got.RepoCount)
	}, argument(0, &p.Name), func(context.Context, []string) error {
		for _, r := range repos {
			parts := strings.Split(r, ":")
			if len(parts) != 3 {
				return usagef("--repo must be NAME:ROLE:LANGUAGE, got %q", r)
			}
			p.Repos = append(p.Repos, coordination.NewRepo{Name: parts[0], Role: parts[1], Language: parts[2]})
		}
		return nil
	})
}

func (a *app) projectListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List projects", Args: cobra.NoArgs}
	return operation(a, cmd, coordination.ListProjects, &coordination.ListParams{Summary: true}, func(w io.Writer, got coordination.Projects) {
		writeList(w, "projects", "ID, STATUS, REPOS, CONTRACTS, NAME", got.Projects, func(p coordination.ListedProject) []any {
			return []any{p.ID, p.Status, p.Repos, p.Contracts, p.Name}
		})
	})
}

func (a *app) projectShowCommand() *cobra.Command {
	var p coordination.ProjectParams
	cmd := &cobra.Command{Use: "show [ID]", Short: "Show a project with its repositories and contracts", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, coordination.GetProject, &p, writeProject, argument(0, &p.Project), a.inProject(cmd, &p.InProject))
}

func writeProject(w io.Writer, p federation.ProjectCopy) {
	fmt.Fprintf(w, "%s: %s\n%s, %d packets of context, agreement by %s\n\n",
		p.Name, p.Objective, p.Status, len(p.Packets), cmp.Or(p.Policy, coord.AgreeCounterparty))
	names := map[coord.RepoID]string{}
	writeTable(w, "REPOSITORY, ROLE, LANGUAGE, CLAIMED BY", p.Repos, func(r coord.Repo) []any {
		names[r.ID] = r.Name
		return []any{r.Name, r.Role, r.Language, cmp.Or(r.Agent, "not claimed")}
	})
	fmt.Fprintln(w)
	writeList(w, "contracts", "CONTRACT, VERSION, STATUS, BY, NAME", p.Contracts, func(c coord.Contract) []any {
		return []any{c.ID, c.Version, c.Status, names[c.ProposedBy], c.Name}
	})
}

func (a *app) projectJoinCommand() *cobra.Command {
	var p coordination.JoinParams
	cmd := &cobra.Command{
		Use: "join --repo NAME", Short: "Claim a repository of a project",
		Long: `Claim a repository of a project: the operator claims it for the hub, an agent for itself.
Your answers about contracts then count for the repository.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Repo, "repo", "", "repository to claim")
	cmd.Flags().StringVar(&p.Endpoint, "endpoint", "", "address where you can be called")
	return operation(a, cmd, coordination.JoinProject, &p, func(w io.Writer, got coordination.Joined) {
		fmt.Fprintf(w, "%s of %s is yours\n", p.Repo, got.Project)
	}, a.inProject(cmd, &p.InProject))
}

func (a *app) projectLeaveCommand() *cobra.Command {
	var p coordination.LeaveParams
	cmd := &cobra.Command{
		Use: "leave [--repo NAME]", Short: "Release a repository that you claimed",
		Long: `Release a repository that you claimed, so another agent can claim it. The operator can
release a repository claimed by an agent of this hub.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Repo, "repo", "", "repository to release; required if you claimed more than one")
	return operation(a, cmd, coordination.LeaveProject, &p, func(w io.Writer, got coordination.Joined) {
		fmt.Fprintf(w, "repository %s of %s can be claimed again\n", got.Repo, got.Project)
	}, a.inProject(cmd, &p.InProject))
}

func (a *app) projectSetCommand() *cobra.Command {
	var status coordination.StatusParams
	var policy coordination.PolicyParams
	cmd := &cobra.Command{
		Use: "set [--status STATUS] [--policy POLICY]", Short: "Set a project's status or agreement policy",
		Long: `Set the status of a project, or the agreement that a contract needs: counterparty means
one repository other than the proposer, all means all other repositories, and any lets
the proposer agree alone. Only the project's owner, a coordinator or the operator can
change them.`,
		Args: cobra.NoArgs,
	}

	inProject := a.inProject(cmd, &status.InProject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if status.Status == "" && policy.Policy == "" {
			return usagef("--status or --policy is required")
		}

		// Both flags may be given: the answer is that of the last change.
		err := inProject(cmd.Context(), args)
		var got coordination.ProjectChanged
		if policy.InProject = status.InProject; policy.Policy != "" && err == nil {
			got, err = call(cmd.Context(), a, coordination.SetPolicy, policy)
		}
		if status.Status != "" && err == nil {
			got, err = call(cmd.Context(), a, coordination.UpdateProjectStatus, status)
		}
		if err != nil {
			return err
		}
		return a.print(got, func(w io.Writer) { fmt.Fprintf(w, "%s, agreement by %s\n", got.Status, got.Policy) })
	}

	cmd.Flags().StringVar((*string)(&status.Status), "status", "", "status: planning, implementing, integrating or complete")
	cmd.Flags().StringVar((*string)(&policy.Policy), "policy", "", "agreement required for a contract: any, counterparty or all")
	return cmd
}

func (a *app) projectTokenCommand() *cobra.Command {
	var p coordination.TokenParams
	var revoke coordination.TokenID
	var list bool
	cmd := &cobra.Command{
		Use: "token --agent NAME", Short: "Manage project tokens for agents (operator)",
		Long: `Create a token that permits one agent some operations in one project for a limited time.
It is sent as X-Project-Token, and shown only once. It ends when the agent is paused or
its last key is revoked, when its peer is removed, or with --revoke.

The permissions are project:read, project:write, contract:propose, contract:respond,
context:share, implementation:update, file:share, evidence (record results of tests) and
deploy (record deployments). A token with evidence is bound to a repository and to names
of checks, and to a branch if its results are those of the branch that work lands in.`,
		Example: `  parley project token --project ID --agent ci --permissions project:read --ttl 24h
  parley project token --agent ci --permissions project:read,evidence --repo frontend-app --check contract-tests --branch main
  parley project token --list
  parley project token --revoke JTI`,
		Args: cobra.NoArgs,
	}

	cmd.Flags().StringVar(&p.Repo, "repo", "", "repository whose test results a token with the permission evidence may send")
	cmd.Flags().StringArrayVar(&p.Checks, "check", nil, "check whose results it may send (repeatable)")
	cmd.Flags().StringVar(&p.Branch, "branch", "", "branch that work of the repository lands in, if the results are those of that branch")
	cmd.Flags().StringVar(&p.Agent, "agent", "", "agent on this hub, or the agent id of an agent on another hub")
	cmd.Flags().BoolVar(&list, "list", false, "list the tokens that have not expired")
	cmd.Flags().StringVar(&revoke.ID, "revoke", "", "revoke the token with this id (jti)")

	operation(a, cmd, coordination.MintToken, &p, func(w io.Writer, got coordination.Token) {
		fmt.Fprintln(w, got.Token)
		fmt.Fprintf(a.err, "%s for %s until %s; it is shown this once\n", got.ID, got.Agent, whenInstant(got.ExpiresAt))
		if got.Note != "" {
			fmt.Fprintln(a.err, "note: "+got.Note)
		}
	}, listFlag(cmd, &p.Permissions, "permissions", "permitted operations (default project:read, contract:propose, contract:respond, context:share, implementation:update)"),
		secondsFlag(cmd, &p.TTLS, "ttl", "lifetime of the token (default 24h)"), a.inProject(cmd, &p.InProject))

	// --revoke and --list run in place of the call that creates a token.
	create := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case revoke.ID != "":
			return answer(cmd.Context(), a, coordination.RevokeToken, revoke, func(w io.Writer, got hub.Token) { fmt.Fprintf(w, "%s is revoked\n", got.ID) })
		case list:
			return answer(cmd.Context(), a, coordination.ListTokens, coordination.TokensParams{Project: p.Project}, writeProjectTokens)
		}
		return create(cmd, args)
	}
	return cmd
}

func writeProjectTokens(w io.Writer, got coordination.Tokens) {
	writeList(w, "tokens", "JTI, AGENT, PROJECT, PERMISSIONS, STATE", got.Tokens, func(t hub.Token) []any {
		state := "valid until " + when(t.ExpiresAt)
		if !t.RevokedAt.IsZero() {
			state = "revoked"
		}
		return []any{t.ID, t.Agent, t.Project, strings.Join(words(t.Permissions), ","), state}
	})
}
