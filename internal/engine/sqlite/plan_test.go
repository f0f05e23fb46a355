package sqlite

import (
	"strings"
	"testing"
)

// TestPlans keeps each list on the index it is there for: nothing may scan a
// table that grows, and no long list may be sorted.
func TestPlans(t *testing.T) {
	s := openTest(t, nil)
	r := <-s.readers
	defer func() { s.readers <- r }()
	for id := stmtAgent; id < stmtCount; id++ {
		st, _, err := r.c.db.Prepare(`EXPLAIN QUERY PLAN ` + statements[id])
		if err != nil {
			t.Errorf("statement %d: %v", id, err)
			continue
		}
		var plan []string
		for st.Step() {
			plan = append(plan, st.ColumnText(3))
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if id == stmtHeld || id == stmtKeys || id == stmtAgents || id == stmtArchives || id == stmtPeers || id == stmtOutboxes || id == stmtInvites {
			continue // a few rows, or said to be slow
		}
		for _, step := range plan {
			walks := strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "VIRTUAL TABLE") && !strings.Contains(step, "VALUES CLAUSE") &&
				!strings.Contains(step, "(subquery") && id != stmtJournalHead
			if walks || step == "USE TEMP B-TREE FOR ORDER BY" {
				t.Errorf("statement %d:\n%s\nhas the plan\n%s", id, statements[id], strings.Join(plan, "\n"))
			}
		}
	}
}
