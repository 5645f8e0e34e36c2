package control

import (
	"strings"

	"peregrine/broker/names"
	"peregrine/broker/stats"
	"peregrine/wire"
)

// updateGroup is code 200. Without a body nothing happens, as in the original.
func (s *service) updateGroup(r *Request) wire.Reply {
	if len(r.Cmd.Body) == 0 {
		return success(nil, nil)
	}
	var config wire.SubscriptionGroupConfig
	if err := wire.DecodeBody(r.Cmd.Body, &config); err != nil {
		return wire.ReplyOf(err)
	}
	refusal := s.Groups.Update(config)
	if refusal == nil {
		s.Logger.Info("subscription group set by an administrator", "group", config.GroupName, "remote", r.Remote)
	}
	return refused(refusal)
}

// updateGroupList is code 225.
func (s *service) updateGroupList(r *Request) wire.Reply {
	var body struct {
		GroupConfigList []wire.SubscriptionGroupConfig `json:"groupConfigList"`
	}
	if err := wire.DecodeBody(r.Cmd.Body, &body); err != nil {
		return wire.ReplyOf(err)
	}
	if body.GroupConfigList == nil {
		return failure(wire.ResponseSystemError, "the body lacks groupConfigList")
	}
	refusal := s.Groups.UpdateAll(body.GroupConfigList)
	if refusal == nil {
		s.Logger.Info("subscription groups set by an administrator", "groups", len(body.GroupConfigList), "remote", r.Remote)
	}
	return refused(refusal)
}

// deleteGroup is code 207.
func (s *service) deleteGroup(r *Request) wire.Reply {
	var h wire.DeleteSubscriptionGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.Groups.Delete(h.GroupName)
	s.Stats.Remove(func(_ stats.Kind, key string) bool { return strings.HasSuffix(key, "@"+h.GroupName) })
	if h.CleanOffset {
		s.Offsets.RemoveGroup(h.GroupName)
		s.Pulled.RemoveGroup(h.GroupName)
	}
	s.Logger.Info("subscription group deleted by an administrator", "group", names.Quote(h.GroupName), "offsets too", h.CleanOffset, "remote", r.Remote)
	return success(nil, nil)
}

// allGroupConfig is code 201.
func (s *service) allGroupConfig(r *Request) wire.Reply {
	var h wire.GetAllSubscriptionGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	from, count := pageOf(h.GroupSeq, h.MaxGroupNum, h.DataVersion, s.Groups.DataVersion())
	page, forbidden, total, version := s.Groups.Page(from, count)
	wrapper := wire.SubscriptionGroupWrapper{DataVersion: version, ForbiddenTable: forbidden,
		SubscriptionGroupTable: make(map[string]wire.SubscriptionGroupConfig, len(page))}
	for _, config := range page {
		wrapper.SubscriptionGroupTable[config.GroupName] = config
	}
	n := int32(total)
	return success(wire.GetAllSubscriptionGroupResponseHeader{TotalGroupNum: &n}, wire.EncodeBody(wrapper))
}

// groupConfig is code 352. It makes the group if groups may be made, as the original's lookup does.
func (s *service) groupConfig(r *Request) wire.Reply {
	var h wire.GroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	group := s.Groups.LookupOrCreate(h.Group)
	if group == nil {
		return failure(wire.ResponseSubscriptionGroupNotExist, "No group in this broker")
	}
	s.saveGroups()
	return success(nil, wire.EncodeBody(group.Config()))
}

// groupForbidden is code 353: sets, when readable is given, and tells whether a group may read a topic.
func (s *service) groupForbidden(r *Request) wire.Reply {
	var h wire.GroupForbiddenRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	if h.Readable != nil {
		if refusal := s.Groups.SetReadForbidden(h.Group, h.Topic, !*h.Readable); refusal != nil {
			return refusal.Reply()
		}
	}
	return success(nil, wire.EncodeBody(struct {
		Group    string `json:"group"`
		Readable bool   `json:"readable"`
		Topic    string `json:"topic"`
	}{h.Group, !s.Groups.ReadForbidden([]byte(h.Group), h.Topic), h.Topic}))
}
