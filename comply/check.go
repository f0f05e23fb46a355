package comply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A check step compares a value that is made of variables with a pattern.
type check struct{ value, like, unlike *node }

func (p *parser) check(n *node) action {
	v := p.object(n, "check")
	x := &check{v.get("value"), v.get("like"), v.get("unlike")}
	if x.value == nil || x.like == nil && x.unlike == nil {
		p.fail(n, `a check has a "value", and a pattern that it is "like" or "unlike"`)
	}
	return x
}

func (x *check) play(_ context.Context, s *stage) *Finding {
	vars := s.vars()
	value, _ := decode(x.value.encode(vars.expand))
	if x.like != nil {
		if bad := newPattern(x.like, vars).match(value); bad != nil {
			return s.finding(s.now.step, "a value like "+bad.want, "it is "+bad.got)
		}
	}
	if x.unlike != nil {
		if p := newPattern(x.unlike, vars); p.match(value) == nil {
			return s.finding(s.now.step, "a value unlike "+p.String(), "it is "+brief(value))
		}
	}
	s.met++
	return nil
}

// filePause is how long is waited between two looks at a file: nothing tells
// when a file changes.
const filePause = 20 * time.Millisecond

// maxChecked is how much of a file is looked at.
const maxChecked = 1 << 20

// A fileStep looks at a file in the workspace.
type fileStep struct {
	path    string
	absent  bool
	like    *node // a pattern for the text; may be nil
	unlike  *node // a pattern that must not match the text; may be nil
	timeout time.Duration
}

func (p *parser) fileStep(n *node) action {
	v := p.object(n, "file")
	x := &fileStep{path: p.textAsIs(v, "path"), absent: p.flag(v, "absent"), like: p.typed(v, "text", isString), unlike: p.typed(v, "unlike", isString), timeout: p.duration(v, "timeoutMs", 0)}
	if x.path == "" {
		p.fail(n, `a file step has a "path"`)
	}
	return x
}

// textAsIs returns a text with its variables, to be replaced when it is used.
func (p *parser) textAsIs(n *node, name string) string {
	if v := p.typed(n, name, isString); v != nil {
		return v.text
	}
	return ""
}

// play waits until the file is as it should be. What must not be there or not
// match must not do so at the end of the time either.
func (x *fileStep) play(ctx context.Context, s *stage) *Finding {
	path := s.vars().expand(x.path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	if path = filepath.Clean(path); !strings.HasPrefix(path, filepath.Dir(s.dir)+string(filepath.Separator)) {
		return s.abort(fmt.Errorf("file: %s is not in the workspace", path))
	}
	deadline := time.Now().Add(s.scaled(x.timeout))
	for {
		expected, actual := x.look(path, s.vars())
		over := !time.Now().Before(deadline)
		switch {
		case expected == "" && (over || x.like != nil):
			s.met++
			return nil
		case expected != "" && (over || x.absent):
			return s.finding(s.now.step, expected, actual)
		}
		if delay(filePause).play(ctx, s); s.err != nil {
			return nil
		}
	}
}

// look returns what was expected and what is, nothing if all is well.
func (x *fileStep) look(path string, vars variables) (expected, actual string) {
	name := filepath.Base(path)
	text, err := readSome(path)
	switch {
	case x.absent && err == nil:
		return "no file " + name, "there is one: " + brief(text)
	case x.absent:
		return "", ""
	case errors.Is(err, fs.ErrNotExist):
		return "the file " + name, "there is none"
	case err != nil:
		return "a file " + name + " that can be read", err.Error()
	}
	if x.like != nil {
		if bad := newPattern(x.like, vars).match(text); bad != nil {
			return fmt.Sprintf("the file %s like %s", name, bad.want), "it is " + bad.got
		}
	}
	if x.unlike != nil {
		if p := newPattern(x.unlike, vars); p.match(text) == nil {
			return fmt.Sprintf("the file %s unlike %s", name, p), "it is " + brief(text)
		}
	}
	return "", ""
}

// readSome returns the beginning of a file, which must be a regular one.
func readSome(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", filepath.Base(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, min(info.Size(), maxChecked))
	n, err := f.Read(buf)
	if n == len(buf) {
		err = nil
	}
	return string(buf[:n]), err
}
