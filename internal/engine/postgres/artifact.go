package postgres

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-agents/parley/hub"
)

// chunkSize is how many bytes of an artifact one row has.
const chunkSize = 1 << 20

// artifactLimit is how long the transfer of an artifact may take.
const artifactLimit = 5 * time.Minute

// Files keeps content in files named by its SHA-256.
type Files interface {
	Put(r io.Reader) (path, sha256 string, size int64, err error)
	Open(sha256 string) (*os.File, error)
	Remove(sha256 string) error
}

// Artifacts keeps artifacts in the database, in chunks. Every hub has files with copies
// of those that went through it, from which it reads; the database says which there
// are.
type Artifacts struct {
	s     *Store
	files Files
}

// Artifacts returns the artifacts of the database, with copies in files.
func (s *Store) Artifacts(files Files) *Artifacts { return &Artifacts{s, files} }

// Put stores the content of r. Content that is there already is not stored twice.
func (a *Artifacts) Put(r io.Reader) (path, sum string, size int64, err error) {
	path, sum, size, err = a.files.Put(r)
	if err != nil {
		return "", "", 0, err
	}
	f, err := a.files.Open(sum)
	if err == nil {
		err = a.send(sum, size, f)
		f.Close()
	}
	if err != nil {
		return "", "", 0, err
	}
	return path, sum, size, nil
}

// send copies content into the database, in one transaction.
func (a *Artifacts) send(sum string, size int64, r io.Reader) error {
	ctx, cancel := context.WithTimeout(context.Background(), artifactLimit)
	defer cancel()
	return a.s.borrow(ctx, "postgres.Put", func(c *reader) error {
		return c.c.Refine(pgx.BeginFunc(ctx, c.px, func(tx pgx.Tx) error { return sendChunks(ctx, tx, sum, size, r) }))
	})
}

// sendChunks stores content that the database does not have yet.
func sendChunks(ctx context.Context, tx pgx.Tx, sum string, size int64, r io.Reader) error {
	added, err := tx.Exec(ctx, `INSERT INTO artifacts (sha256, size) VALUES ($1, $2) ON CONFLICT DO NOTHING`, sum, size)
	if err != nil || added.RowsAffected() == 0 {
		return err
	}
	chunk := make([]byte, chunkSize)
	for i := 0; ; i++ {
		n, err := io.ReadFull(r, chunk)
		if err == io.EOF {
			return nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return hub.Errorf(hub.CodeDegraded, "postgres.Put", "cannot read the artifact: %v", err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO artifact_chunks (sha256, n, content) VALUES ($1, $2, $3)`, sum, i, chunk[:n]); err != nil {
			return err
		}
	}
}

// Fetch copies everything that the database has into the files.
func (a *Artifacts) Fetch(ctx context.Context) error {
	var sums []string
	err := a.s.borrow(ctx, "postgres.Fetch", func(c *reader) error {
		got, err := c.px.Query(ctx, `SELECT sha256 FROM artifacts ORDER BY sha256`)
		if err == nil {
			sums, err = pgx.CollectRows(got, pgx.RowTo[string])
		}
		return c.c.Refine(err)
	})
	for _, sum := range sums {
		if err == nil {
			var f *os.File
			if f, err = a.Open(sum); err == nil {
				err = f.Close()
			}
		}
	}
	return err
}

// Open returns stored content. It reports CodeNotFound when there is none.
func (a *Artifacts) Open(sum string) (*os.File, error) {
	const op = "postgres.Open"
	f, err := a.files.Open(sum)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return nil, err
	}

	// The database decides whether the content exists; the file is a copy, and another hub may have
	// removed the content.
	ctx, cancel := context.WithTimeout(context.Background(), artifactLimit)
	defer cancel()
	size := int64(-1)
	ask := a.s.borrow(ctx, op, func(c *reader) error {
		err := c.px.QueryRow(ctx, `SELECT size FROM artifacts WHERE sha256 = $1`, sum).Scan(&size)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return c.c.Refine(err)
	})

	switch {
	case ask == nil && size >= 0 && f != nil:
		return f, nil
	case f != nil:
		f.Close()
	}
	if ask != nil {
		return nil, ask
	}
	if size < 0 { // another hub removed it
		return nil, errors.Join(hub.Errorf(hub.CodeNotFound, op, "no artifact with hash %s", sum), a.files.Remove(sum))
	}

	// The copy is missing: it is made again from the chunks in the database.
	_, got, _, err := a.files.Put(&chunks{a: a, ctx: ctx, sum: sum, size: size})
	if err != nil {
		return nil, err
	}
	if got != sum {
		return nil, errors.Join(hub.Errorf(hub.CodeHashMismatch, op, "the database has other content under %s", sum), a.files.Remove(got))
	}
	return a.files.Open(sum)
}

// Remove removes stored content, if it is there. Another hub that has a copy removes it
// when it is asked for it, or when it starts.
func (a *Artifacts) Remove(sum string) error {
	ctx, cancel := context.WithTimeout(context.Background(), artifactLimit)
	defer cancel()
	err := a.s.borrow(ctx, "postgres.Remove", func(c *reader) error {
		_, err := c.px.Exec(ctx, `DELETE FROM artifacts WHERE sha256 = $1`, sum)
		return c.c.Refine(err)
	})
	return errors.Join(err, a.files.Remove(sum))
}

// chunks reads an artifact out of the database.
type chunks struct {
	a    *Artifacts
	ctx  context.Context
	sum  string
	size int64
	next int64
	rest []byte
}

func (r *chunks) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.next*chunkSize >= r.size {
			return 0, io.EOF
		}
		err := r.a.s.borrow(r.ctx, "postgres.Open", func(c *reader) error {
			err := c.px.QueryRow(r.ctx, `SELECT content FROM artifact_chunks WHERE sha256 = $1 AND n = $2`, r.sum, r.next).Scan(&r.rest)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return io.ErrUnexpectedEOF
			case err != nil:
				return errors.Join(io.ErrUnexpectedEOF, c.c.Refine(err))
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		r.next++
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
