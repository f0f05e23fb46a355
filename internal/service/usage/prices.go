package usage

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// embedded are the list prices that this version knows.
//
//go:embed prices.json
var embedded []byte

const (
	maxPriceFile = 1 << 20   // bytes
	maxPrice     = 1_000_000 // of a million tokens
)

// A Price is the price of a million tokens of one model.
type Price struct {
	Model       string  `json:"model,omitempty"`
	Input       float64 `json:"input"`
	Output      float64 `json:"output"`
	CachedRead  float64 `json:"cached_read"`
	CachedWrite float64 `json:"cached_write"`
	Currency    string  `json:"currency,omitempty"`
	Own         bool    `json:"own,omitempty"` // of the operator's file
}

// maxEstimate bounds the estimate of one sum, in millionths, so that sums of estimates are whole numbers.
const maxEstimate = 1e15

// cost returns the price of tokens in millionths.
func (p Price) cost(t hub.Tokens) int64 {
	sum := p.Input*float64(t.Input) + p.Output*float64(t.Output) + p.CachedRead*float64(t.CachedRead) + p.CachedWrite*float64(t.CachedWrite)
	return int64(math.Round(min(sum, maxEstimate)))
}

// A priceFile is the form of a file with prices.
type priceFile struct {
	AsOf     string           `json:"as_of"`
	Source   string           `json:"source,omitempty"` // of the list
	Currency string           `json:"currency"`
	Models   map[string]Price `json:"models"`
}

// A PriceList is the table of prices, as people read it.
type PriceList struct {
	AsOf    string  `json:"as_of"`             // of the embedded table
	Source  string  `json:"source"`            // of the embedded table
	File    string  `json:"file"`              // of the operator
	OwnAsOf string  `json:"own_as_of"`         // of the operator's file; empty if there is none
	Problem string  `json:"problem,omitempty"` // why there are no estimates
	Prices  []Price `json:"prices"`
}

// Prices are the prices by model, as estimates use them.
type Prices struct {
	list   PriceList
	models map[string]Price
	stamp  string // of the operator's file when it was read
}

var (
	dateSuffix = pattern.New(`(-|@)(20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2}|latest|preview)$`)
	sizeSuffix = pattern.New(`\[[0-9a-z]+\]$`)
)

// vendors are the vendors of models, by how the names of their models and services begin.
var vendors = []struct {
	vendor   string
	prefixes []string
}{
	{"anthropic", []string{"claude", "anthropic", "fable", "haiku", "mythos", "opus", "sonnet"}},
	{"openai", []string{"gpt", "openai", "chat-latest", "chatgpt", "codex", "daybreak", "o1", "o3", "o4"}},
	{"google", []string{"gemini", "gemma", "google", "vertex"}},
	{"alibaba", []string{"qwen", "qwq", "alibaba", "dashscope"}},
	{"xai", []string{"grok", "x-ai", "xai"}},
	{"deepseek", []string{"deepseek"}},
	{"mistral", []string{"mistral", "codestral", "devstral", "labs-", "magistral", "ministral", "open-mistral", "open-mixtral", "pixtral", "voxtral"}},
	{"moonshot", []string{"kimi", "moonshot"}},
	{"zai", []string{"glm", "zai", "z-ai", "zhipu"}},
	{"minimax", []string{"minimax"}},
}

// VendorOf returns the vendor of a model by its name, or by the service before it; "" if it is unknown.
func VendorOf(model string) string {
	for _, part := range slices.Backward(strings.Split(strings.ToLower(model), "/")) {
		for _, v := range vendors {
			begins := func(prefix string) bool { return strings.HasPrefix(part, prefix) }
			if slices.ContainsFunc(v.prefixes, begins) {
				return v.vendor
			}
		}
	}
	return ""
}

// modelKey returns the name under which a model has its price: without the provider before it,
// and without the date and the size of the context behind it.
func modelKey(model string) string {
	key := strings.ToLower(model)
	key = key[strings.LastIndexByte(key, '/')+1:]
	key = sizeSuffix().ReplaceAllString(key, "")
	return dateSuffix().ReplaceAllString(key, "")
}

// of returns the price of a model, and whether it has one. Some CLIs write the versions of Claude with a
// dot.
func (p *Prices) of(model string) (Price, bool) {
	key := modelKey(model)
	for _, name := range []string{strings.ToLower(model), key, strings.ReplaceAll(key, ".", "-")} {
		if price, ok := p.models[name]; ok {
			return price, true
		}
	}
	return Price{}, false
}

// lacksPrice reports whether a sum has tokens of a model without a price.
func (p *Prices) lacksPrice(s hub.UsageSum) bool {
	if s.Currency != "" || s.Tokens.Sum() == 0 || p.list.Problem != "" {
		return false
	}
	_, ok := p.of(s.Model)
	return !ok
}

