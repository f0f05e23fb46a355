package usage

import (
	_ "embed"
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
	"github.com/parley-agents/parley/internal/pattern"
	"github.com/parley-agents/parley/internal/strictjson"
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
	Currency string           `json:"currency"`
	Models   map[string]Price `json:"models"`
}

// A PriceList is the table of prices, as people read it.
type PriceList struct {
	AsOf    string  `json:"as_of"`             // of the embedded table
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

// modelKey returns the name under which a model has its price: without the provider before it,
// and without the date and the size of the context behind it.
func modelKey(model string) string {
	key := strings.ToLower(model)
	key = key[strings.LastIndexByte(key, '/')+1:]
	key = sizeSuffix().ReplaceAllString(key, "")
	return dateSuffix().ReplaceAllString(key, "")
}

// estimate returns the price of tokens of a model in millionths, and whether it has one.
func (p *Prices) estimate(model string, t hub.Tokens) (cost int64, currency string, ok bool) {
	price, ok := p.models[strings.ToLower(model)]
	if !ok {
		price, ok = p.models[modelKey(model)]
	}
	if !ok {
		return 0, "", false
	}
	return price.cost(t), price.Currency, true
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
		price.Currency = f.Currency
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
		if p.Model != "" || p.Currency != "" || p.Own {
			return f, fmt.Errorf("the prices of %s must have input, output, cached_read and cached_write only", name)
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
