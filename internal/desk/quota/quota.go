// Package quota recognizes the errors with which vendors of models, and the CLIs of agents, say
// that a call failed: an account has nothing left to spend, a login is lost, a context is full.
// The texts hold names of accounts and addresses, so callers keep the answers of Spent and
// Classify and not the text.
package quota

import "github.com/parley-agents/parley/internal/ground/text/pattern"

// spent matches the words of the vendors and of the CLIs. Claude Code calls a limit of the
// account rate_limit; rate_limit_error and rate_limit_exceeded of the vendors are limits of
// a minute, after which a CLI tries again.
var spent = pattern.New(`(?i)usage[_ ]?limit|insufficient_quota|quota[_ ]exceeded|exceeded your current quota|exhausted your .{0,20}quota|\brate_limit\b|billing_error|credit balance|resource_exhausted`)

// Spent reports whether the text of an error says that an account is out of quota.
func Spent(text string) bool { return spent().MatchString(text) }
