// Package bench has the benchmarks of the whole program: make bench prints them as
// ratios, each measured beside a baseline in one run. It contains no code of the program.
package bench
