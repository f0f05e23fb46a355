package web

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/check"
)

// checksData has the checks of all repositories and a page of results.
type checksData struct {
	Checks  []hub.RepositoryCheck
	Results check.Page
}

func checks(ctx context.Context, v *visit) (string, any, error) {
	all, err := perform(ctx, v, api.ListChecks, api.RepositoryParams{})
	if err != nil {
		return "", nil, err
	}
	results, err := perform(ctx, v, api.ListResults, api.ResultsParams{Limit: 50, Cursor: hub.CheckResultID(v.r.URL.Query().Get("cursor"))})
	return "Checks", checksData{all.Checks, results}, err
}

func oneResult(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.ShowResult, api.ResultParams{ID: hub.CheckResultID(v.r.PathValue("id"))})
	return got.Result.Name + " " + string(got.Result.ID), got.Result, err
}
