package rows

// A Dialect is the SQL of an engine. Most statements are the same text in every dialect;
// where the engines differ, the texts of both stand side by side in a method below.
//
// One difference is in nearly all statements and has no text here: a parameter is ?1 or ?
// on SQLite and $1 on PostgreSQL. SQLite takes $1 as a name and numbers names by their
// first use, so that no spelling serves both. PostgreSQL's engine writes the numbers once
// for each statement that it prepares.
type Dialect int

// The dialects.
const (
	SQLite Dialect = iota
	PostgreSQL
)

// pick returns the text of the dialect.
func (d Dialect) pick(sqlite, postgresql string) string {
	if d == PostgreSQL {
		return postgresql
	}
	return sqlite
}

// indexedBy follows the name of a table and keeps a statement on the index that it is
// there for. PostgreSQL has no such words: its settings do that.
func (d Dialect) indexedBy(index string) string { return d.pick(` INDEXED BY `+index, ``) }

// join joins a table, with a condition. On SQLite the tables are read in the order in which
// they are written; on PostgreSQL the planner finds the same order.
func (d Dialect) join(table string) string { return d.pick(` CROSS JOIN `+table, ` JOIN `+table) }

// contains is the condition that a text has a part.
func (d Dialect) contains(text, part string) string {
	return d.pick(`instr(`+text+`, `+part+`) > 0`, `strpos(`+text+`, `+part+`) > 0`)
}

// member is the text of a member of a JSON object in a column of text.
func (d Dialect) member(column, name string) string {
	return d.pick(column+` ->> '`+name+`'`, column+`::json ->> '`+name+`'`)
}

// joinArtifacts joins the artifacts of a JSON object in a column of text, as a.value.
func (d Dialect) joinArtifacts(column string) string {
	return d.pick(
		` JOIN json_each(`+column+`, '$.artifacts') AS a`,
		` CROSS JOIN LATERAL json_array_elements(`+column+`::json -> 'artifacts') AS a`,
	)
}

// arrayOf is the JSON array of the distinct values of an expression.
func (d Dialect) arrayOf(expression string) string {
	return d.pick(`json_group_array(DISTINCT `+expression+`)`, `json_agg(DISTINCT `+expression+`)`)
}

// elements are the rows of a JSON array of texts in a parameter, as value.
func (d Dialect) elements(parameter string) string {
	return d.pick(`json_each(`+parameter+`)`, `json_array_elements_text(`+parameter+`::json)`)
}

// hasWords is the condition that a message has the words of Conn.Match, its parameter.
func (d Dialect) hasWords() string {
	return d.pick(`message_text MATCH ?`, `p.words @@ (?::text)::tsquery`)
}

// wordSeq is the column with the seq of a message in the index of words, message_text AS p.
func (d Dialect) wordSeq() string { return d.pick(`p.rowid`, `p.seq`) }

// untilCommit ends a statement whose row must stay as it is until the commit. On SQLite
// there is one writer, which has the row for itself.
func (d Dialect) untilCommit() string { return d.pick(``, ` FOR SHARE`) }
