// Command prices writes the list prices of models that the hub embeds.
//
//	go run ./scripts/prices -out internal/service/usage/prices.json
//
// It downloads the newest release of the package litellm with pip and reads the price file in it.
// Of that file it keeps the text models of the vendors whose models the CLIs use, with four prices
// for a million tokens each. The list names the release and the day.
package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// source is the file with prices in the package.
const source = "litellm/model_prices_and_context_window_backup.json"

// vendors are the names that the source has for the vendors of models.
var vendors = []string{"anthropic", "openai", "gemini", "dashscope", "xai", "deepseek", "mistral", "moonshot", "zai", "minimax"}

func main() {
	out := flag.String("out", "internal/service/usage/prices.json", "the file to write")
	pip := flag.String("pip", "pip", "the program pip")
	flag.Parse()
	if err := run(*out, *pip, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

// run downloads the newest release and writes the list.
func run(out, pip string, now time.Time) error {
	dir, err := os.MkdirTemp("", "prices-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	download := exec.Command(pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", dir, "litellm")
	download.Stdout, download.Stderr = os.Stderr, os.Stderr
	if err := download.Run(); err != nil {
		return fmt.Errorf("%s: %w", download, err)
	}
	raw, version, err := readWheel(dir)
	if err != nil {
		return err
	}
	list, err := listOf(raw, "litellm "+version, now.UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	return os.WriteFile(out, list, 0o644)
}

// readWheel returns the price file in the one wheel of a folder, and its version.
func readWheel(dir string) (raw []byte, version string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "litellm-*.whl"))
	if err != nil || len(found) != 1 {
		return nil, "", errors.Join(fmt.Errorf("pip left %q, not one wheel", found), err)
	}
	z, err := zip.OpenReader(found[0])
	if err != nil {
		return nil, "", err
	}
	defer z.Close()
	f, err := z.Open(source)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	raw, err = io.ReadAll(f)
	return raw, strings.Split(filepath.Base(found[0]), "-")[1], err
}

// An entry is a model of the source. Its prices are for one token.
type entry struct {
	Vendor  string  `json:"litellm_provider"`
	Mode    string  `json:"mode"`
	Retired string  `json:"deprecation_date"`
	Tiers   []entry `json:"tiered_pricing"` // by the length of the input
	Input   float64 `json:"input_cost_per_token"`
	Output  float64 `json:"output_cost_per_token"`
	Read    float64 `json:"cache_read_input_token_cost"`
	Write   float64 `json:"cache_creation_input_token_cost"`
}

// A price is a model of the list. Its prices are for a million tokens.
type price struct {
	Input       float64 `json:"input"`
	Output      float64 `json:"output"`
	CachedRead  float64 `json:"cached_read"`
	CachedWrite float64 `json:"cached_write"`
}

// dearest returns the higher one of each of two prices.
func (p price) dearest(o price) price {
	return price{max(p.Input, o.Input), max(p.Output, o.Output), max(p.CachedRead, o.CachedRead), max(p.CachedWrite, o.CachedWrite)}
}

// priceOf returns the prices of an entry, of its dearest tier. A cached token without a price of its
// own costs as much as another one.
func priceOf(e entry) (p price) {
	for _, tier := range e.Tiers {
		p = p.dearest(priceOf(tier))
	}
	million := func(v float64) float64 { return math.Round(v*1e12) / 1e6 }
	own := price{million(e.Input), million(e.Output), million(e.Read), million(e.Write)}
	if own.CachedRead == 0 {
		own.CachedRead = own.Input
	}
	if own.CachedWrite == 0 {
		own.CachedWrite = own.Input
	}
	return p.dearest(own)
}

var (
	other = regexp.MustCompile(`^ft:|audio|realtime|search|image|computer-use|transcribe|tts|live|robotics|^openai/container$`)
	dated = regexp.MustCompile(`[-@](20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$`)
)

// listOf returns the list of the price file of a release. A retired model keeps its price for usage
// of the past, unless it would raise the highest price of its vendor. A name with a date is left out
// where the name without it has the same price.
func listOf(raw []byte, release, day string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	models := map[string]price{}
	retired := map[string]string{} // the vendors of models that are not offered any more
	highest := map[string]price{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var e entry
		if json.Unmarshal(all[name], &e) != nil { // an entry that explains the form of the file
			continue
		}
		isText := e.Mode == "chat" || e.Mode == "responses"
		p := priceOf(e)
		isOurs := slices.Contains(vendors, e.Vendor) && !other.MatchString(name)
		if !isText || !isOurs || p == (price{}) {
			continue
		}
		key := strings.ToLower(path.Base(name))
		models[key] = models[key].dearest(p)
		if e.Retired != "" && e.Retired <= day {
			retired[key] = e.Vendor
			continue
		}
		highest[e.Vendor] = highest[e.Vendor].dearest(p)
	}
	for _, vendor := range vendors {
		if highest[vendor] == (price{}) {
			return nil, fmt.Errorf("%s has no model of %s", release, vendor)
		}
	}

	for key, vendor := range retired {
		if top := highest[vendor]; top.dearest(models[key]) != top {
			delete(models, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(models)) {
		if short := dated.ReplaceAllString(key, ""); short != key && models[short] == models[key] {
			delete(models, key)
		}
	}
	return write(models, release, day)
}

// write returns the list as a file with one line for each model.
func write(models map[string]price, release, day string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"as_of\": %q,\n  \"source\": %q,\n  \"currency\": \"USD\",\n  \"models\": {", day, release)
	for i, key := range slices.Sorted(maps.Keys(models)) {
		line, err := json.Marshal(models[key])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %q: %s", key, line)
	}
	b.WriteString("\n  }\n}\n")
	return b.Bytes(), nil
}
