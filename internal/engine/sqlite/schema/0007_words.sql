-- Words of messages, under rowid = seq: those of the text, one for each agent
-- concerned and one for the topic. Text is cut into words before it gets here,
-- so that the tokenizer has nothing left to decide; only words that stand for an
-- agent or a topic hold a low line. The index before this one held each word
-- once more for each agent, which cost more with every message than it saved a
-- search. Messages are indexed anew from the first on; see wordindex.go.
DROP TABLE IF EXISTS message_text;
CREATE VIRTUAL TABLE message_text USING fts5(
  words, content='', contentless_delete=1, detail='none', tokenize="ascii tokenchars '_'"
);
INSERT INTO message_text (message_text, rank) VALUES ('automerge', 16);
DELETE FROM cursors WHERE consumer = 'sqlite.texts';
