// Package groups is the table of subscription groups: which consumer groups may consume and how, what is forbidden to them,
// and the state file subscriptionGroup.json. It mirrors SubscriptionGroupManager of RocketMQ 5.5.0.
//
// Who is connected at the moment is in package clients; a group stays here when its last member goes.
//
// Goroutines: Lookup, Group.Config and ReadForbidden are for event loops, and so is LookupOrCreate, which writes no file.
// The administrators' changes write the file and are for control workers. Lock order: the state file's lock → mu (never held
// during I/O).
package groups

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"peregrine/broker/attribute"
	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

const (
	systemPrefix = "CID_RMQ_SYS_"
	// readForbiddenBit is the bit of the forbidden table that stops pulls (PermName.INDEX_PERM_READ).
	readForbiddenBit = 1 << 2
)

// systemGroups exist on every broker (MixAll, SubscriptionGroupManager.init, 5.5.0).
func systemGroups() []string {
	return []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
		"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"}
}

// Options are what a Table is made of.
type Options struct {
	FS     sysio.FS
	Path   string // of subscriptionGroup.json; its directory exists
	Logger *slog.Logger
	Now    func() message.Millis
	// AutoCreate is autoCreateSubscriptionGroup, AutoCreateSystem enableCreateSysGroup.
	AutoCreate, AutoCreateSystem bool
}

// Table holds the subscription groups of a broker.
type Table struct {
	file       *statefile.File
	source     sysio.Source // which copy of it was read; immutable after Open
	logger     *slog.Logger
	now        func() message.Millis
	autoCreate atomic.Bool
	autoSystem bool
	attributes attribute.Set

	generation atomic.Uint64                               // +1 with every change
	forbidden  atomic.Pointer[map[string]map[string]int32] // group → topic → bits; copy-on-write under mu

	mu      sync.RWMutex // guards the fields below
	byName  map[string]*Group
	version wire.DataVersion
	rest    statefile.Extra
}

// Group is one subscription group.
type Group struct {
	name   string
	bytes  []byte // the name
	config atomic.Pointer[wire.SubscriptionGroupConfig]
	extra  statefile.Extra // members of the state file that this version does not know; immutable
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// NameBytes is Name as bytes; shared, must not be changed.
//
// hot: 0 allocs.
func (g *Group) NameBytes() []byte { return g.bytes }

// Config returns the current configuration. It is shared and must not be changed.
//
// hot: 0 allocs.
func (g *Group) Config() *wire.SubscriptionGroupConfig { return g.config.Load() }

type fileLayout struct {
	DataVersion            *wire.DataVersion           `json:"dataVersion,omitempty"`
	ForbiddenTable         map[string]map[string]int32 `json:"forbiddenTable"`
	SubscriptionGroupTable map[string]json.RawMessage  `json:"subscriptionGroupTable"`
}

// Configure changes autoCreateSubscriptionGroup.
func (t *Table) Configure(autoCreate bool) { t.autoCreate.Store(autoCreate) }

// content is what subscriptionGroup.json holds.
type content struct {
	version   *wire.DataVersion
	forbidden map[string]map[string]int32
	configs   map[string]wire.SubscriptionGroupConfig
	extras    map[string]statefile.Extra
	rest      statefile.Extra
}

// Open reads subscriptionGroup.json (or its backup) and adds the groups that every broker has. It changes nothing on disk. Settle
// follows when others know which groups there are.
func Open(o Options) (_ *Table, err error) {
	t := &Table{
		file: statefile.New(o.FS, o.Path, o.Logger), logger: o.Logger, now: o.Now, autoSystem: o.AutoCreateSystem,
		attributes: attribute.GroupSet(), byName: make(map[string]*Group),
	}
	t.autoCreate.Store(o.AutoCreate)
	var loaded content
	if t.source, err = t.file.Load(func(data []byte) (err error) {
		loaded, err = parse(data)
		return err
	}); err != nil {
		return nil, err
	}
	t.version = wire.DataVersion{Timestamp: int64(t.now())}
	if loaded.version != nil {
		t.version = *loaded.version
	}
	t.rest = loaded.rest
	forbidden := loaded.forbidden
	if forbidden == nil {
		forbidden = map[string]map[string]int32{}
	}
	t.forbidden.Store(&forbidden)
	for name, config := range loaded.configs {
		t.insert(config, loaded.extras[name])
	}
	for _, name := range systemGroups() {
		if t.byName[name] == nil {
			t.insert(wire.NewSubscriptionGroupConfig(name), nil)
		}
	}
	t.generation.Store(1)
	return t, nil
}

// Settle makes groups again, with default settings, that others know and subscriptionGroup.json does not because it, or its newest
// version, is lost. It says so in the log and writes the file. To be called once, before anybody but the caller knows the table.
func (t *Table) Settle(known []string) {
	if t.source == sysio.SourceMain {
		return
	}
	var made []string
	t.mu.Lock()
	for _, name := range known {
		if t.byName[name] == nil && len(t.byName) < CountMax {
			t.insert(wire.NewSubscriptionGroupConfig(name), nil)
			made = append(made, name)
		}
	}
	if len(made) > 0 {
		t.bumpLocked()
	}
	t.mu.Unlock()
	if len(made) == 0 {
		return
	}
	t.logger.Warn("groups that subscriptionGroup.json lacks are made again with default settings, as they have offsets or a retry topic; check their settings",
		"file", t.file.Path(), "used instead", t.source.String(), "groups", len(made), "names", made[:min(len(made), namesShownMax)])
	t.persist()
}

// Found says which copy of subscriptionGroup.json was read.
func (t *Table) Found() sysio.Source { return t.source }

func parse(data []byte) (content, error) {
	standard, err := statefile.Standard(data)
	if err != nil {
		return content{}, err
	}
	var l fileLayout
	if err := json.Unmarshal(standard, &l); err != nil {
		return content{}, err
	}
	if l.SubscriptionGroupTable == nil {
		return content{}, errors.New("there is no subscriptionGroupTable in it")
	}
	c := content{version: l.DataVersion, forbidden: l.ForbiddenTable, configs: make(map[string]wire.SubscriptionGroupConfig),
		extras: make(map[string]statefile.Extra), rest: statefile.Unknown(standard, l)}
	for name, raw := range l.SubscriptionGroupTable {
		var config wire.SubscriptionGroupConfig
		if err := wire.DecodeBody(raw, &config); err != nil {
			return content{}, fmt.Errorf("group %q: %w", name, err)
		}
		config.GroupName = name
		c.configs[name] = config
		if extra := statefile.Unknown(raw, config); extra != nil {
			c.extras[name] = extra
		}
	}
	return c, nil
}

// insert adds or replaces a group. The caller holds mu, or nobody else knows the table yet.
func (t *Table) insert(config wire.SubscriptionGroupConfig, extra statefile.Extra) *Group {
	if config.Attributes == nil {
		config.Attributes = map[string]string{}
	}
	g := t.byName[config.GroupName]
	if g == nil {
		g = &Group{name: config.GroupName, bytes: []byte(config.GroupName), extra: extra}
		t.byName[config.GroupName] = g
	}
	g.config.Store(&config)
	return g
}

// Lookup returns the group of that name, nil when there is none.
//
// hot: 0 allocs, one read lock.
func (t *Table) Lookup(name []byte) *Group {
	t.mu.RLock()
	g := t.byName[string(name)]
	t.mu.RUnlock()
	return g
}

// Find is Lookup for a string.
func (t *Table) Find(name string) *Group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// LookupOrCreate returns the group, making it with default settings when that is allowed and the name is legal; nil
// otherwise (the caller answers 26 or skips). It writes no file: a new group is on disk with the next Save, which a timer and
// the control workers call.
func (t *Table) LookupOrCreate(name string) *Group {
	if g := t.Find(name); g != nil {
		return g
	}
	if !t.autoCreate.Load() && !(t.autoSystem && strings.HasPrefix(name, systemPrefix)) {
		return nil
	}
	if CheckName(name) != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.byName[name]; g != nil {
		return g
	}
	if len(t.byName) >= CountMax {
		return nil
	}
	g := t.insert(wire.NewSubscriptionGroupConfig(strings.Clone(name)), nil)
	t.bumpLocked()
	t.logger.Info("subscription group made by a client", "group", name)
	return g
}

func (t *Table) bumpLocked() {
	t.version.Counter++
	t.version.Timestamp = int64(t.now())
	t.generation.Add(1)
}

// ReadForbidden says that pulls of a topic are forbidden to a group (code 353).
//
// hot: 0 allocs, no locks.
func (t *Table) ReadForbidden(group []byte, topic string) bool {
	return (*t.forbidden.Load())[string(group)][topic]&readForbiddenBit != 0
}

// Count returns how many groups there are.
func (t *Table) Count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byName)
}