// UnknownModel is the name of models whose calls tell none.
const UnknownModel = "unknown"

// addUnpriced adds the model of a sum to a list, if it has no price.
func (p *Prices) addUnpriced(to []string, s hub.UsageSum) []string {
	name := cmp.Or(s.Model, UnknownModel)
	if !p.lacksPrice(s) || slices.Contains(to, name) {
		return to
	}
	return append(to, name)
}

// highest returns the highest price in a currency of the models of a vendor, member by member; of all
// models if the vendor is "" or has none. It reports false if nothing has a price in the currency.
func (p *Prices) highest(vendor, currency string) (top Price, ok bool) {
	for name, price := range p.models {
		isOther := vendor != "" && VendorOf(name) != vendor
		if price.Currency != currency || isOther {
			continue
		}
		ok = true
		top.Currency = currency
		top.Input = max(top.Input, price.Input)
		top.Output = max(top.Output, price.Output)
		top.CachedRead = max(top.CachedRead, price.CachedRead)
		top.CachedWrite = max(top.CachedWrite, price.CachedWrite)
	}
	if !ok && vendor != "" {
		return p.highest("", currency)
	}
	return top, ok
}

// estimate returns the price of tokens of a model in millionths. A model without a price is not free: it
// counts at the highest price of its vendor in a currency.
func (p *Prices) estimate(model, currency string, t hub.Tokens) (cost int64, in string, ok bool) {
	price, ok := p.of(model)
	if !ok {
		price, ok = p.highest(VendorOf(model), currency)
	}
	return price.cost(t), price.Currency, ok
}

// lacks reports whether a sum has tokens whose cost is not known because the prices cannot be read.
func (p *Prices) lacks(s hub.UsageSum) bool {
	return p.list.Problem != "" && s.Currency == "" && s.Tokens.Sum() > 0
}

// has reports whether a model has a price in a currency.
func (p *Prices) has(currency string) bool {
	for _, price := range p.models {
		if price.Currency == currency {
			return true
		}
	}
	return false
}

// readPrices returns the embedded prices with those of the operator's file over them. A file
// with a mistake makes all estimates disappear: a sum without its prices would be wrong.
func readPrices(path string) *Prices {
	p := &Prices{models: map[string]Price{}, list: PriceList{File: path, Prices: []Price{}}}
	base, err := parsePrices(embedded)
	if err != nil {
		panic(err) // a test reads it
	}
	p.list.AsOf = base.AsOf
	p.list.Source = base.Source
	p.put(base, false)
	p.stamp = fileStamp(path)

	raw, err := readPriceFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var own priceFile
	if err == nil && raw != nil {
		own, err = parsePrices(raw)
	}
	if err != nil {
		p.models = map[string]Price{}
		p.list.Problem = fmt.Sprintf("there are no estimates: %s: %v", path, err)
		return p
	}
	p.list.OwnAsOf = own.AsOf
	p.put(own, true)
	for _, name := range slices.Sorted(maps.Keys(p.models)) {
		p.list.Prices = append(p.list.Prices, p.models[name])
	}
	return p
}

// put adds the prices of a file.
func (p *Prices) put(f priceFile, own bool) {
	for name, price := range f.Models {
		price.Model = strings.ToLower(name)
		price.Currency = cmp.Or(price.Currency, f.Currency)
		price.Own = own
		p.models[price.Model] = price
	}
}

// parsePrices reads a file with prices strictly.
func parsePrices(raw []byte) (priceFile, error) {
	var f priceFile
	if err := strictjson.Decode(raw, &f); err != nil {
		return f, err
	}
	if _, err := time.Parse(time.DateOnly, f.AsOf); err != nil {
		return f, fmt.Errorf("as_of must be a date such as 2026-01-31, got %.30q", f.AsOf)
	}
	if !currencyForm().MatchString(f.Currency) {
		return f, fmt.Errorf("currency must have three letters such as USD, got %.30q", f.Currency)
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.Models)) {
		p := f.Models[name]
		key := strings.ToLower(name)
		if seen[key] {
			return f, fmt.Errorf("%s has two prices: names of models that differ in case only are the same", key)
		}
		seen[key] = true
		if !modelForm().MatchString(name) {
			return f, fmt.Errorf("%.50q is not the name of a model", name)
		}
		if p.Model != "" || p.Own {
			return f, fmt.Errorf("the prices of %s must have input, output, cached_read, cached_write and currency only", name)
		}
		if p.Currency != "" && !currencyForm().MatchString(p.Currency) {
			return f, fmt.Errorf("the currency of %s must have three letters such as USD, got %.30q", name, p.Currency)
		}
		for _, v := range []float64{p.Input, p.Output, p.CachedRead, p.CachedWrite} {
			if math.IsNaN(v) || v < 0 || v > maxPrice {
				return f, fmt.Errorf("a price of %s is %v: it must be between 0 and %d for a million tokens", name, v, maxPrice)
			}
		}
	}
	return f, nil
}

