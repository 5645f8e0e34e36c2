package message

import "bytes"

// PropertyMap is a properties text taken apart, for records that the broker rewrites (delayed ones, those sent back, half
// messages). Its text comes out as messageProperties2String of 5.x writes it: each name once, in the order in which Java's
// HashMap of 128 buckets walks them, which is how MessageDecoder.string2messageProperties keeps them.
//
// The zero value is empty. It may be used again and again; names and values alias what they were given from.
type PropertyMap struct {
	entries []mapEntry
	buckets []int32 // 1 + the first entry of a bucket; 0: none
	live    int     // entries that are not deleted
	shift   uint    // log2 of len(buckets)
}

type mapEntry struct {
	name, value []byte
	hash        uint32 // as HashMap spreads it
	next        int32  // 1 + the next entry of the bucket
	deleted     bool
}

const javaMapBucketsLog2 = 7 // new HashMap<>(128)

// Reset empties the map.
func (m *PropertyMap) Reset() {
	clear(m.entries)
	m.entries, m.live = m.entries[:0], 0
	if m.shift != javaMapBucketsLog2 {
		m.shift = javaMapBucketsLog2
		m.buckets = make([]int32, 1<<javaMapBucketsLog2)
		return
	}
	clear(m.buckets)
}

// Parse replaces the content by the properties of text, which is borrowed as long as the content is used.
//
// hot: 0 allocs once the map has grown.
func (m *PropertyMap) Parse(text []byte) {
	m.Reset()
	m.Add(text)
}

// Add puts the properties of text, later ones over earlier ones.
func (m *PropertyMap) Add(text []byte) {
	it := Properties(text)
	for {
		name, value, ok := it.Next()
		if !ok {
			return
		}
		m.Set(name, value)
	}
}

// Set puts one property. Both texts are borrowed as long as the content is used.
//
// hot: 0 allocs once the map has grown.
func (m *PropertyMap) Set(name, value []byte) {
	if len(m.buckets) == 0 {
		m.Reset()
	}
	if e := m.find(name); e != nil {
		e.value = value
		return
	}
	m.entries = append(m.entries, mapEntry{name: name, value: value, hash: spread(name)})
	m.link(len(m.entries) - 1)
	if m.live++; m.live > len(m.buckets)*3/4 {
		m.grow()
	}
}

// Get returns the value, nil when there is none.
//
// hot: 0 allocs.
func (m *PropertyMap) Get(name string) []byte {
	if e := m.find([]byte(name)); e != nil {
		return e.value
	}
	return nil
}

// Delete takes a property out.
func (m *PropertyMap) Delete(name string) {
	if e := m.find([]byte(name)); e != nil {
		e.deleted = true
		m.live--
	}
}

// AppendTo appends the text, each property with both separators.
//
// hot: 0 allocs when dst has room.
func (m *PropertyMap) AppendTo(dst []byte) []byte {
	for _, at := range m.buckets {
		for at != 0 {
			e := &m.entries[at-1]
			if !e.deleted {
				dst = AppendProperty(dst, e.name, e.value)
			}
			at = e.next
		}
	}
	return dst
}

func (m *PropertyMap) find(name []byte) *mapEntry {
	if len(m.buckets) == 0 {
		return nil
	}
	for at := m.buckets[spread(name)&m.mask()]; at != 0; at = m.entries[at-1].next {
		if e := &m.entries[at-1]; !e.deleted && bytes.Equal(e.name, name) {
			return e
		}
	}
	return nil
}

// link puts an entry at the end of its bucket. Buckets are short: keys of one hash are few in a text of at most 32 KiB.
func (m *PropertyMap) link(i int) {
	at := &m.buckets[m.entries[i].hash&m.mask()]
	for *at != 0 {
		at = &m.entries[*at-1].next
	}
	m.entries[i].next = 0
	*at = int32(i) + 1
}

// grow doubles the buckets; the order within them stays, as in HashMap.resize.
func (m *PropertyMap) grow() {
	m.shift++
	m.buckets = make([]int32, 1<<m.shift)
	for i := range m.entries {
		m.link(i)
	}
}

func (m *PropertyMap) mask() uint32 { return uint32(len(m.buckets) - 1) }

// spread is HashMap.hash of a name.
func spread(name []byte) uint32 {
	h := uint32(JavaHash(name))
	return h ^ h>>16
}
