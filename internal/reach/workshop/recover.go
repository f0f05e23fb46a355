package workshop

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/ground/process/stray"
)

// A supervisor whose program ended ends its command by itself, in this time.
const (
	supervisorTime  = 5 * time.Second
	supervisorPause = 10 * time.Millisecond
)

// recover ends and removes the runs that are on disk: this process has begun none yet.
func (s *Shop) recover(ctx context.Context) error {
	if err := removeAll(s.outputs()); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.recoverRun(ctx, filepath.Join(s.runs(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// recoverRun ends the processes of a run and removes its folder.
func (s *Shop) recoverRun(ctx context.Context, folder string) error {
	var old record
	raw, err := os.ReadFile(filepath.Join(folder, recordName))
	if err == nil {
		err = json.Unmarshal(raw, &old)
	}
	if err != nil { // it was killed before it had processes
		return removeAll(folder)
	}

	end := time.Now().Add(supervisorTime)
	for old.Stamp != "" && process.Stamp(old.Pid) == old.Stamp && time.Now().Before(end) {
		time.Sleep(supervisorPause)
	}
	if old.Stamp != "" && process.Stamp(old.Pid) == old.Stamp {
		if p, err := os.FindProcess(old.Pid); err == nil {
			p.Kill()
		}
	}
	if err := stray.Kill(old.Mark); err != nil {
		return err
	}
	if err := removeAll(folder); err != nil {
		return err
	}
	if _, err := os.Stat(old.Copy); old.Copy == "" || err != nil {
		return nil // the repository is gone
	}
	return prune(ctx, old.Copy)
}
