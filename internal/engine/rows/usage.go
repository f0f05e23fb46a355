package rows

import (
	"fmt"

	"github.com/parley-agents/parley/hub"
)

var usages = newTable("usages", "usage", "cli, id, record, source, agent, session, model, input, output, cached_read, cached_write, reasoning, cost, currency, run, handoff, task, team, wake, thread, at, known", func(c *codec, v *hub.Usage) {
	c.text(&v.CLI)
	c.text(&v.ID)
	c.int64(&v.Record)
	c.text((*string)(&v.Source))
	c.text((*string)(&v.Agent))
	c.optional(&v.Session)
	c.optional(&v.Model)
	c.int64(&v.Input)
	c.int64(&v.Output)
	c.int64(&v.CachedRead)
	c.int64(&v.CachedWrite)
	c.int64(&v.Reasoning)
	c.int64(&v.Cost)
	c.optional(&v.Currency)
	c.optional((*string)(&v.Run))
	c.optional((*string)(&v.Handoff))
	c.optional((*string)(&v.Task))
	c.optional((*string)(&v.Team))
	c.optional(&v.Wake)
	c.optional(&v.Thread)
	c.stamp(&v.At)
	c.bool(&v.Known)
})

var budgets = newTable("budgets", "budget", "n, of_name, most, unit, currency, per, hard, set_at, set_by, told_for, spent_for, unpriced", func(c *codec, v *hub.Budget) {
	c.int64(&v.N)
	c.text(&v.Of)
	c.int64(&v.Limit)
	c.text((*string)(&v.Unit))
	c.optional(&v.Currency)
	c.text((*string)(&v.Per))
	c.bool(&v.Hard)
	c.stamp(&v.SetAt)
	c.text((*string)(&v.SetBy))
	c.time(&v.WarnedFor)
	c.time(&v.SpentFor)
	unpriced := ""
	if v.Unpriced {
		unpriced = allowed
	}
	c.optional(&unpriced)
	v.Unpriced = unpriced == allowed
	v.ID = hub.NewBudgetID(v.N)
})

// allowed is the word of a budget that was opened for models without a price.
const allowed = "allow"

var (
	// usageRecords sums up in whole numbers: PostgreSQL would answer with another type.
	usageRecords  = statement(`SELECT record, min(agent), count(*), ` + usageSums + ` FROM usages WHERE record > ?1 GROUP BY record ORDER BY record LIMIT ?2`)
	firstOfRecord = usages.query(`WHERE record = ?1 LIMIT 1`)
	usageByID     = usages.query(`WHERE id = ?1 ORDER BY agent`)
	replaceUsage  = statement(`UPDATE usages SET source = ?3, model = ?4, input = ?5, output = ?6, cached_read = ?7, cached_write = ?8, reasoning = ?9, cost = ?10, currency = ?11, known = ?12
		WHERE agent = ?1 AND id = ?2`)
	lastRecord = statement(`SELECT coalesce(max(record), 0) FROM usages`)
	allBudgets = budgets.query(`ORDER BY n`)
	putBudget  = statement(`INSERT INTO budgets (n, of_name, most, unit, currency, per, hard, set_at, set_by, told_for, spent_for, unpriced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
		ON CONFLICT (n) DO UPDATE SET of_name = excluded.of_name, most = excluded.most, unit = excluded.unit, currency = excluded.currency, per = excluded.per,
		hard = excluded.hard, set_at = excluded.set_at, set_by = excluded.set_by, told_for = excluded.told_for, spent_for = excluded.spent_for, unpriced = excluded.unpriced`)
	removeBudget = statement(`DELETE FROM budgets WHERE n = ?1`)
)

// usageSums are the sums of all counts, in the order of scanTokens.
const usageSums = `CAST(sum(input) AS BIGINT), CAST(sum(output) AS BIGINT), CAST(sum(cached_read) AS BIGINT), CAST(sum(cached_write) AS BIGINT), CAST(sum(reasoning) AS BIGINT), CAST(sum(cost) AS BIGINT)`

// scanTokens reads the columns of usageSums from a place on.
func scanTokens(s Stmt, from int) (t hub.Tokens, cost int64) {
	t.Input = s.ColumnInt64(from)
	t.Output = s.ColumnInt64(from + 1)
	t.CachedRead = s.ColumnInt64(from + 2)
	t.CachedWrite = s.ColumnInt64(from + 3)
	t.Reasoning = s.ColumnInt64(from + 4)
	return t, s.ColumnInt64(from + 5)
}

// usageKeys are the expressions by which usage is summed up.
var usageKeys = map[hub.UsageKind]string{
	"":            `''`,
	hub.ByAgent:   `agent`,
	hub.ByTask:    `coalesce(task, handoff, run, thread, '` + hub.OwnWork + `')`,
	hub.ByHandoff: `coalesce(handoff, '')`,
	hub.ByTeam:    `coalesce(team, '')`,
	hub.ByModel:   `coalesce(model, '')`,
	hub.ByDay:     `substr(at, 1, 10)`,
	hub.ByRun:     `coalesce(run, '')`,
}

