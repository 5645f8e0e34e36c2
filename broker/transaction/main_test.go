package transaction

import (
	"testing"

	"go.uber.org/goleak"
)

// gnet starts the goroutines of a default pool when it is linked in; they are no leak of ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