// readPriceFile returns the content of the operator's file; nil if there is none.
func readPriceFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxPriceFile:
		return nil, fmt.Errorf("it must be a file of at most %d bytes", maxPriceFile)
	}
	return os.ReadFile(path)
}

// fileStamp returns a text that changes with a file.
func fileStamp(path string) string {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}

// currentPrices returns the prices, and reads the operator's file again if it has changed.
func (s *Service) currentPrices() *Prices {
	s.pricing.Lock()
	defer s.pricing.Unlock()
	if s.prices == nil || s.prices.stamp != fileStamp(s.o.Prices) {
		s.prices = readPrices(s.o.Prices)
	}
	return s.prices
}

// Prices returns the table of prices.
func (s *Service) Prices() PriceList { return s.currentPrices().list }

// listTime is the age after which a list lacks the models that people use.
const listTime = 120 * 24 * time.Hour

// ListProblem returns a sentence about a list of prices that is too old at a time; "" if the embedded
// one or that of the operator's file at path is not.
func ListProblem(path string, now time.Time) string {
	list := readPrices(path).list
	day, err := time.Parse(time.DateOnly, max(list.AsOf, list.OwnAsOf))
	if err != nil || now.Sub(day) <= listTime {
		return ""
	}
	return fmt.Sprintf("the list prices are of %s, %d days old; newer models count at the highest price of their vendor", day.Format(time.DateOnly), int(now.Sub(day).Hours()/24))
}

// A PriceChange sets prices of the operator: those of some models, or all of them as a list.
type PriceChange struct {
	Models map[string]Price `json:"models,omitempty"`
	List   json.RawMessage  `json:"list,omitempty"` // as in the file of prices
}

// SetPrices changes the operator's file of prices. Only the operator does.
func (s *Service) SetPrices(ctx context.Context, actor hub.Caller, c PriceChange) (PriceList, error) {
	const op = "usage.SetPrices"
	if err := actor.OperatorOnly(op); err != nil {
		return PriceList{}, err
	}
	hasOne := (len(c.Models) > 0) != (len(c.List) > 0)
	switch {
	case !hasOne:
		return PriceList{}, hub.Errorf(hub.CodeInvalid, op, "one of models and list is required")
	case s.o.Prices == "":
		return PriceList{}, hub.Errorf(hub.CodeInvalid, op, "this hub has no file of prices")
	case len(c.List) > maxPriceFile:
		return PriceList{}, hub.Errorf(hub.CodeTooLarge, op, "the list has %d bytes, limit %d", len(c.List), maxPriceFile)
	}
	n, err := s.writePrices(op, c)
	if err != nil {
		return PriceList{}, err
	}

	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.PricesSet, string(actor.ID), map[string]any{"models": n}))
		return err
	})
	if err != nil {
		return PriceList{}, fmt.Errorf("usage: %w", err)
	}
	s.opened()
	return s.Prices(), nil
}

// writePrices writes the operator's file with a change, and returns the number of models that it set.
func (s *Service) writePrices(op string, c PriceChange) (int, error) {
	s.pricing.Lock()
	defer s.pricing.Unlock()
	raw := []byte(c.List)
	n := 0
	if len(c.Models) > 0 {
		own := priceFile{AsOf: readPrices("").list.AsOf, Currency: usd, Models: map[string]Price{}}
		before, err := readPriceFile(s.o.Prices)
		if err == nil && before != nil {
			own, err = parsePrices(before)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, hub.Errorf(hub.CodeInvalid, op, "%s: %v", s.o.Prices, err).WithHint("repair the file, or replace it: parley spend prices set FILE")
		}
		if own.Models == nil {
			own.Models = map[string]Price{}
		}
		for name, price := range c.Models {
			maps.DeleteFunc(own.Models, func(k string, _ Price) bool { return strings.EqualFold(k, name) })
			own.Models[name] = price
			n++
		}
		if raw, err = json.MarshalIndent(own, "", "  "); err != nil {
			return 0, err
		}
	}
	f, err := parsePrices(raw)
	if err != nil {
		return 0, hub.Errorf(hub.CodeInvalid, op, "%v", err)
	}
	return cmp.Or(n, len(f.Models)), durable.WriteFile(s.o.Prices, raw, 0o600)
}
