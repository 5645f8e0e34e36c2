package main

import (
	"fmt"

	"peregrine/bench"
)

// A row of sends is not asked for more than deviceShare of what the device takes: in sequential writes, or, in SYNC_FLUSH, of the groups that it syncs when all that
// are in flight share each sync. recordOverhead is what a record of the load generator takes in the log beside its body (`peregrine bench plan`).
const (
	deviceShare    = 0.8
	recordOverhead = 229
)

// device is what the probes say that nobody's broker can exceed.
type device struct {
	dir       string
	writeRate float64              // bytes a second
	syncP50   float64              // ns, of 4 KiB into allocated blocks
	synced    map[string][]float64 // by row of SYNC_FLUSH, one for each round: messages a second
}

// probeDevice takes the best of three probes: others use the device too.
func probeDevice(dir string) (*device, error) {
	d := &device{dir: dir, synced: map[string][]float64{}}
	for i := range 3 {
		p, err := bench.ProbeDevice(dir)
		if err != nil {
			return nil, err
		}
		d.writeRate = max(d.writeRate, p.WriteRate)
		if fresh := float64(p.SyncFresh.P50Ns); i == 0 || fresh < d.syncP50 {
			d.syncP50 = fresh
		}
	}
	return d, nil
}

// beside measures, in the round of the row, how many of its messages the device syncs.
func (d *device) beside(r budgetRow) error {
	o := r.options()
	inflight := o.Connections * o.Inflight
	groups, err := bench.ProbeGroups(d.dir, inflight*(o.Size+recordOverhead))
	d.synced[r.name] = append(d.synced[r.name], groups*float64(inflight))
	return err
}

// excuse tells of a row of sends that misses its rate whether it reaches the device's share, in words; "" = it does not.
func (d *device) excuse(r budgetRow, judged string, perSecond float64) string {
	o := r.options()
	share, of := perSecond*float64(o.Size+recordOverhead)/d.writeRate, "sequential writes"
	if judged == peregrineOwn {
		share, of = perSecond/bench.Median(d.synced[r.name]), "synced groups"
	}
	if share < deviceShare {
		return ""
	}
	return fmt.Sprintf("holds: %.0f %% of the device's %s", 100*share, of)
}

// said is the line of the report about the probes.
func (d *device) said(rows []budgetRow) string {
	text := fmt.Sprintf("Device: sequential writes %.0f MB/s; sync of 4 KiB into allocated blocks p50 %s", d.writeRate/1e6, showTime(d.syncP50))
	for _, r := range rows {
		if rates := d.synced[r.name]; len(rates) > 0 {
			text += fmt.Sprintf("; %s, if all in flight share each sync: %.0f/s", r.name, bench.Median(rates))
		}
	}
	return text + "."
}
