package comply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// Places in the arguments, variables and files of an agent that are filled when it is
// started.
const (
	placeModel = "${modelURL}" // address of the scripted model
	placeHome  = "${home}"     // home folder of the agent
	placeRoot  = "${root}"     // folder that the agent is installed in
)

// UsesModel reports whether the agent is pointed at the scripted model.
func (a Agent) UsesModel() bool {
	texts := slices.Concat(a.Args, slices.Collect(maps.Values(a.Env)), slices.Collect(maps.Values(a.Files)))
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, placeModel) })
}

// fits returns an error if the agent cannot be run with the options.
func (a Agent) fits(o *Options) error {
	switch {
	case o.ModelURL == "" && a.UsesModel():
		return fmt.Errorf("comply: run %s: it needs the scripted model; set Options.ModelURL", a.Name)
	case o.Home != "" && len(a.Files) > 0:
		return fmt.Errorf("comply: run %s: its home files cannot be written to a real home folder", a.Name)
	}
	return nil
}

// prepare returns the agent as it is started in a home folder, and writes its files
// there. Existing files are kept: a test may start an agent twice.
// The agent is a copy; maps and slices that change are cloned, because tests run at
// the same time with one Agent.
func (a Agent) prepare(home, modelURL string) (Agent, error) {
	places := map[string]string{placeModel: modelURL, placeHome: home, placeRoot: a.Root}
	// A path inside of a JSON file needs the escapes of JSON.
	plain, quoted := replacer(places, func(s string) string { return s }), replacer(places, inJSON)

	a.Command = plain.Replace(a.Command)
	a.Args = slices.Clone(a.Args)
	for i := range a.Args {
		a.Args[i] = plain.Replace(a.Args[i])
	}
	a.Env = maps.Clone(a.Env)
	for name := range a.Env {
		a.Env[name] = plain.Replace(a.Env[name])
	}

	if len(a.Files) == 0 {
		return a, nil
	}

	// The root keeps a name in the list from leading out of the home folder.
	dir, err := os.OpenRoot(home)
	if err != nil {
		return a, err
	}
	defer dir.Close()

	for name, text := range a.Files {
		fill := plain
		if json.Valid([]byte(text)) {
			fill = quoted
		}
		if err := writeNew(dir, filepath.FromSlash(name), fill.Replace(text)); err != nil {
			return a, fmt.Errorf("write %s to the home of %s: %w", name, a.Name, err)
		}
	}
	return a, nil
}

// replacer fills the places with their values, changed for the text they stand in.
func replacer(places map[string]string, change func(string) string) *strings.Replacer {
	var pairs []string
	for name, value := range places {
		pairs = append(pairs, name, change(value))
	}
	return strings.NewReplacer(pairs...)
}

// inJSON returns s as it is written inside of a JSON string.
func inJSON(s string) string {
	text := string(jsont.Encode(s))
	return text[1 : len(text)-1]
}

// writeNew writes a file unless there is one.
func writeNew(dir *os.Root, name, text string) error {
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
