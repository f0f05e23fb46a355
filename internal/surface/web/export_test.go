package web

import (
	"maps"
	"slices"
)

// Routes returns every pattern that the page answers.
func Routes() ([]string, error) {
	h, err := NewHandler(Options{Teams: true})
	if err != nil {
		return nil, err
	}
	return h.routes, nil
}

// Changes returns the names of the changes that forms can make.
func Changes() []string { return slices.Sorted(maps.Keys(changes)) }
