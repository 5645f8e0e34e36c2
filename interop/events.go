package interop

import (
	"encoding/json"
	"sync"
)

// Event is one fact that a client program printed. Which members it has depends on its name E; README.md has the table.
// Absent members are zero; where zero is a value as well (queue, offset) the member is a pointer.
type Event struct {
	Scenario string `json:"s"`
	E        string `json:"e"`

	How       string            `json:"how"`     // sent: sync, async, oneway, batch
	By        string            `json:"by"`      // name of the consumer
	Topic     string            `json:"topic"`   // sent, got
	ID        string            `json:"id"`      // UNIQ_KEY; absent where a client has none
	OffsetID  string            `json:"mid"`     // offset message id
	Queue     *int              `json:"q"`       // sent, got, pulled, search
	Offset    *int64            `json:"o"`       // queue offset; batch: of its first element
	Status    string            `json:"status"`  // sent: send status; pulled: pull status
	SizeBytes int               `json:"n"`       // of the body before compression
	SHA256    string            `json:"sha"`     // of that body
	Tag       string            `json:"tags"`    // sent, got
	Keys      string            `json:"keys"`    // sent, got
	Flag      int               `json:"flag"`    // sent, got
	Props     map[string]string `json:"props"`   // sent, got: what the application put there
	Born      string            `json:"born"`    // got: HOST:PORT that the broker saw
	StoredMs  int64             `json:"st"`      // got: store timestamp, epoch ms
	SysFlag   int               `json:"sys"`     // got
	Stored    int               `json:"size"`    // got: bytes of the stored record; batch: elements
	Again     int               `json:"again"`   // got: which retry this is
	BornMs    int64             `json:"bt"`      // got: when it was sent, epoch ms
	AtMs      int64             `json:"at"`      // got, finished: the client's clock, epoch ms
	Origin    string            `json:"origin"`  // got: ORIGIN_MESSAGE_ID
	RetryOf   string            `json:"retryOf"` // got: RETRY_TOPIC

	Name      string   `json:"name"`      // value, phase
	Group     string   `json:"group"`     // phase: whose offsets are to be reset
	Value     int64    `json:"value"`     // value
	When      string   `json:"when"`      // assigned
	Ms        int64    `json:"ms"`        // assigned (-1: it never happened), done
	Queues    []int    `json:"queues"`    // assigned
	Wanted    []string `json:"wanted"`    // subscribed: tags
	Code      int      `json:"code"`      // refused
	Remark    string   `json:"remark"`    // refused
	Limit     int      `json:"limit"`     // refused
	From      int64    `json:"from"`      // pulled: offset asked for
	Next      int64    `json:"next"`      // pulled
	Min       int64    `json:"min"`       // pulled
	Max       int64    `json:"max"`       // pulled
	TimeMs    int64    `json:"t"`         // search, phase of a reset: epoch ms asked for
	IDs       int      `json:"ids"`       // batch: ids in the answer
	OffsetIDs int      `json:"offsetIds"` // batch: offset ids in the answer
	Error     string   `json:"error"`     // failed, retry, client-error
	Out       string   `json:"out"`       // ran
	Expected  int      `json:"expected"`  // missing
	Arrived   int      `json:"arrived"`   // missing
}

// Transcript collects the events of one client process. Its methods may be called from any goroutine.
type Transcript struct {
	mu     sync.Mutex
	events []Event
	noise  []string // lines that are no events: an old client may print to standard output
	ready  chan struct{}
	once   sync.Once
	// reset is called, if it is set, when a client asks its administrator for a reset of offsets (a phase with a group).
	reset func(Event)
}

func newTranscript() *Transcript { return &Transcript{ready: make(chan struct{})} }

// take is the sink of a process: one line.
func (t *Transcript) take(line []byte) {
	var event Event
	if err := json.Unmarshal(line, &event); err != nil || event.E == "" {
		t.mu.Lock()
		t.noise = append(t.noise, string(line))
		t.mu.Unlock()
		return
	}
	t.mu.Lock()
	t.events = append(t.events, event)
	t.mu.Unlock()
	if event.E == "ready" {
		t.once.Do(func() { close(t.ready) })
	}
	if event.E == "phase" && event.Group != "" && t.reset != nil {
		t.reset(event)
	}
}

// add appends events that the harness saw itself.
func (t *Transcript) add(events ...Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, events...)
}

// Ready is closed at the first event "ready": a scenario waits for a broker restart.
func (t *Transcript) Ready() <-chan struct{} { return t.ready }

// Of returns the events of a scenario in the order in which they were printed.
func (t *Transcript) Of(scenario string) []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	var some []Event
	for _, event := range t.events {
		if event.Scenario == scenario {
			some = append(some, event)
		}
	}
	return some
}

// where picks events.
func where(events []Event, keep func(Event) bool) []Event {
	var some []Event
	for _, event := range events {
		if keep(event) {
			some = append(some, event)
		}
	}
	return some
}

// named picks the events of one name.
func named(events []Event, name string) []Event {
	return where(events, func(e Event) bool { return e.E == name })
}
