package namesrv

import (
	"fmt"
	"maps"

	"peregrine/wire"
)

// orderNamespace holds which queues of which brokers make up an ordered topic: `broker-a:4;broker-b:4` by topic.
const orderNamespace = "ORDER_TOPIC_CONFIG"

// kvTable is namespace → key → value.
type kvTable map[string]map[string]string

// kvLayout is kvConfig.json (kvconfig.KVConfigSerializeWrapper).
type kvLayout struct {
	ConfigTable map[string]map[string]string `json:"configTable"`
}

func (s *Server) loadKV() error {
	s.kv = make(kvTable)
	var layout kvLayout
	data, err := s.kvFile.Load(func(data []byte) error {
		layout = kvLayout{}
		return wire.DecodeBody(data, &layout)
	})
	if err != nil {
		return fmt.Errorf("load the KV table of the name server: %w", err)
	}
	if data != nil && layout.ConfigTable != nil {
		s.kv = layout.ConfigTable
	}
	return nil
}

func (t kvTable) bytes() int {
	sum := 0
	for namespace, entries := range t {
		sum += len(namespace)
		for key, value := range entries {
			sum += len(key) + len(value)
		}
	}
	return sum
}

// changeKV applies change and writes the file. A failed write is undone, so that memory and file say the same.
func (s *Server) changeKV(change func(kvTable) *wire.Refusal) wire.Reply {
	s.files.Lock()
	defer s.files.Unlock()
	s.mu.RLock()
	next := make(kvTable, len(s.kv))
	for namespace, entries := range s.kv {
		next[namespace] = maps.Clone(entries)
	}
	s.mu.RUnlock()
	if refusal := change(next); refusal != nil {
		return refusal.Reply()
	}
	if err := s.kvFile.Save(wire.EncodeBody(kvLayout{ConfigTable: next})); err != nil {
		s.logger.Error("the KV table of the name server is not saved", "error", err)
		return failure(wire.ResponseSystemError, "the KV table cannot be saved: "+err.Error())
	}
	s.mu.Lock()
	s.kv = next
	s.mu.Unlock()
	return success(nil, nil)
}

func (s *Server) putKV(c *call) wire.Reply {
	var h wire.PutKVConfigRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		// The original's text for the two that it checks; mqadmin never leaves them out.
		if _, has := c.cmd.GetExt("namespace"); !has {
			return failure(wire.ResponseSystemError, "namespace or key is null")
		}
		if _, has := c.cmd.GetExt("key"); !has {
			return failure(wire.ResponseSystemError, "namespace or key is null")
		}
		return wire.ReplyOf(err)
	}
	return s.changeKV(func(t kvTable) *wire.Refusal {
		if t.bytes()+len(h.Namespace)+len(h.Key)+len(h.Value) > KVBytesMax {
			return wire.Refuse(wire.ResponseSystemError, "the KV table is full")
		}
		if t[h.Namespace] == nil {
			t[h.Namespace] = make(map[string]string)
		}
		t[h.Namespace][h.Key] = h.Value
		return nil
	})
}

func (s *Server) deleteKV(c *call) wire.Reply {
	var h wire.KVConfigRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.RLock()
	_, has := s.kv[h.Namespace][h.Key]
	s.mu.RUnlock()
	if !has {
		return success(nil, nil)
	}
	return s.changeKV(func(t kvTable) *wire.Refusal {
		delete(t[h.Namespace], h.Key)
		return nil
	})
}

func (s *Server) getKV(c *call) wire.Reply {
	var h wire.KVConfigRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.RLock()
	value, has := s.kv[h.Namespace][h.Key]
	s.mu.RUnlock()
	if !has {
		return wire.Reply{Code: wire.ResponseQueryNotFound, Remark: "No config item, Namespace: " + h.Namespace + " Key: " + h.Key,
			Header: wire.GetKVConfigResponseHeader{}}
	}
	return success(wire.GetKVConfigResponseHeader{Value: &value}, nil)
}

func (s *Server) listKV(c *call) wire.Reply {
	var h wire.GetKVListByNamespaceRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.RLock()
	entries, has := s.kv[h.Namespace]
	s.mu.RUnlock() // changeKV replaces the table as a whole, so entries stays as it is
	if !has {
		return failure(wire.ResponseQueryNotFound, "No config item, Namespace: "+h.Namespace)
	}
	return success(nil, wire.EncodeBody(wire.KVTable{Table: entries}))
}

// orderConfigsLocked is what a registering broker learns of ordered topics; nil when there is nothing to say.
func (s *Server) orderConfigsLocked() []byte {
	entries, has := s.kv[orderNamespace]
	if !has || s.settings["returnOrderTopicConfigToBroker"] != "true" {
		return nil
	}
	return wire.EncodeBody(wire.KVTable{Table: entries})
}
