package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// AddOperation puts an operation into the table of methods. The caller takes
// it out again with remove.
func AddOperation(method string, call func() (any, error)) (remove func()) {
	byMethod[method] = operation(method, Anyone, true, "for a test", func(context.Context, *Services, hub.Caller, None) (any, error) { return call() })
	return func() { delete(byMethod, method) }
}
