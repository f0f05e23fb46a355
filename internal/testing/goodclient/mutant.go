package goodclient

// Mutants returns the rules that have a mutant, by which the mutants are named.
func Mutants() []string {
	return []string{
		"CL-TRN-01", "CL-TRN-02", "CL-TRN-03", "CL-TRN-04",
		"CL-RPC-01", "CL-RPC-02", "CL-RPC-03", "CL-RPC-04", "CL-RPC-05", "CL-RPC-06", "CL-RPC-07", "CL-RPC-08", "CL-RPC-09", "CL-RPC-10", "CL-RPC-11", "CL-RPC-12", "CL-RPC-13", "CL-RPC-14",
		"CL-INIT-01", "CL-INIT-02", "CL-INIT-03", "CL-INIT-04", "CL-INIT-05", "CL-INIT-06", "CL-INIT-07", "CL-INIT-08", "CL-INIT-09", "CL-INIT-10", "CL-INIT-11",
		"CL-CAP-01", "CL-CAP-02", "CL-CAP-03", "CL-CAP-04", "CL-CAP-05", "CL-CAP-06", "CL-CAP-07", "CL-CAP-08",
		"CL-EXT-01", "CL-EXT-02", "CL-SNEW-01", "CL-SNEW-02", "CL-SNEW-03", "CL-PRM-01", "CL-PRM-02", "CL-PRM-03", "CL-PRM-04", "CL-TURN-01", "CL-TURN-02",
		"CL-PERM-01", "CL-PERM-02", "CL-PERM-03", "CL-PERM-04", "CL-PERM-05", "CL-PERM-06", "CL-PERM-07", "CL-PERM-08",
		"CL-UPD-01", "CL-UPD-02", "CL-UPD-03", "CL-UPD-04", "CL-UPD-05", "CL-LOAD-01", "CL-MODE-01", "CL-CFG-01", "CL-CFG-02",
		"CL-FS-01", "CL-FS-02", "CL-FS-03", "CL-FS-04", "CL-FS-05", "CL-FS-06",
		"CL-TERM-01", "CL-TERM-02", "CL-TERM-03", "CL-TERM-04", "CL-TERM-05", "CL-TERM-06", "CL-TERM-07", "CL-TERM-08", "CL-TERM-09", "CL-TERM-10", "CL-TERM-11", "CL-TERM-12",
		"CL-ELI-01", "CL-ELI-02", "CL-AUTH-01", "CL-AUTH-02", "CL-CAN-01", "CL-CAN-02", "CL-CAN-03",
		"CL-PROC-01", "CL-PROC-02", "CL-PROC-03", "CL-PROC-04", "CL-PROC-05", "CL-SHUT-01", "CL-SHUT-02",
	}
}
