package statefile

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		fmt.Fprintln(os.Stderr, saveForEver(dir))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
