package bench

import (
	"context"
	"time"
)

// DispatchResult says how long consumers had to wait for the last acknowledged message after the load was over.
type DispatchResult struct {
	Level        bool    `json:"level"`        // everything acknowledged is visible
	AfterSeconds float64 `json:"afterSeconds"` // from the last answer until then, or until the watch ended
	Grown        int64   `json:"grown"`        // by how much the maximum offsets grew during the load
	Acknowledged uint64  `json:"acknowledged"` // by how much they have to
	InTime       bool    `json:"inTime"`       // level within dispatchLevelMax: the rate counts
}

// watchDispatch looks at the maximum offsets of all targets until they have grown by acked, starting now, which is since
// after the last answer. before is their sum when the load began. What another producer sends to the same topic counts too:
// the check means something only for a topic of one's own.
func watchDispatch(ctx context.Context, controls []*control, targets []*target, topic string, before int64, acked uint64, over time.Time) (*DispatchResult, error) {
	d := &DispatchResult{Acknowledged: acked}
	for {
		sum := int64(0)
		for i, t := range targets {
			n, err := maxOffsets(controls[i], t, topic)
			if err != nil {
				// The original now and then resets a connection that was silent during the load; a fresh one gets its answer.
				if err = controls[i].redial(); err == nil {
					n, err = maxOffsets(controls[i], t, topic)
				}
			}
			if err != nil {
				return nil, err
			}
			sum += n
		}
		d.Grown = sum - before
		waited := time.Since(over)
		d.AfterSeconds = waited.Seconds()
		if d.Grown >= int64(acked) {
			d.Level, d.InTime = true, waited <= dispatchLevelMax
			return d, nil
		}
		if waited > dispatchWaitMax || ctx.Err() != nil {
			return d, nil
		}
		time.Sleep(dispatchPollGap) // the broker needs the processor more than we need the answer
	}
}
