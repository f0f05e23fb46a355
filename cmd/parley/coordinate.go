package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

// projectFlag adds the flag that names a project.
func projectFlag(cmd *cobra.Command, into *coordination.InProject) {
	cmd.Flags().StringVar((*string)(&into.Project), "project", "", "id of the project (default $PARLEY_PROJECT, or the hub's only project)")
}

// inProject adds the flag that names a project. Without it the project is the one
// of the environment, or the only one of the hub.
func (a *app) inProject(cmd *cobra.Command, in *coordination.InProject) preparation {
	projectFlag(cmd, in)
	return func(ctx context.Context, _ []string) error {
		in.Project = cmp.Or(in.Project, coord.ProjectID(os.Getenv("PARLEY_PROJECT")))
		if in.Project != "" {
			return nil
		}
		got, err := call(ctx, a, coordination.ListProjects, coordination.ListParams{Summary: true, Limit: 2})
		switch {
		case err != nil:
			return err
		case len(got.Projects) == 0:
			return hub.Errorf(hub.CodeNotFound, "parley", "this hub has no projects yet").
				WithHint(`create one with "parley project create NAME --objective TEXT --repo NAME:ROLE:LANGUAGE"`)
		case len(got.Projects) > 1:
			return usagef("this hub has more than one project; pass --project").WithHint(`run "parley project list" to list them`)
		}
		in.Project = got.Projects[0].ID
		return nil
	}
}

// inContract completes a command about the contract that its first argument names.
func (a *app) inContract(cmd *cobra.Command, in *coordination.InContract) preparation {
	find := a.inProject(cmd, &in.InProject)
	return func(ctx context.Context, args []string) error {
		in.Contract = coord.ContractID(args[0])
		return find(ctx, args)
	}
}
