// Package stagetime counts how long the stages of a request take, in buckets that double. Each writer has histograms of its own, which cost it a
// few plain stores; whoever shows them adds them up.
package stagetime

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// bucketCount is the number of buckets of a stage's histogram: the first holds up to 1 us, each next one is twice as wide, the last has no end.
const bucketCount = 24

const bucketNs = 1000

// Times is how long a stage took, by buckets. Buckets are not added up.
type Times struct {
	Buckets [bucketCount]uint64
	SumNs   uint64
}

// Bounds are the upper bounds of the buckets in seconds, without that of the last one.
func Bounds() []float64 {
	bounds := make([]float64, bucketCount-1)
	for i := range bounds {
		bounds[i] = float64(int64(bucketNs)<<i) / 1e9
	}
	return bounds
}

// Bucket returns the bucket of a duration among count of which the first ends at unitNs, each next one is twice as wide, and the last has no end.
//
// hot: 0 allocs.
func Bucket(ns, unitNs int64, count int) int {
	if ns <= unitNs {
		return 0
	}
	return min(bits.Len64(uint64((ns-1)/unitNs)), count-1)
}

// Stage times one stage for one writer at a time; AddTo may run beside. The zero Stage is ready.
type Stage struct {
	buckets [bucketCount]atomic.Uint64
	sumNs   atomic.Uint64
}

// Took notes n times one duration.
//
// hot: 0 allocs, two plain loads and stores.
func (s *Stage) Took(d time.Duration, n uint64) {
	b := &s.buckets[Bucket(int64(d), bucketNs, bucketCount)]
	b.Store(b.Load() + n)
	s.sumNs.Store(s.sumNs.Load() + n*uint64(max(d, 0)))
}

// AddTo folds the stage into a sum over writers.
func (s *Stage) AddTo(sum *Times) {
	for i := range s.buckets {
		sum.Buckets[i] += s.buckets[i].Load()
	}
	sum.SumNs += s.sumNs.Load()
}
