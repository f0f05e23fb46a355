package records

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// recordUsage applies an entry about the usage of a turn, or about a budget.
func (v *verifier) recordUsage(e hub.Entry) {
	if v.Usage == nil || v.Budgets == nil { // a verification that an earlier version paused
		v.Usage = register[hub.UsageRecord]{}
		v.Budgets = register[int64]{}
	}
	switch e.Action {
	case actions.UsageRecorded:
		var want hub.UsageRecord
		if !v.decodeFacts(e, &want) {
			return
		}
		if earlier := v.Usage[e.Subject]; earlier != nil { // calls that came late
			want.Calls += earlier.Want.Calls
			want.Tokens = want.Tokens.Plus(earlier.Want.Tokens)
			want.Cost += earlier.Want.Cost
		}
		v.Usage.put(e.Subject, want, e)
	case actions.BudgetSet:
		var f struct {
			Limit   int64 `json:"limit"`
			Removed bool  `json:"removed"`
		}
		if !v.decodeFacts(e, &f) {
			return
		}
		if f.Removed {
			delete(v.Budgets, e.Subject)
			return
		}
		v.Budgets.put(e.Subject, f.Limit, e)
	}
}

// usagePage is the number of records that are read at once.
const usagePage = 5000

// checkUsage compares the sums of each turn and the limits of budgets with the journal.
func (v *verifier) checkUsage(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "usage and budgets: their records in archives were not read")
		return nil
	}
	for after := int64(0); ; {
		page, err := r.Usage().Records(after, usagePage)
		if err != nil {
			return err
		}
		for _, stored := range page {
			v.Out.Usage++
			after = stored.Record
			v.Usage.check(v, "usage", hub.NewUsageID(stored.Record), func(want hub.UsageRecord, row int64) string {
				want.Record = stored.Record
				return unless(stored == want, "its sums differ from journal row %d", row)
			})
		}
		if len(page) < usagePage {
			break
		}
	}
	v.Usage.missing(v, "usage")

	budgets, err := r.Usage().Budgets()
	if err != nil {
		return err
	}
	for _, stored := range budgets {
		v.Budgets.check(v, "budget", stored.ID, func(want, row int64) string {
			return unless(stored.Limit == want, "its limit differs from journal row %d", row)
		})
	}
	v.Budgets.missing(v, "budget")
	return nil
}
