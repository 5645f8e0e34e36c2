package broker

import (
	"sync/atomic"
	"time"

	"peregrine/flush"
)

// stageBuckets is the number of buckets of a stage's histogram: the first holds up to 1 us, each next one is twice as wide, the last has no end.
const stageBuckets = 24

const stageBucketNs = 1000

// StageTimes is how long a stage of requests took, by buckets. Buckets are not added up.
type StageTimes struct {
	Buckets [stageBuckets]uint64
	SumNs   uint64
}

// StageBounds are the upper bounds of the buckets in seconds, without that of the last one.
func StageBounds() []float64 {
	bounds := make([]float64, stageBuckets-1)
	for i := range bounds {
		bounds[i] = float64(int64(stageBucketNs)<<i) / 1e9
	}
	return bounds
}

// stage times one stage for one loop or worker, which alone writes it; Stats reads beside.
type stage struct {
	buckets [stageBuckets]atomic.Uint64
	sumNs   atomic.Uint64
}

// took notes n requests of one duration.
//
// hot: 0 allocs, two plain loads and stores.
func (s *stage) took(d time.Duration, n uint64) {
	b := &s.buckets[flush.Bucket(int64(d), stageBucketNs, stageBuckets)]
	b.Store(b.Load() + n)
	s.sumNs.Store(s.sumNs.Load() + n*uint64(max(d, 0)))
}

// addTo folds the stage into a sum over loops.
func (s *stage) addTo(sum *StageTimes) {
	for i := range s.buckets {
		sum.Buckets[i] += s.buckets[i].Load()
	}
	sum.SumNs += s.sumNs.Load()
}