// A usageReader is the hub.UsageReader of a reader.
type usageReader struct{ r *reader }

// A usageWriter is the hub.UsageWriter of a transaction.
type usageWriter struct{ t *tx }

func (r *reader) Usage() hub.UsageReader { return usageReader{r} }

func (t *tx) WriteUsage() hub.UsageWriter { return usageWriter{t} }

// usageFilter returns the conditions of a query.
func usageFilter(q hub.UsageQuery) (f filter) {
	if !q.Since.IsZero() {
		f.add("at >= ?", q.Since.String())
	}
	f.equal("agent", string(q.Agent))
	f.equal("handoff", string(q.Handoff))
	f.equal("task", string(q.Task))
	f.equal("team", string(q.Team))
	f.equal("run", string(q.Run))
	if q.Known {
		f.add("known = ?", int64(1))
	}
	return f
}

func (v usageReader) Sums(query hub.UsageQuery) (out []hub.UsageSum, err error) {
	key, known := usageKeys[query.By]
	if !known {
		return nil, hub.Errorf(hub.CodeInvalid, "store.Usage.Sums", "usage is not summed up by %q", query.By)
	}
	f := usageFilter(query)
	q := v.r.dynamic(fmt.Sprintf(`SELECT %s AS k, coalesce(model, '') AS m, coalesce(currency, '') AS c, count(*), %s, CAST(sum(CASE WHEN known = 0 THEN input + output + cached_read + cached_write ELSE 0 END) AS BIGINT) FROM usages %s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, key, usageSums, f.where()))
	q.bind(f.args...)
	for q.next() {
		s := hub.UsageSum{Key: q.s.ColumnText(0), Model: q.s.ColumnText(1), Currency: q.s.ColumnText(2), Calls: q.s.ColumnInt64(3)}
		s.Tokens, s.Cost = scanTokens(q.s, 4)
		s.Said = q.s.ColumnInt64(10)
		out = append(out, s)
	}
	return out, engineError("store.Usage.Sums", q.done())
}

func (v usageReader) Turns(query hub.UsageQuery) (map[string]int64, error) {
	f := usageFilter(query)
	q := v.r.dynamic(fmt.Sprintf(`SELECT %s AS k, count(DISTINCT record) FROM usages %s GROUP BY 1`, usageKeys[query.By], f.where()))
	q.bind(f.args...)
	out := map[string]int64{}
	for q.next() {
		out[q.s.ColumnText(0)] = q.s.ColumnInt64(1)
	}
	return out, engineError("store.Usage.Turns", q.done())
}

func (v usageReader) Records(after int64, limit int) (out []hub.UsageRecord, err error) {
	q := v.r.query(usageRecords)
	q.bind(after, limit)
	for q.next() {
		r := hub.UsageRecord{Record: q.s.ColumnInt64(0), Agent: hub.AgentID(q.s.ColumnText(1)), Calls: q.s.ColumnInt64(2)}
		r.Tokens, r.Cost = scanTokens(q.s, 3)
		out = append(out, r)
	}
	return out, engineError("store.Usage.Records", q.done())
}

func (v usageReader) First(record int64) (hub.Usage, error) {
	return usages.one(v.r, hub.NewUsageID(record), firstOfRecord, record)
}

func (v usageReader) Calls(id string) ([]hub.Usage, error) { return usages.all(v.r, usageByID, id) }

func (v usageReader) LastRecord() (n int64, err error) {
	q := v.r.query(lastRecord)
	for q.next() {
		n = q.s.ColumnInt64(0)
	}
	return n, engineError("store.Usage.LastRecord", q.done())
}

func (v usageReader) Budgets() ([]hub.Budget, error) { return budgets.all(v.r, allBudgets) }

func (w usageWriter) Add(u hub.Usage) (bool, error) {
	n, err := usages.write(w.t, usages.insert, &u)
	return n > 0, err
}

func (w usageWriter) Replace(u hub.Usage) error {
	changed, err := w.t.run(usages.op(), replaceUsage, string(u.Agent), u.ID, string(u.Source), null(u.Model), u.Input, u.Output, u.CachedRead, u.CachedWrite, u.Reasoning, u.Cost, null(u.Currency), u.Known)
	if err == nil && changed == 0 {
		return notFound(usages.op(), "usage", string(u.Agent)+" "+u.ID)
	}
	return err
}

func (w usageWriter) PutBudget(b hub.Budget) error {
	_, err := budgets.write(w.t, putBudget, &b)
	return err
}

func (w usageWriter) RemoveBudget(n int64) error {
	changed, err := w.t.run(budgets.op(), removeBudget, n)
	if err == nil && changed == 0 {
		return notFound(budgets.op(), "budget", hub.NewBudgetID(n))
	}
	return err
}
