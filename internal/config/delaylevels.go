package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// delayLevelsMax bounds messageDelayLevel: each level has a queue and a goroutine.
const delayLevelsMax = 256

// ParseDelayLevels reads messageDelayLevel ("1s 5s 2m 1h 1d") into the delay of each level, in milliseconds; level 1 comes
// first. It mirrors ScheduleMessageService.parseDelayLevel.
func ParseDelayLevels(text string) ([]int64, error) {
	units := map[byte]int64{'s': 1000, 'm': 60_000, 'h': 3_600_000, 'd': 86_400_000}
	var levels []int64
	for _, level := range strings.Fields(text) {
		unit := units[level[len(level)-1]]
		n, err := strconv.ParseUint(level[:len(level)-1], 10, 31)
		if unit == 0 || err != nil || n == 0 || int64(n) > math.MaxInt64/1000/unit {
			return nil, fmt.Errorf("expected times like 1s 5m 2h 1d, separated by blanks; %q is none", level)
		}
		levels = append(levels, int64(n)*unit)
	}
	if len(levels) == 0 || len(levels) > delayLevelsMax {
		return nil, fmt.Errorf("expected 1 to %d times like 1s 5m 2h 1d, separated by blanks; there are %d", delayLevelsMax, len(levels))
	}
	return levels, nil
}
