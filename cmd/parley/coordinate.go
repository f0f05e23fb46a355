package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

// A projectFlag names the project that a command is about.
type projectFlag struct{ id string }

// projectOf adds the flag to a command.
func projectOf(cmd *cobra.Command) *projectFlag {
	f := new(projectFlag)
	cmd.Flags().StringVar(&f.id, "project", "", "the project (default $PARLEY_PROJECT, else the only one there is)")
	return f
}

// find returns the project as part of parameters: the one named, or the only
// one there is.
func (f *projectFlag) find(ctx context.Context, a *app) (coordination.InProject, error) {
	var in coordination.InProject
	if in.Project = hub.ProjectID(f.id); in.Project == "" {
		in.Project = hub.ProjectID(os.Getenv("PARLEY_PROJECT"))
	}
	if in.Project != "" {
		return in, nil
	}
	got, err := call(ctx, a, coordination.ListProjects, coordination.ListParams{Summary: true, Limit: 2})
	switch {
	case err != nil:
		return in, err
	case len(got.Projects) == 0:
		return in, hub.Errorf(hub.CodeNotFound, "parley", "there is no project yet").WithHint("make one: parley project create NAME --objective TEXT --repo NAME:ROLE:LANGUAGE")
	case len(got.Projects) > 1:
		return in, usagef("there are several projects; name one with --project").WithHint("parley project list shows them")
	}
	in.Project = got.Projects[0].ID
	return in, nil
}

// contract returns a contract of the project as part of parameters.
func (f *projectFlag) contract(ctx context.Context, a *app, id string) (coordination.InContract, error) {
	in, err := f.find(ctx, a)
	return coordination.InContract{InProject: in, Contract: hub.ContractID(id)}, err
}

// inProject completes a command about one project: it adds the flag, and
// finds the project before run.
func (a *app) inProject(cmd *cobra.Command, run func(ctx context.Context, in coordination.InProject, args []string) error) *cobra.Command {
	project := projectOf(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in, err := project.find(cmd.Context(), a)
		if err != nil {
			return err
		}
		return run(cmd.Context(), in, args)
	}
	return cmd
}

// inContract completes a command about the contract that its first argument
// names.
func (a *app) inContract(cmd *cobra.Command, run func(ctx context.Context, in coordination.InContract, args []string) error) *cobra.Command {
	return a.inProject(cmd, func(ctx context.Context, in coordination.InProject, args []string) error {
		return run(ctx, coordination.InContract{InProject: in, Contract: hub.ContractID(args[0])}, args)
	})
}
