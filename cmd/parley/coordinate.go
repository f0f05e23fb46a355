package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

// coordinate makes one call of the coordination protocol and reads its result.
func coordinate[T any](ctx context.Context, a *app, method string, params map[string]any) (T, error) {
	var out T
	c, err := a.client()
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return out, err
	}
	answer, err := c.Call(ctx, method, raw)
	if err != nil {
		return out, plainly(err)
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("%s: read the answer: %w", method, err)
	}
	return out, nil
}

// plainly returns an error without the words that the protocol puts before each
// text.
func plainly(err error) error {
	var e *hub.Error
	if errors.As(err, &e) && e.Err != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(e.Err.Error(), "Invalid params: "), "Server error: ")
		if text != e.Err.Error() {
			e.Err = errors.New(text)
		}
	}
	return err
}

// A projectFlag names the project that a command is about.
type projectFlag struct{ id string }

// projectOf adds the flag to a command.
func projectOf(cmd *cobra.Command) *projectFlag {
	f := new(projectFlag)
	cmd.Flags().StringVar(&f.id, "project", "", "the project (default $PARLEY_PROJECT, else the only one there is)")
	return f
}

// find returns the project: the one named, or the only one there is.
func (f *projectFlag) find(ctx context.Context, a *app) (hub.ProjectID, error) {
	if f.id != "" {
		return hub.ProjectID(f.id), nil
	}
	if id := os.Getenv("PARLEY_PROJECT"); id != "" {
		return hub.ProjectID(id), nil
	}
	got, err := coordinate[projectList](ctx, a, "cacp/project/list", map[string]any{"summary": true, "limit": 2})
	switch {
	case err != nil:
		return "", err
	case len(got.Projects) == 0:
		return "", hub.Errorf(hub.CodeNotFound, "parley", "there is no project yet").WithHint("make one: parley project create NAME --objective TEXT --repo NAME:ROLE:LANGUAGE")
	case len(got.Projects) > 1:
		return "", usagef("there are several projects; name one with --project").WithHint("parley project list shows them")
	}
	return got.Projects[0].ProjectSummary.ID, nil
}

// A projectList is what cacp/project/list answers, as far as it is shown.
type projectList struct {
	Projects []struct {
		coordination.ProjectSummary
		Name      string            `json:"name"`
		Objective string            `json:"objective"`
		Status    hub.ProjectStatus `json:"status"`
	} `json:"projects"`
}

// set adds a member to parameters unless its value says nothing.
func set[V comparable](params map[string]any, name string, value V) {
	var none V
	if value != none {
		params[name] = value
	}
}

// setList adds a list to parameters unless it is empty.
func setList[V any](params map[string]any, name string, list []V) {
	if len(list) > 0 {
		params[name] = list
	}
}
