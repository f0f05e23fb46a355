package main

import "os"

// processAlive reports whether a process runs.
func processAlive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	p.Release()
	return true
}

// cliProcess returns the number of the process that called this one.
func cliProcess() int { return os.Getppid() }
