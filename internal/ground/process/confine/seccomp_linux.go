package confine

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Offsets in struct seccomp_data of seccomp(2).
const (
	dataNumber = 0
	dataArch   = 4
	dataFirst  = 16 // the lower half of the first argument, on machines with little-endian words
)

// Values of seccomp(2) that package syscall does not have.
const (
	prSetSeccomp    = 22
	seccompFilter   = 2
	filterAllow     = 0x7fff0000
	filterRefuse    = 0x00050000 | uint32(syscall.EPERM)
	x32Bit          = 0x40000000 // of the numbers of the x32 calls of x86-64
	archX86         = 0x40000003
	archX8664       = 0xc000003e
	archARM         = 0x40000028
	archARM64       = 0xc00000b7
	prlimitOfX86    = 340
	prlimitOfX8664  = 302
	prlimitOfX32    = prlimitOfX8664 | x32Bit
	prlimitOfARM    = 369
	prlimitOfOthers = 261 // the numbers of newer machines are the same
)

// prlimits are the numbers of prlimit64 that a program of this machine can use, by the word of the
// machine in seccomp_data.
func prlimits() map[uint32][]uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return map[uint32][]uint32{archX8664: {prlimitOfX8664, prlimitOfX32}, archX86: {prlimitOfX86}}
	case "arm64":
		return map[uint32][]uint32{archARM64: {prlimitOfOthers}, archARM: {prlimitOfARM}}
	}
	return nil
}

// filterCalls refuses prlimit64 with the number of a process from now on: a process of the same user
// could lower the limits of the hub. With 0 it means the caller. Tracing is Landlock's; the calls for
// priorities stay, because honest programs set those of their threads.
func filterCalls() error {
	known := prlimits()
	if known == nil {
		return fmt.Errorf("%w: the system calls of %s are not known", ErrUnsupported, runtime.GOARCH)
	}
	var program []syscall.SockFilter
	add := func(code int, k uint32, yes, no uint8) {
		program = append(program, syscall.SockFilter{Code: uint16(code), Jt: yes, Jf: no, K: k})
	}
	load := func(offset uint32) { add(syscall.BPF_LD|syscall.BPF_W|syscall.BPF_ABS, offset, 0, 0) }
	unlessEqual := func(k uint32, skip uint8) { add(syscall.BPF_JMP|syscall.BPF_JEQ|syscall.BPF_K, k, 0, skip) }
	answer := func(k uint32) { add(syscall.BPF_RET|syscall.BPF_K, k, 0, 0) }

	// Each block looks for one call of one machine and leaves the others to the next block.
	const block = 8
	for arch, numbers := range known {
		for _, number := range numbers {
			load(dataArch)
			unlessEqual(arch, block-2)
			load(dataNumber)
			unlessEqual(number, block-4)
			load(dataFirst)
			unlessEqual(0, 1)
			answer(filterAllow)
			answer(filterRefuse)
		}
	}
	answer(filterAllow)

	filter := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSeccomp, seccompFilter, uintptr(unsafe.Pointer(&filter)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("filter the calls of the command: %w", errno)
	}
	return nil
}
