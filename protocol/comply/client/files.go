package client

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// The methods for files.
const (
	readMethod  = "fs/read_text_file"
	writeMethod = "fs/write_text_file"
)

// fileScenarios are about files that the agent reads and writes through the client.
var fileScenarios = []*Scenario{
	{
		ID: "client.fs.read", Title: "the agent reads a file", Area: "Files", Protocol: 1,
		Rules: []string{"CL-CAP-05", "CL-FS-01", "CL-FS-02", "CL-FS-03"},
		turn:  withFolder("fs.readTextFile", playRead),
	},
	{
		ID: "client.fs.write", Title: "the agent writes files", Area: "Files", Protocol: 1,
		Rules: []string{"CL-CAP-06", "CL-FS-04"}, Press: "allow the change if the client asks",
		turn: withFolder("fs.writeTextFile", playWrite),
	},
	{
		ID: "client.fs.odd", Title: "the agent reads things that are no text files", Area: "Files", Protocol: 1,
		Rules: []string{"CL-FS-05"},
		turn:  withFolder("fs.readTextFile", playOdd),
	},
	{
		ID: "client.fs.large", Title: "the agent reads a file of 50 MB", Area: "Files", Protocol: 1,
		Rules: []string{"CL-FS-06"},
		turn:  withFolder("fs.readTextFile", playLarge),
	},
}

// withFolder returns a turn that needs a capability and has a folder inside that of the
// session, which is removed afterwards.
func withFolder(capability string, turn func(c *conversation, dir string)) func(*conversation, *rules.Entry) {
	return func(c *conversation, _ *rules.Entry) {
		if !c.can(capability) {
			c.skip("the client did not announce %s", capability)
			return
		}
		dir, err := os.MkdirTemp(is(c, func() string { return c.cwd }), "parley-comply-")
		if err != nil {
			c.skip("no folder could be made in that of the session: %v", err)
			return
		}
		defer os.RemoveAll(dir)
		turn(c, dir)
	}
}

// readFile asks the client for a file.
func (c *conversation) readFile(path string, further object) *call {
	p := object{"sessionId": c.sessionID(), "path": path}
	for name, value := range further {
		p[name] = value
	}
	return c.ask(readMethod, p)
}

// content waits for the content of a file. It reports false if there is none to judge: the
// client refused, or broke a rule by its silence.
func (c *conversation) content(k *call) (string, *rules.Entry, bool) {
	e := c.require("CL-FS-05", "an answer to the request", k)
	switch {
	case e == nil:
		return "", nil, false
	case codeOf(e) == codeNoMethod:
		c.broke("CL-CAP-05", "fs/read_text_file works, because the client announced it", "the answer is "+clipped(string(e.Raw)), c.called("initialize"), k.request, e)
		return "", e, false
	case isError(e):
		c.skip("the client refused to read a file: %s", clipped(shown(e.Failure())))
		return "", e, false
	}
	text, ok := resultOf(e)["content"].(string)
	if !ok {
		c.broke("CL-FS-01", "the content of the file", "the answer is "+clipped(string(e.Raw)), k.request, e)
	}
	return text, e, ok
}

// playRead reads a file, a part of it, and one that is not there.
func playRead(c *conversation, dir string) {
	const whole = "one\ntwo äöü\nthree\nfour\n"
	path := filepath.Join(dir, "lines.txt")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		c.skip("the file could not be written: %v", err)
		return
	}
	k := c.readFile(path, nil)
	got, e, ok := c.content(k)
	if !ok {
		return
	}
	c.meet()
	if got != whole {
		c.broke("CL-FS-01", shown(whole), "the content is "+shown(got), k.request, e)
	}

	k = c.readFile(path, object{"line": 2, "limit": 2})
	if got, e, ok = c.content(k); !ok {
		return
	}
	if strings.TrimSuffix(got, "\n") != "two äöü\nthree" {
		c.broke("CL-FS-02", "the lines 2 and 3", "the content is "+shown(got), k.request, e)
	}

	k = c.readFile(filepath.Join(dir, "absent.txt"), nil)
	if e := c.require("CL-FS-05", "an answer to the request", k); e != nil && !isError(e) {
		c.broke("CL-FS-03", "an error, because there is no such file", "the answer is "+clipped(string(e.Raw)), k.request, e)
	}
}

// playWrite writes a new file and replaces it.
func playWrite(c *conversation, dir string) {
	path := filepath.Join(dir, "new.txt")
	for _, want := range []string{"first\nsecond ß\n", "third\n"} {
		k := c.ask(writeMethod, object{"sessionId": c.sessionID(), "path": path, "content": want})
		e := c.require("CL-FS-05", "an answer to the request", k)
		switch {
		case e == nil:
			return
		case codeOf(e) == codeNoMethod:
			c.broke("CL-CAP-06", "fs/write_text_file works, because the client announced it", "the answer is "+clipped(string(e.Raw)), c.called("initialize"), k.request, e)
			return
		case isError(e):
			c.skip("the client refused to write a file: %s", clipped(shown(e.Failure())))
			return
		}
		c.meet()
		if !c.wrote(path, want, k, e) {
			return
		}
	}
}

// wrote judges whether a file has its content. An editor may keep it unsaved: then it must
// return it.
func (c *conversation) wrote(path, want string, k *call, e *rules.Entry) bool {
	got, err := os.ReadFile(path)
	if err == nil && string(got) == want {
		return true
	}
	if c.can("fs.readTextFile") {
		if answer := c.answer(c.readFile(path, nil)); text(resultOf(answer), "content") == want {
			return true
		}
	}
	actual := "the file has the content " + shown(clipped(string(got)))
	if err != nil {
		actual = "there is no such file"
	}
	c.broke("CL-FS-04", "the file with the content "+shown(want), actual, k.request, e)
	return false
}

// playOdd asks for things that may be refused, but not left unanswered.
func playOdd(c *conversation, dir string) {
	c.meet()
	binary := filepath.Join(dir, "bytes.bin")
	if err := os.WriteFile(binary, []byte{'a', 0xff, 0xfe, 0x00, 0xc3, '\n'}, 0o600); err != nil {
		c.skip("the file could not be written: %v", err)
		return
	}
	for _, path := range []string{
		filepath.Join(dir, "absent.txt"),
		dir,
		binary,
		filepath.Join(filepath.Dir(filepath.Dir(dir)), "parley-outside.txt"),
		"relative.txt",
		"",
	} {
		k := c.readFile(path, nil)
		if c.require("CL-FS-05", "an answer, which may be an error", k) == nil {
			return
		}
	}
	c.alive("CL-FS-05", "requests for things that are no text files")
}

// playLarge reads a large file. The client may refuse it.
func playLarge(c *conversation, dir string) {
	const size = 50 << 20
	path := filepath.Join(dir, "large.txt")
	line := append(bytes.Repeat([]byte("0123456789"), 10), '\n')
	if err := os.WriteFile(path, bytes.Repeat(line, size/len(line)), 0o600); err != nil {
		c.skip("the file could not be written: %v", err)
		return
	}
	c.meet()
	k := c.readFile(path, nil)
	e := c.answerIn(k, 2*c.limit)
	if e == nil {
		c.missing("CL-FS-06", "the content or an error", k.request)
		return
	}
	if got := text(resultOf(e), "content"); !isError(e) && len(got) != size/len(line)*len(line) {
		c.broke("CL-FS-06", "the whole file, or an error", "the content has another length than the file", k.request)
	}
	c.alive("CL-FS-06", "a file of 50 MB", k.request)
}
