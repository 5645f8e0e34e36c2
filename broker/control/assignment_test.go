package control

import (
	"fmt"
	"slices"
	"testing"

	"peregrine/wire"
)

func TestAssignmentsAreTheOriginals(t *testing.T) {
	if compared := replay(t, "testdata/assignment.jsonl"); compared[wire.RequestQueryAssignment] < 40 {
		t.Errorf("compared: %v", compared)
	}
}

// Whatever the numbers, every queue has exactly one owner, and no member has two more than another.
func TestQueuesAreSharedOutFairly(t *testing.T) {
	for members := 1; members <= 9; members++ {
		ids := make([]string, members)
		for i := range ids {
			ids[i] = fmt.Sprint("c", i)
		}
		for queues := 1; queues <= 20; queues++ {
			for _, strategy := range []string{"AVG", "AVG_BY_CIRCLE"} {
				owners, counts := make([]int, queues), make([]int, members)
				for at, id := range ids {
					first, end, step, ok := shareOf(strategy, id, slices.Clone(ids), queues)
					for q := first; q < end; q += step {
						owners[q]++
						counts[at]++
					}
					if !ok {
						t.Errorf("%s, %d members, %d queues: no answer", strategy, members, queues)
					}
				}
				if slices.Min(owners) != 1 || slices.Max(owners) != 1 || slices.Max(counts)-slices.Min(counts) > 1 {
					t.Errorf("%s, %d members, %d queues: owners of each queue %v, queues of each member %v", strategy, members, queues, owners, counts)
				}
			}
		}
	}
}
