package comply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// needsLogin is why a test ends that met the error of a missing login.
const needsLogin = "the agent needs a login"

// loginReason tells how to log in to an agent that offers these ways.
func loginReason(offered []string) string {
	ways := "the agent offers no methods"
	if len(offered) > 0 {
		ways = "the agent offers " + strings.Join(offered, ", ")
	}
	return fmt.Sprintf("needs a login: use --auth METHOD (%s), variables (--env) or your home folder (--real-home)", ways)
}

// aboutLogin reports whether a test is about logins, so that it does not need one.
func aboutLogin(t *jsont.Test) bool {
	return slices.ContainsFunc(t.Rules, func(id string) bool { return strings.HasPrefix(id, "AUTH-") || id == "ERR-03" })
}

// needsSession reports whether a test opens a session, or sends a request about one.
func needsSession(t *jsont.Test) bool {
	return !aboutLogin(t) && slices.ContainsFunc(t.Steps, opensSession)
}

func opensSession(s jsont.Step) bool {
	switch a := s.Action.(type) {
	case *jsont.NewSession:
		return true
	case *jsont.Send:
		method := a.Frame.Get("method")
		return method != nil && strings.HasPrefix(method.Text, "session/")
	}
	return slices.ContainsFunc(s.Inner, opensSession)
}

// wantsLogin reports whether an answer to a method says that a login is missing, in a test that is
// about something else. An answer to initialize may not.
func (r *testRun) wantsLogin(method string, answer *rules.Entry) bool {
	return method != rules.MethodInitialize && !aboutLogin(r.test) && rules.WantsLogin(answer, r.logins)
}

// logIn logs in before the first request about sessions of a conversation, if the run has
// a way to do so.
// A login that fails makes the test moot: it says nothing about the behaviour after
// it.
func (r *testRun) logIn(ctx context.Context, method string) *rules.Finding {
	isDue := r.auth != "" && !r.c.loggedIn && !aboutLogin(r.test)
	if !isDue || !strings.HasPrefix(method, "session/") || !r.c.greeted() {
		return nil
	}
	r.c.loggedIn = true
	if err := logIn(ctx, r.c, r.auth, r.allowed.start); err != nil {
		if ctx.Err() != nil {
			return r.abort(ctx.Err())
		}
		r.moot = fmt.Sprintf("the login with %s failed: %v", r.auth, err)
	}
	return nil
}

// logIn logs in over the protocol with one of the ways that the agent offers.
func logIn(ctx context.Context, c *conversation, way string, timeout time.Duration) error {
	method := rules.MethodLogin1
	if c.services.version == 2 {
		method = rules.MethodLogin2
	}
	answer, err := c.call(ctx, method, map[string]any{"methodId": way}, timeout)
	if err == nil && answer.Failure() != nil {
		err = fmt.Errorf("%s", jsont.Brief(answer.Failure()))
	}
	return err
}

// greeted reports whether initialize was answered with a result.
func (c *conversation) greeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.requests, func(q *request) bool {
		return q.Request.Method == rules.MethodInitialize && q.Answer != nil && q.Answer.Failure() == nil
	})
}
