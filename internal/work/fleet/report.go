package fleet

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/report"
)

// A Reply is an agent's answer to a dispatch.
type Reply struct {
	StopReason acp.StopReason
	Report     *report.Result // nil if the agent gave none
	Repeated   bool           // the agent gave no report at first and was prompted for it
	Text       string         // the end of the agent's text in its last turn
}

// maxText is the number of bytes of the agent's text that are kept at the end of a
// turn, where reports stand.
const maxText = 1 << 20

// Work gives the agent a task and returns its report. An agent that ends its turn
// without a report is prompted for the report alone, once; a reply without a report
// after that is no error. When ctx ends the agent is asked to stop, and the error
// is the cause of the context.
func (a *Agent) Work(ctx context.Context, d report.Dispatch) (Reply, error) {
	text, err := d.Text()
	if err != nil {
		return Reply{}, fmt.Errorf("fleet: %w", err)
	}
	var reply Reply
	if reply.Text, reply.StopReason, err = a.prompt(ctx, text, Instruction()); err != nil {
		return reply, err
	}
	found, err := report.ParseAny(reply.Text, nil)
	if err == nil {
		reply.Report = &found
		return reply, nil
	}
	if !reply.StopReason.Success() { // it refused or reached a limit: a second prompt would not help
		return reply, nil
	}
	reply.Repeated = true
	var stop acp.StopReason
	if reply.Text, stop, err = a.prompt(ctx, report.Closure(nil).Text); err != nil {
		return reply, err
	}
	if found, err = report.ParseAny(reply.Text, nil); err == nil {
		reply.Report = &found
	} else {
		reply.StopReason = stop
	}
	return reply, nil
}

// Turn gives the agent a prompt of several texts and returns its answer, with the
// report if there is one in it. Otherwise it is like Work.
func (a *Agent) Turn(ctx context.Context, texts ...string) (reply Reply, err error) {
	if reply.Text, reply.StopReason, err = a.prompt(ctx, texts...); err != nil {
		return reply, err
	}
	if found, err := report.ParseAny(reply.Text, nil); err == nil {
		reply.Report = &found
	}
	return reply, nil
}

// Instruction returns the prompt that explains the report format.
func Instruction() string {
	for _, p := range report.Prompts() {
		if p.Name == "system" {
			return p.Text
		}
	}
	return ""
}

// prompt gives the agent a turn and returns its text.
func (a *Agent) prompt(ctx context.Context, texts ...string) (string, acp.StopReason, error) {
	blocks := make([]acpv2.ContentBlock, len(texts))
	for i, t := range texts {
		blocks[i] = acp.Text(t)
	}
	turn, err := a.session.Prompt(ctx, blocks...)
	if err != nil {
		return "", "", fmt.Errorf("fleet: %w", err)
	}
	text := acp.Transcript{Limit: maxText}
	a.meter = meter{cost: a.meter.cost}
	for u := range turn.Updates() {
		text.Add(u)
		a.meter.update(u)
		if a.opts.OnUpdate != nil {
			a.opts.OnUpdate(u)
		}
	}
	result, err := turn.Wait()
	a.meter.result(result)
	a.used = append(a.used, a.meter.calls()...)
	switch {
	case ctx.Err() != nil:
		return text.String(), result.StopReason, context.Cause(ctx)
	case err != nil:
		return text.String(), result.StopReason, fmt.Errorf("fleet: %w", err)
	}
	return text.String(), result.StopReason, nil
}
