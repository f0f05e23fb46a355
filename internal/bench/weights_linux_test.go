package bench_test

import "syscall"

func init() {
	memoryOfPrograms = func() int64 {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
			return 0
		}
		return int64(u.Maxrss) << 10
	}
}
