package stagetime

import (
	"testing"
	"time"
)

// Each duration is in the bucket whose bounds hold it.
func TestStage(t *testing.T) {
	bounds := Bounds()
	for _, d := range []time.Duration{-1, 0, 1, 999, 1000, 1001, 2000, 2001, time.Millisecond, 8_388_608_000, 8_388_608_001, time.Hour} {
		var s Stage
		s.Took(d, 3)
		var sum Times
		s.AddTo(&sum)
		s.AddTo(&sum)
		for i, n := range sum.Buckets {
			inside := (i == 0 || d.Seconds() > bounds[i-1]) && (i == len(bounds) || d.Seconds() <= bounds[i])
			if (n == 6) != inside || n != 0 && n != 6 {
				t.Errorf("%v: bucket %d has %d", d, i, n)
			}
		}
		if sum.SumNs != 6*uint64(max(d, 0)) {
			t.Errorf("%v: the sum is %d", d, sum.SumNs)
		}
	}
}
