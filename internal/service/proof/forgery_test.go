package proof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/service/proof"
)

// TestForgeries holds that no changed file passes, each with a sentence.
func TestForgeries(t *testing.T) {
	w := newWorld(t)
	old := w.prove("l1")
	w.noise(300)
	w.undo()
	file := w.prove("l1")
	check := w.prove("c1")
	trusted := w.trusted()
	signer, err := attest.NewSigner(trusted[0].Name, key("hub"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proof.Verify(bytesOf(t, file), trusted); err != nil {
		t.Fatalf("the file as it is: %v", err)
	}

	tried := 0
	sentences := map[string]bool{}
	try := func(name string, raw []byte) {
		tried++
		_, err := proof.Verify(raw, trusted)
		switch {
		case err == nil:
			t.Errorf("%s passes", name)
		case len(err.Error()) < 10 || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: the sentence is %q", name, err)
		default:
			sentences[err.Error()] = true
		}
	}

	// Every member of every part, without the key.
	for path, raw := range changes(t, bytesOf(t, file)) {
		try("another "+path, raw)
	}
	for i, e := range file.Statements {
		for path, payload := range changes(t, payloadOf(t, e)) {
			f := clone(t, file)
			f.Statements[i].Payload = base64.StdEncoding.EncodeToString(payload)
			try(fmt.Sprintf("another %s of statement %d", path, i), bytesOf(t, f))
		}
	}

	// Every member of every statement, signed again by the hub itself: the rows do not have it.
	signed := 0
	for i, e := range file.Statements {
		for path, payload := range changes(t, payloadOf(t, e)) {
			f := clone(t, file)
			f.Statements[i] = seal(t, signer, payload)
			try(fmt.Sprintf("another %s of statement %d, signed by the hub", path, i), bytesOf(t, listed(t, signer, f)))
			signed++
		}
	}

	// Parts in other places, left out, or of other files.
	for i := range file.Rows {
		f := clone(t, file)
		f.Rows = slices.Delete(f.Rows, i, i+1)
		try(fmt.Sprintf("without row %d", i), bytesOf(t, f))
		try(fmt.Sprintf("without row %d, listed again", i), bytesOf(t, listed(t, signer, f)))
		f = clone(t, file)
		j := (i + 1) % len(f.Rows)
		f.Rows[i], f.Rows[j] = f.Rows[j], f.Rows[i]
		try(fmt.Sprintf("rows %d and %d swapped", i, j), bytesOf(t, f))
		f = clone(t, file)
		f.Rows[i].Proof = f.Rows[j].Proof
		try(fmt.Sprintf("row %d with the proof of another", i), bytesOf(t, f))
		f = clone(t, file)
		f.Rows[i].Proof = f.Rows[i].Proof[1:]
		try(fmt.Sprintf("row %d with a shorter proof", i), bytesOf(t, f))
	}
	for i := range file.Statements {
		f := clone(t, file)
		f.Statements = slices.Delete(f.Statements, i, i+1)
		try(fmt.Sprintf("without statement %d", i), bytesOf(t, f))
		f = clone(t, file)
		f.Statements = append(f.Statements, f.Statements[i])
		try(fmt.Sprintf("statement %d twice", i), bytesOf(t, f))
	}
	for name, change := range map[string]func(*proof.File){
		"the checkpoint of the older file":           func(f *proof.File) { f.Checkpoint = old.Checkpoint },
		"the statement that lists of the older file": func(f *proof.File) { f.Manifest = old.Manifest },
		"the parts of the older file":                func(f *proof.File) { f.Rows, f.Statements = old.Rows, old.Statements },
		"the undo cut out":                           func(f *proof.File) { f.Rows, f.Statements, f.Manifest = old.Rows, old.Statements, old.Manifest },
		"the rows of the older file":                 func(f *proof.File) { f.Rows = old.Rows },
		"a statement of another file":                func(f *proof.File) { f.Statements[0] = check.Statements[0] },
		"all statements of another file":             func(f *proof.File) { f.Statements = check.Statements },
		"the name of another thing":                  func(f *proof.File) { f.Of = "l2" },
		"no statement":                               func(f *proof.File) { f.Statements = nil },
		"another format":                             func(f *proof.File) { f.Format = "parley-proof/2" },
	} {
		f := clone(t, file)
		change(&f)
		try(name, bytesOf(t, f))
	}

	// The keys of others.
	for _, name := range []string{trusted[0].Name, "parley/other"} {
		other, err := attest.NewSigner(name, key("other"))
		if err != nil {
			t.Fatal(err)
		}
		f := clone(t, file)
		f.Key = other.Key.Text
		try("another key", bytesOf(t, f))
		f.Manifest = seal(t, other, payloadOf(t, file.Manifest))
		for i, e := range file.Statements {
			f.Statements[i] = seal(t, other, payloadOf(t, e))
		}
		try("statements by another key", bytesOf(t, f))
		c, err := trusted[0].OpenCheckpoint(file.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		if f.Checkpoint, err = other.Checkpoint(c.Size, c.Root); err != nil {
			t.Fatal(err)
		}
		try("everything by another key", bytesOf(t, f))
	}

	// A hub that says "landed" of what its rows say is undone.
	f := clone(t, file)
	f.Manifest = seal(t, signer, bytes.Replace(payloadOf(t, file.Manifest), []byte(`"state":"undone"`), []byte(`"state":"landed"`), 1))
	try("a stronger state", bytesOf(t, f))

	if tried < 200 || signed < 100 {
		t.Errorf("%d forgeries were tried, %d of them signed by the hub", tried, signed)
	}
	t.Logf("%d forgeries, %d sentences", tried, len(sentences))
}

// changes returns a document with each of its texts, numbers and words changed, by their paths. Raw
// bytes outside of a change stay as they are.
func changes(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	var walk func(path string, value json.RawMessage, put func(json.RawMessage) []byte)
	walk = func(path string, value json.RawMessage, put func(json.RawMessage) []byte) {
		switch value[0] {
		case '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(value, &members); err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(members)) {
				walk(path+"/"+name, members[name], func(changed json.RawMessage) []byte {
					return put(replaceOnce(t, value, name, members[name], changed))
				})
			}
		case '[':
			var list []json.RawMessage
			if err := json.Unmarshal(value, &list); err != nil {
				t.Fatal(err)
			}
			for i := range list {
				walk(fmt.Sprintf("%s/%d", path, i), list[i], func(changed json.RawMessage) []byte {
					next := slices.Clone(list)
					next[i] = changed
					return put(append(append([]byte{'['}, bytes.Join(raws(next), []byte{','})...), ']'))
				})
			}
		case '"':
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			changed, err := json.Marshal(altered(text))
			if err != nil {
				t.Fatal(err)
			}
			out[path] = put(changed)
		case 't':
			out[path] = put(json.RawMessage("false"))
		case 'f':
			out[path] = put(json.RawMessage("true"))
		case 'n':
		default:
			out[path] = put(append(slices.Clone(value), '1'))
		}
	}
	walk("", raw, func(changed json.RawMessage) []byte { return changed })
	return out
}

func raws(list []json.RawMessage) (out [][]byte) {
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// replaceOnce replaces the value of a member in the bytes of an object.
func replaceOnce(t *testing.T, object []byte, name string, was, is json.RawMessage) []byte {
	t.Helper()
	quoted, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	from := append(append(quoted, ':'), was...)
	i := bytes.Index(object, from)
	if i < 0 {
		t.Fatalf("%s is not in %.80s", from, object)
	}
	out := append(slices.Clone(object[:i+len(quoted)+1]), is...)
	return append(out, object[i+len(from):]...)
}

// altered returns a text with one character that is another.
func altered(text string) string {
	if text == "" {
		return "x"
	}
	i := len(text) / 2
	for text[i] >= 0x80 {
		i--
	}
	c := byte('a')
	if text[i] == 'a' {
		c = 'b'
	}
	return text[:i] + string(c) + text[i+1:]
}

func clone(t *testing.T, f proof.File) (out proof.File) {
	t.Helper()
	if err := json.Unmarshal(bytesOf(t, f), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func payloadOf(t *testing.T, e attest.Envelope) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func seal(t *testing.T, s *attest.Signer, payload []byte) attest.Envelope {
	t.Helper()
	e, err := s.Seal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// listed returns a file whose last statement lists the parts that it has, signed by the hub.
func listed(t *testing.T, s *attest.Signer, f proof.File) proof.File {
	t.Helper()
	var statement map[string]json.RawMessage
	var list map[string]any
	if err := json.Unmarshal(payloadOf(t, f.Manifest), &statement); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(statement["predicate"], &list); err != nil {
		t.Fatal(err)
	}
	var statements []string
	for _, e := range f.Statements {
		sum := sha256.Sum256(payloadOf(t, e))
		statements = append(statements, hex.EncodeToString(sum[:]))
	}
	rows := []map[string]any{}
	for _, r := range f.Rows {
		rows = append(rows, map[string]any{"seq": r.Seq, "hash": r.Hash})
	}
	list["statements"], list["rows"] = statements, rows
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	statement["predicate"] = raw
	if raw, err = json.Marshal(statement); err != nil {
		t.Fatal(err)
	}
	f.Manifest = seal(t, s, raw)
	return f
}

// TestBadFiles holds that a file which is none is refused in a sentence, soon.
func TestBadFiles(t *testing.T) {
	w := newWorld(t)
	raw := bytesOf(t, w.prove("l1"))
	trusted := w.trusted()
	begin := time.Now()
	refused := func(name string, raw []byte) {
		t.Helper()
		if _, err := proof.Verify(raw, trusted); err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 500 {
		refused(fmt.Sprintf("cut at %d of 500", i), raw[:len(raw)*i/500])
	}
	refused("100 MB", bytes.Repeat([]byte("["), 100<<20))
	refused("deep", bytes.Repeat([]byte("["), 1<<20))
	refused("a deep member", append(append([]byte(`{"schema":`), bytes.Repeat([]byte(`{"a":`), 1<<20)...), '1'))
	refused("a repeated member", bytes.Replace(raw, []byte(`{"schema":`), []byte(`{"schema":"parley-proof/1","schema":`), 1))
	refused("a member in other case", bytes.Replace(raw, []byte(`"of":`), []byte(`"Of":`), 1))
	refused("an unknown member", bytes.Replace(raw, []byte(`{"schema":`), []byte(`{"more":1,"schema":`), 1))
	refused("text behind it", append(slices.Clone(raw), "{}"...))
	refused("a null", []byte("null"))
	refused("another form of a name", bytes.Replace(raw, []byte("builder"), []byte("bui\u0301lder"), 1))
	refused("a fullwidth letter", bytes.Replace(raw, []byte("builder"), []byte("\uff42uilder"), 1))
	refused("invalid UTF-8", bytes.Replace(raw, []byte("builder"), []byte("bui\xffder"), 1))

	signer, err := attest.NewSigner(trusted[0].Name, key("hub"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := trusted[0].OpenCheckpoint(w.prove("l1").Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	f := w.prove("l1")
	if f.Checkpoint, err = signer.Checkpoint(c.Size+1000, c.Root); err != nil {
		t.Fatal(err)
	}
	refused("a checkpoint of the future", bytesOf(t, f))
	t.Logf("all together: %s", time.Since(begin))
}
