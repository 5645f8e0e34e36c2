package perf

import "peregrine/internal/sysio"

// Fingerprint says on what this process runs, with the file system that holds dir (empty = none asked for).
// Every number that is compared with another one carries it; the start banner prints its String.
func Fingerprint(dir string) sysio.Machine { return sysio.Fingerprint(dir) }
