package perf

import "peregrine/internal/sysio"

// Fingerprint says on what this process runs. Every number that is compared with another one carries it; the start banner
// prints its String.
func Fingerprint() sysio.Machine { return sysio.Fingerprint("") }

// FingerprintAt is Fingerprint with the file system that holds dir.
func FingerprintAt(dir string) sysio.Machine { return sysio.Fingerprint(dir) }
