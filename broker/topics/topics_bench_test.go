package topics

import (
	"fmt"
	"testing"

	"peregrine/internal/sysio"
)

// BenchmarkSaveOf30kTopics is what one creation costs where there are many topics, the disk aside.
func BenchmarkSaveOf30kTopics(b *testing.B) {
	table, err := Open(options(sysio.NewFaultFS(), nil))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 30_000 {
		table.insert(defaultConfig(fmt.Sprint("topic-number-", i)), nil)
	}
	for b.Loop() {
		data, _ := table.encode()
		b.SetBytes(int64(len(data)))
	}
}
