package control

import (
	"errors"
	"strings"

	"peregrine/broker/names"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/wire"
)

// deleteTopic is code 215: the topic leaves the table, its queues and everybody's offsets of it go, and so do the retry topics
// that POP consumers of it had (clearRetryTopicWhenDeleteTopic, 5.5.0). An unknown topic is fine.
func (s *service) deleteTopic(r *Request) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		if _, absent := missing(err); !absent {
			return wire.ReplyOf(err)
		}
	}
	if refusal := s.Topics.Delete(h.Topic); refusal != nil {
		return refusal.Reply()
	}
	deleted := []string{h.Topic}
	for _, group := range s.Offsets.GroupsOf(h.Topic) {
		for _, separator := range []string{"_", "+"} { // of the retry topics' first and second form (KeyBuilder, 5.5.0)
			if name := topics.RetryPrefix + group + separator + h.Topic; s.Topics.Find(name) != nil && s.Topics.Delete(name) == nil {
				deleted = append(deleted, name)
			}
		}
	}
	var failed error
	for _, name := range deleted {
		failed = errors.Join(failed, s.Store.DeleteTopic(name))
		s.Offsets.RemoveTopic(name)
		s.Pulled.RemoveTopic(name)
		s.Stats.Remove(func(_ stats.Kind, key string) bool { return key == name || strings.HasPrefix(key, name+"@") })
	}
	if failed != nil {
		s.Logger.Error("the queues of a deleted topic could not be deleted", "topic", names.Quote(h.Topic), "error", failed)
		return failure(wire.ResponseSystemError, "the topic is deleted, its queues could not be: "+failed.Error()+"; delete it once more")
	}
	s.Logger.Info("topic deleted by an administrator", "topic", names.Quote(h.Topic), "remote", r.Remote)
	return success(nil, nil)
}

// cleanUnusedTopics is code 316: queues of topics that are not in the table go.
func (s *service) cleanUnusedTopics(r *Request) wire.Reply {
	var failed error
	deleted := 0
	for _, name := range s.Store.Topics() {
		if s.Topics.Find(name) != nil || s.Topics.IsSystem(name) || strings.HasPrefix(name, topics.LightQueuePrefix) {
			continue
		}
		if err := s.Store.DeleteTopic(name); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		deleted++
	}
	s.Logger.Info("queues of unknown topics deleted by an administrator", "topics", deleted, "remote", r.Remote)
	return cleaned(failed)
}

// cleanExpiredQueues is code 306: queues of which every message has left the log go; they begin at offset 0 again.
func (s *service) cleanExpiredQueues(r *Request) wire.Reply {
	deleted, err := s.Store.CleanExpiredQueues(s.Topics.IsSystem)
	s.Logger.Info("expired queues deleted by an administrator", "queues", deleted, "remote", r.Remote)
	return cleaned(err)
}

// deleteExpiredLog is code 329. It is answered at once; the files go on the cleaner's goroutine.
func (s *service) deleteExpiredLog(r *Request) wire.Reply {
	s.Store.DeleteExpiredLog()
	s.Logger.Info("deletion of expired files asked for by an administrator", "remote", r.Remote)
	return success(nil, nil)
}

func cleaned(err error) wire.Reply {
	if err != nil {
		return failure(wire.ResponseSystemError, err.Error())
	}
	return success(nil, nil)
}