// Snapshot returns all groups, sorted by name, with the data version and the forbidden table (which must not be changed).
func (t *Table) Snapshot() ([]*Group, wire.DataVersion, map[string]map[string]int32) {
	t.mu.RLock()
	groups := slices.Collect(maps.Values(t.byName))
	version, forbidden := t.version, *t.forbidden.Load()
	t.mu.RUnlock()
	slices.SortFunc(groups, func(a, b *Group) int { return strings.Compare(a.name, b.name) })
	return groups, version, forbidden
}

// Page is the answer of code 201: groups [from, from+count) in the order of their names, what is forbidden to them, and how
// many groups there are. A count of 0 or less means all.
func (t *Table) Page(from, count int) (page []wire.SubscriptionGroupConfig, forbidden map[string]map[string]int32, total int, version wire.DataVersion) {
	groups, version, all := t.Snapshot()
	total = len(groups)
	if count > 0 {
		from = min(max(from, 0), total)
		groups = groups[from:min(total, from+min(count, pageMax))]
	}
	forbidden = make(map[string]map[string]int32)
	for _, g := range groups {
		page = append(page, *g.Config())
		if bits := all[g.name]; bits != nil {
			forbidden[g.name] = bits
		}
	}
	return page, forbidden, total, version
}

// Save writes subscriptionGroup.json if something changed since the last write. It does file I/O.
func (t *Table) Save() error { return t.file.Save(t.generation.Load(), t.encode) }

// persist is Save after a change that is answered anyway.
func (t *Table) persist() {
	if err := t.Save(); err != nil {
		t.logger.Error("subscription groups are not saved; the next change or the shutdown tries again", "error", err)
	}
}

func (t *Table) encode() ([]byte, uint64) {
	// Read before the groups: what is written may be newer than this says, never older.
	generation := t.generation.Load()
	groups, version, forbidden := t.Snapshot()
	l := fileLayout{DataVersion: &version, ForbiddenTable: forbidden, SubscriptionGroupTable: make(map[string]json.RawMessage, len(groups))}
	for _, g := range groups {
		l.SubscriptionGroupTable[g.name] = statefile.Merge(g.Config(), g.extra)
	}
	t.mu.RLock()
	rest := t.rest
	t.mu.RUnlock()
	return statefile.AppendPretty(nil, statefile.Merge(l, rest)), generation
}

// DataVersion returns the version of the table.
func (t *Table) DataVersion() wire.DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.version
}
