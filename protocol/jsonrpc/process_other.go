//go:build !unix

package jsonrpc

import (
	"os"
	"os/exec"
)

// Without process groups only the process itself is ended, and there is no
// signal that asks it to.

func ownGroup(*exec.Cmd) {}

func endGroup(*os.Process) error { return nil }

func killGroup(p *os.Process) error { return p.Kill() }

func groupAlive(*os.Process) bool { return false }
