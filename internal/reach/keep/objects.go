package keep

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/internal/ground/git"
)

// idLength is the number of digits of the id of an object in the format of SHA-256.
const idLength = 64

// idOf returns the id of content as an object of git. wide says that the repository has the
// format of SHA-256.
func idOf(content []byte, wide bool) string {
	var h hash.Hash = sha1.New()
	if wide {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// object returns the file of an object.
func (r *repo) object(id string) string {
	return filepath.Join(r.folder, objectFolder, id[:2], id[2:])
}

// writeBlob stores content as an object in the format of git, unless it is there.
func (r *repo) writeBlob(id string, content []byte) error {
	file := r.object(id)
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return full(err)
	}
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err != nil {
		return err
	}
	fmt.Fprintf(z, "blob %d\x00", len(content))
	z.Write(content)
	if err := z.Close(); err != nil {
		return err
	}
	return r.write(file, b.Bytes())
}

// readBlob returns the content of an object, and checks that it is the one.
func (r *repo) readBlob(id string) ([]byte, error) {
	if len(id) < 3 {
		return nil, fmt.Errorf("keep: %q is no object", id)
	}
	f, err := os.Open(r.object(id))
	if err != nil {
		return nil, fmt.Errorf("keep: read an object: %w", err)
	}
	defer f.Close()
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("keep: read the object %s: %w", id, err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("keep: read the object %s: %w", id, err)
	}
	_, content, _ := bytes.Cut(raw, []byte{0})
	if idOf(content, len(id) == idLength) != id {
		return nil, fmt.Errorf("keep: the object %s is damaged", id)
	}
	return content, nil
}

// list runs a command of git that lists something, in a folder of a user.
func list(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := git.In(ctx, "git", folder, args...)
	cmd.Env = append(cmd.Env, "GIT_NO_REPLACE_OBJECTS=1")
	var out, errOut bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			return "", fmt.Errorf("keep: git %s: %s", args[0], strings.TrimSpace(errOut.String()))
		}
		return "", err
	}
	return out.String(), nil
}

// userBlobs reads objects of a user's repository, each at most once and in the given order.
func userBlobs(ctx context.Context, folder string, ids []string, use func(id string, content []byte) error) error {
	if len(ids) == 0 {
		return nil
	}
	cmd := git.In(ctx, "git", folder, "cat-file", "--batch", "--buffer")
	cmd.Env = append(cmd.Env, "GIT_NO_REPLACE_OBJECTS=1")
	cmd.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = readBatch(bufio.NewReaderSize(out, 1<<16), len(ids), use)
	if err != nil {
		cmd.Process.Kill() // it waits for a reader
	}
	return errors.Join(err, ignoreExit(cmd.Wait(), err))
}

// ignoreExit returns the error of a process, unless the process was killed after another error.
func ignoreExit(waited, cause error) error {
	if cause != nil {
		return nil
	}
	return waited
}

// readBatch reads the answers of git cat-file --batch. A missing object is left out.
func readBatch(in *bufio.Reader, n int, use func(id string, content []byte) error) error {
	for range n {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("keep: git cat-file: %w", err)
		}
		fields := strings.Fields(line)
		if len(fields) != 3 { // the object is missing
			continue
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return fmt.Errorf("keep: git cat-file: %w", err)
		}
		if size > maxFile {
			if _, err := io.CopyN(io.Discard, in, size+1); err != nil {
				return err
			}
			continue
		}
		content := make([]byte, size+1) // and a newline
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		if err := use(fields[0], content[:size]); err != nil {
			return err
		}
	}
	return nil
}

// readFile returns the content of a regular file or the target of a link below a folder, and its
// state. It follows no link out of the folder.
func readFile(root *os.Root, path string, info fs.FileInfo) ([]byte, error) {
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(path)
		return []byte(to), err
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}
