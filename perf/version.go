package perf

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version names this build in one line: `peregrine 0.1.0 (1a2b3c4d5e6f, go1.26, linux/amd64)`.
// stamped is what the linker was told (main keeps that variable); empty = the module version that Go recorded.
func Version(stamped string) string {
	version, revision := stamped, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" && info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				revision = s.Value[:12] + ", "
			}
		}
	}
	if version == "" || version == "(devel)" {
		version = "development build"
	}
	return fmt.Sprintf("peregrine %s (%s%s, %s/%s)", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
