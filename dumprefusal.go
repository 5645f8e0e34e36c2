package main

import (
	"fmt"
	"os"
	"strings"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/store/inspect"
)

// startConfig is the configuration of a broker that would start on the directory and delete nothing, with the sizes that d has: those that
// somebody set, else what the files show. d may be nil.
func (o *dumpOptions) startConfig(d *inspect.Directory) (*config.Config, error) {
	args := o.configArgs()
	if d != nil {
		args = append(args, sizesOf(d)...)
	}
	cfg, _, err := config.Load(args, os.Getenv, os.ReadFile)
	if err != nil {
		return nil, err
	}
	cfg.Resolve(config.ThisMachine())
	cfg.CheckCRCOnRecover = true
	cfg.CleanResourceInterval = 0 // retention is the broker's
	return cfg, nil
}

func sizesOf(d *inspect.Directory) (args []string) {
	if d.SegmentBytes > 0 {
		args = append(args, fmt.Sprintf("mappedFileSizeCommitLog=%d", d.SegmentBytes))
	}
	if d.QueueFileBytes > 0 {
		args = append(args, fmt.Sprintf("mappedFileSizeConsumeQueue=%d", d.QueueFileBytes))
	}
	for _, f := range d.Index {
		if f.Slots > 0 {
			return append(args, fmt.Sprintf("maxHashSlotNum=%d", f.Slots), fmt.Sprintf("maxIndexNum=%d", f.Items))
		}
	}
	return args
}

// heads are the records whose damaged heads an earlier start found.
func (o *dumpOptions) heads(where inspect.Options) map[message.PhyOffset]int64 {
	cfg, err := o.startConfig(nil)
	if err != nil {
		return nil
	}
	return store.DamagedHeads(where.FS, cfg)
}

// refusal is the sentence with which a start would refuse the directory, "" when it would not: that of the store itself. Where the broker's
// configuration is given, its sizes count, and not those that the files show. A running broker has started.
func (o *dumpOptions) refusal(where inspect.Options, d *inspect.Directory) string {
	if d != nil && d.Held {
		return ""
	}
	shown := d
	if o.config != "" {
		shown = nil
	}
	cfg, err := o.startConfig(shown)
	if err == nil {
		err = store.Check(where.FS, cfg)
	}
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "store: ")
}
