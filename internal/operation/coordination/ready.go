package coordination

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A Deployment is the answer to parley/contract/deployed.
type Deployment struct {
	Deployment contract.Deployed `json:"deployment"`
}

func deployed(d contract.Deployed, err error) (Deployment, error) { return Deployment{d}, err }

func listEnvironments(ctx context.Context, s *Services, c hub.Caller, p ProjectParams) (contract.Environments, error) {
	return s.Contracts.Environments(ctx, c, p.InProject)
}

// ReadyParams are the parameters of parley/contract/canMerge and parley/contract/canDeploy.
type ReadyParams struct {
	contract.Candidate
	WaitS strictjson.Count `json:"waitS,omitzero"` // seconds to wait for a yes; most 60
}

// waits performs CanMerge or CanDeploy, starts the tests that a no lacks, and asks again after each
// change until the answer is yes or the time is over.
func waits(do func(*contract.Service, context.Context, hub.Caller, contract.Candidate) (contract.Readiness, error)) func(context.Context, *Services, hub.Caller, ReadyParams) (contract.Readiness, error) {
	return func(ctx context.Context, s *Services, c hub.Caller, p ReadyParams) (contract.Readiness, error) {
		wait := time.Duration(p.WaitS) * time.Second
		if wait < 0 || wait > maxWait {
			return contract.Readiness{}, hub.Errorf(hub.CodeInvalid, "contract.CanMerge", "waitS must be between 0 and %d, got %d", maxWait/time.Second, p.WaitS)
		}

		// The subscription begins before the first answer, so that no change is missed in between.
		hints, cancel := s.Bus.Subscribe(hub.TopicChanges, hub.TopicChecks)
		defer cancel()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for first := true; ; first = false {
			got, err := do(s.Contracts, ctx, c, p.Candidate)
			if err != nil || got.OK() || wait == 0 {
				return got, err
			}
			if first {
				s.Contracts.RunMissing(ctx, s.Runner, c, p.Project, got)
			}
			select {
			case <-hints:
			case <-timer.C:
				return got, nil
			case <-s.Done:
				return got, nil
			case <-ctx.Done():
				return got, ctx.Err()
			}
		}
	}
}

// An Answer is the answer to the questions who_breaks and may_merge of the tool coordinate.
type Answer struct {
	Answer string `json:"answer"` // yes or no, or the verdict
	Text   string `json:"text"`
	Next   string `json:"next"`
}

// short returns an answer of at most 1,500 bytes, also when it is written as JSON.
func short(a Answer) Answer {
	a.Next = shorten.Bytes(a.Next, 300)
	a.Text = shorten.Bytes(a.Text, 900)
	return a
}

// whoBreaks answers which consumers a change of a contract breaks.
func whoBreaks(ctx context.Context, s *Services, c hub.Caller, p contract.ImpactQuery) (Answer, error) {
	got, err := s.Contracts.Impact(ctx, c, p)
	if err != nil {
		return Answer{}, err
	}
	var text strings.Builder
	worst := got.Verdict
	if len(got.Consumers) > 0 {
		worst = compat.Compatible
	}
	for _, x := range got.Consumers {
		if x.Verdict == compat.Compatible {
			continue
		}
		if worst != compat.Breaking {
			worst = x.Verdict
		}
		fmt.Fprintf(&text, "%s: %s", x.Repository, x.Verdict)
		for _, f := range x.Findings {
			if f.IfUsed() != compat.Compatible {
				fmt.Fprintf(&text, " (%s at %s: %s)", f.Rule, f.Pointer, f.Text)
				break
			}
		}
		text.WriteString(". ")
	}

	for _, e := range got.Ending {
		if len(e.Users) > 0 {
			fmt.Fprintf(&text, "%s, and %s still uses it. ", e, strings.Join(e.Users, ", "))
		}
	}
	a := Answer{Answer: string(worst), Text: text.String(), Next: "contract/update with this content: the affected consumers are asked"}
	switch {
	case len(got.Consumers) == 0:
		a.Text = fmt.Sprintf("No repository declared that it uses %s; for a consumer of everything the change is %s.", got.Contract, got.Verdict)
	case text.Len() == 0:
		a.Text = fmt.Sprintf("Nobody: the change is compatible for all %d consumers.", len(got.Consumers))
		a.Next = "contract/update"
	}
	return short(a), nil
}

// mayMerge answers whether a commit may be merged, or deployed if an environment is named.
func mayMerge(ctx context.Context, s *Services, c hub.Caller, p contract.Candidate) (Answer, error) {
	do := s.Contracts.CanMerge
	if p.Env != "" {
		do = s.Contracts.CanDeploy
	}
	got, err := do(ctx, c, p)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Answer: got.Answer, Text: fmt.Sprintf("%d contracts checked.", got.Checked), Next: "merge it"}
	if len(got.Reasons) == 0 {
		return short(a), nil
	}
	var text strings.Builder
	for i, r := range got.Reasons {
		if text.Len() > 700 {
			fmt.Fprintf(&text, "and %d more", len(got.Reasons)-i)
			break
		}
		fmt.Fprintf(&text, "%s: %s (%s). ", r.Contract, r.Reason, r.Who)
	}
	a.Text = text.String()
	a.Next = got.Reasons[0].Who + ": " + got.Reasons[0].Next
	return short(a), nil
}
