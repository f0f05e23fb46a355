package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A Validator checks the frames of one conversation, in their order: each must be a message of
// JSON-RPC, and its params or result must have the form that a version of the protocol gives
// them. The order of a conversation is not checked. The zero value checks version 1.
type Validator struct {
	V2 bool // version 2 of the protocol

	// calls has the method of each request, by the side that sent it and its id.
	calls map[string]string
}

// Check checks the next frame. from names the side that sent it, so that a response finds its
// request; it may be "" for all frames if the sides are not known. The error has the path of
// the first value that is wrong. Methods and notifications of extensions have any form.
func (v *Validator) Check(from string, raw []byte) error {
	m, err := jsonrpc.ParseMessage(raw)
	if err != nil {
		return err
	}
	if v.calls == nil {
		v.calls = map[string]string{}
	}
	if m.Method == "" {
		return v.response(from, m)
	}
	if m.ID != nil {
		v.calls[from+" "+string(m.ID)] = m.Method
	}
	if isExtension(m.Method) {
		return nil
	}
	method, ok := v.lookup(m.Method)
	switch {
	case !ok:
		return fmt.Errorf("acp: /method: unknown method %q in this version of the protocol", m.Method)
	case method.Notification() && m.ID != nil:
		return fmt.Errorf("acp: /id: %s is a notification and must not have an id", m.Method)
	case !method.Notification() && m.ID == nil:
		return fmt.Errorf("acp: /id: %s is a request and must have an id", m.Method)
	}
	return decode("/params", method.NewParams(), m.Params)
}

func (v *Validator) lookup(name string) (acpv1.Method, bool) {
	if v.V2 {
		return acpv2.LookupMethod(name)
	}
	return acpv1.LookupMethod(name)
}

// response checks the result of a request that was seen. One that was not seen, as in a
// recording that begins late, may have any result.
// The ids of the two sides are independent, so the same id may be open twice; a
// response belongs to a request of the side that did not send it. The search is
// linear in the number of open requests, which is small.
func (v *Validator) response(from string, m jsonrpc.Message) error {
	for key, method := range v.calls {
		side, id, _ := strings.Cut(key, " ")
		if id != string(m.ID) || (side == from && from != "") {
			continue
		}
		delete(v.calls, key)
		known, ok := v.lookup(method)
		if m.Err != nil || !ok || known.Notification() {
			return nil
		}
		return decode("/result", known.NewResult(), m.Result)
	}
	return nil
}

// decode reads a member of a frame and checks it.
func decode(path string, into acpv1.Message, raw json.RawMessage) error {
	if raw == nil || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	err := into.UnmarshalJSON(raw)
	if err == nil {
		err = into.Validate()
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", path, into.Method(), err)
	}
	return nil
}
