//go:build !unix

package goodclient

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups.
func ownGroup(*exec.Cmd) {}

// killGroup kills a command.
func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }

// signalOf returns false: there are no signals.
func signalOf(*os.ProcessState) (string, bool) { return "", false }
