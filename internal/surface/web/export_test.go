package web

import (
	"maps"
	"slices"
)

// Routes returns every pattern that the page answers.
func Routes() []string { return NewHandler(Options{Teams: true}).routes }

// Changes returns the names of the changes that forms can make.
func Changes() []string { return slices.Sorted(maps.Keys(changes)) }
