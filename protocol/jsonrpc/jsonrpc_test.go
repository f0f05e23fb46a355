package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/jsonrpc"
)

func TestParseRequests(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int    // 0: readable
		want       string // the first request's id, method and params
	}{
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`, 0, `1 m {"a":1}`},
		{"numbers keep their digits", `{"jsonrpc":"2.0","id":12345678901234567890.10,"method":"m","params":[1e400]}`, 0, `12345678901234567890.10 m [1e400]`},
		{"a string id with escapes stays as it is", `{"jsonrpc":"2.0","id":"\u0041","method":"m"}`, 0, `"\u0041" m `},
		{"an escaped name is the same name", `{"jsonrpc":"2.0","id":1,"m\u0065thod":"m"}`, 0, `1 m `},
		{"unknown members are ignored", `{"jsonrpc":"2.0","id":1,"method":"m","x":{}}`, 0, `1 m `},
		{"null id is an id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, 0, `null m `},
		{"empty body", ``, jsonrpc.CodeParse, ""},
		{"cut short", `{"jsonrpc":"2.0"`, jsonrpc.CodeParse, ""},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"m"} {}`, jsonrpc.CodeParse, ""},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", jsonrpc.CodeParse, ""},
		{"not an object", `7`, jsonrpc.CodeInvalidRequest, ""},
		{"wrong version", `{"jsonrpc":"1.0","id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, ""},
		{"no version", `{"id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, ""},
		{"no method", `{"jsonrpc":"2.0","id":1}`, jsonrpc.CodeInvalidRequest, ""},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":2}`, jsonrpc.CodeInvalidRequest, ""},
		{"params is a string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}`, jsonrpc.CodeInvalidRequest, ""},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, jsonrpc.CodeInvalidRequest, ""},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}`, jsonrpc.CodeInvalidRequest, ""},
		{"a name twice, once escaped", `{"jsonrpc":"2.0","id":1,"method":"m","m\u0065thod":"n"}`, jsonrpc.CodeInvalidRequest, ""},
		{"a name twice deep inside", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":1,"b":2}]}}`, jsonrpc.CodeInvalidRequest, ""},
		{"a case twin", `{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}`, jsonrpc.CodeInvalidRequest, ""},
		{"an empty batch", `[]`, jsonrpc.CodeInvalidRequest, ""},
		{"a huge batch", `[` + strings.Repeat("1,", jsonrpc.MaxBatch) + `1]`, jsonrpc.CodeInvalidRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := jsonrpc.ParseRequests([]byte(c.body))
			var e *jsonrpc.Error
			if errors.As(err, &e); c.code != 0 {
				if e == nil || e.Code != c.code {
					t.Fatalf("got %v, %v, want code %d", got, err, c.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := string(got[0].ID) + " " + got[0].Method + " " + string(got[0].Params); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	got, batch, err := jsonrpc.ParseRequests([]byte(`[{"jsonrpc":"2.0","id":"a","method":"m"},1,{"jsonrpc":"2.0","method":"n"}]`))
	if err != nil || !batch || len(got) != 3 {
		t.Fatalf("got %v, %v, %v", got, batch, err)
	}
	if got[0].Notification() || got[1].Invalid == nil || !got[2].Notification() {
		t.Errorf("want a request, an invalid message and a notification, got %+v", got)
	}
}

func TestResponse(t *testing.T) {
	for want, r := range map[string]jsonrpc.Response{
		`{"jsonrpc":"2.0","id":1.0,"result":{"a":1}}`:                             {ID: json.RawMessage(`1.0`), Result: json.RawMessage(`{"a":1}`)},
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`:       {Error: &jsonrpc.Error{Code: -32700, Message: "x"}},
		`{"jsonrpc":"2.0","id":"a","result":null}`:                                {ID: json.RawMessage(`"a"`)},
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`:               {ID: json.RawMessage(`1`), Error: &jsonrpc.Error{Code: 1, Message: "m", Data: json.RawMessage(`{`)}},
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[1.00]}}`: {ID: json.RawMessage(`1`), Error: &jsonrpc.Error{Code: 1, Message: "m", Data: json.RawMessage(`[1.00]`)}},
	} {
		if got := string(r.AppendTo(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzParseRequests(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `[{"jsonrpc":"2.0","method":"m"}]`, `{`, `[[]]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		requests, _, err := jsonrpc.ParseRequests(body)
		if err != nil {
			var e *jsonrpc.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no *Error", err)
			}
			return
		}
		for _, r := range requests {
			if b := (jsonrpc.Response{ID: r.ID, Result: r.Params}).AppendTo(nil); !json.Valid(b) {
				t.Fatalf("the answer %q is not JSON", b)
			}
		}
	})
}
