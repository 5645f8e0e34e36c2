package topics

import (
	"maps"
	"strings"

	"peregrine/broker/attribute"
	"peregrine/broker/names"
	"peregrine/wire"
)

// Hint is what the original appends to remarks about missing topics and groups.
const Hint = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

// NotExist is the refusal of a send to a topic that is not there and cannot be made (AbstractSendMessageProcessor, 5.5.0).
func NotExist(topic string) *wire.Refusal {
	return wire.Refuse(wire.ResponseTopicNotExist, "topic["+names.Quote(topic)+"] not exist, apply first please!\n"+Hint)
}

// SendForbiddenRefusal is the refusal of a send to a topic that only the broker writes.
func SendForbiddenRefusal(topic string) *wire.Refusal {
	return wire.Refuse(wire.ResponseNoPermission, "Sending message to topic["+topic+"] is forbidden.")
}

func defaultConfig(name string) wire.TopicConfig {
	return wire.TopicConfig{
		Attributes: map[string]string{}, Perm: PermRead | PermWrite, ReadQueueNums: 16, WriteQueueNums: 16,
		TopicFilterType: wire.TopicFilterSingleTag, TopicName: name,
	}
}

// SendCreation is a send to a topic that Lookup did not find.
type SendCreation struct {
	Topic, DefaultTopic string
	QueueNums           int32 // defaultTopicQueueNums of the header
	UnitMode            bool
}

// CreateOnSend makes the topic that a send asks for, by the rules of TopicConfigManager.createTopicInSendMessageMethod and
// the retry case behind it (5.5.0), or returns the one that is there by now. nil, with the refusal, when it may not be made.
func (t *Table) CreateOnSend(c SendCreation) (*Topic, *wire.Refusal) {
	if refusal := CheckName(c.Topic); refusal != nil {
		return nil, refusal
	}
	if !t.acquire() {
		return nil, NotExist(c.Topic)
	}
	topic, generation := t.createFromTemplate(c)
	t.release()
	if generation != 0 {
		t.persist(generation)
	}
	if topic == nil {
		if strings.HasPrefix(c.Topic, RetryPrefix) {
			return t.createPlain(c.Topic, 1, false, c.UnitMode)
		}
		return nil, NotExist(c.Topic)
	}
	return topic, nil
}

// createFromTemplate returns the topic, and the generation to persist if it changed the table. The caller has the token.
func (t *Table) createFromTemplate(c SendCreation) (*Topic, uint64) {
	if topic := t.Find(c.Topic); topic != nil {
		return topic, 0
	}
	template := t.Find(c.DefaultTopic)
	if template == nil {
		return nil, 0
	}
	model := *template.Config()
	if c.DefaultTopic == AutoCreateTopic && !t.settings.Load().AutoCreate && model.Perm != PermRead|PermWrite {
		// The table of an earlier run had auto-creation on: the template loses its inherit bit for good.
		model.Perm = PermRead | PermWrite
		t.insert(model, nil)
		return nil, t.bump([]wire.TopicConfig{model}, "")
	}
	if model.Perm&PermInherit == 0 || t.full() {
		return nil, 0
	}
	config := defaultConfig(c.Topic)
	queues := max(0, min(c.QueueNums, model.WriteQueueNums))
	config.ReadQueueNums, config.WriteQueueNums = queues, queues
	config.Perm = model.Perm &^ PermInherit
	config.TopicFilterType = model.TopicFilterType
	if c.UnitMode {
		config.TopicSysFlag = wire.TopicSysFlagUnit
	}
	topic := t.insert(config, nil)
	t.logger.Info("topic made by a send", "topic", c.Topic, "queues", queues, "template", c.DefaultTopic)
	return topic, t.bump([]wire.TopicConfig{config}, "")
}

func (t *Table) full() bool {
	if t.Count() < CountMax {
		return false
	}
	t.logger.Warn("the topic table is full, a topic is not made", "topics", CountMax)
	return true
}

// CreateRetryTopic makes `%RETRY%group` for a group that subscribes, or returns it (createTopicInSendMessageBackMethod,
// 5.5.0). order follows the group's subscription and is updated on an existing topic.
func (t *Table) CreateRetryTopic(group string, queueNums int32, order, unitMode bool) (*Topic, *wire.Refusal) {
	return t.createPlain(RetryPrefix+group, queueNums, order, unitMode)
}

// CreateDeadLetterTopic makes `%DLQ%group`, one queue to read and write, or returns it.
func (t *Table) CreateDeadLetterTopic(group string) (*Topic, *wire.Refusal) {
	return t.createPlain(DLQPrefix+group, 1, false, false)
}

// CreateDiscardTopic makes TRANS_CHECK_MAX_TIME_TOPIC, or returns it (createTopicOfTranCheckMaxTime, 5.5.0).
func (t *Table) CreateDiscardTopic() (*Topic, *wire.Refusal) {
	return t.createPlain(CheckMaxTimeTopic, 1, false, false)
}

func (t *Table) createPlain(name string, queueNums int32, order, unitMode bool) (*Topic, *wire.Refusal) {
	if topic := t.Find(name); topic != nil && topic.Config().Order == order {
		return topic, nil
	}
	if refusal := CheckName(name); refusal != nil {
		return nil, refusal
	}
	if !t.acquire() {
		return nil, NotExist(name)
	}
	topic := t.Find(name)
	if topic != nil && topic.Config().Order == order || topic == nil && t.full() {
		t.release()
		if topic == nil {
			return nil, NotExist(name)
		}
		return topic, nil
	}
	var config wire.TopicConfig
	if topic != nil {
		config = *topic.Config()
	} else {
		config = defaultConfig(name)
		queueNums = max(queueNums, 0) // a group without retries may say less
		config.ReadQueueNums, config.WriteQueueNums = queueNums, queueNums
		if unitMode {
			config.TopicSysFlag = wire.TopicSysFlagUnitSub
		}
	}
	config.Order = order
	topic = t.insert(config, nil)
	generation := t.bump([]wire.TopicConfig{config}, "")
	t.release()
	t.persist(generation)
	return topic, nil
}

// UpdateOrCreate is code 17: config.Attributes holds signed changes, not values. Equal to what is there: nothing happens.
func (t *Table) UpdateOrCreate(config wire.TopicConfig) *wire.Refusal {
	return t.UpdateOrCreateAll([]wire.TopicConfig{config})
}

// UpdateOrCreateAll is code 18: either every configuration is acceptable and all take effect with one data version, or none.
func (t *Table) UpdateOrCreateAll(configs []wire.TopicConfig) *wire.Refusal {
	if len(configs) > listMax {
		return wire.Refuse(wire.ResponseInvalidParameter, "too many topics in one request")
	}
	for i := range configs {
		if refusal := t.checkUpdate(&configs[i]); refusal != nil {
			return refusal
		}
	}
	if !t.acquire() {
		return wire.Refuse(wire.ResponseSystemError, "the topic table is busy, try again")
	}
	changed, refusal := t.merged(configs)
	if refusal != nil || len(changed) == 0 {
		t.release()
		return refusal
	}
	for _, config := range changed {
		t.insert(config, nil)
	}
	generation := t.bump(changed, "")
	t.release()
	t.persist(generation)
	return nil
}

func (t *Table) checkUpdate(config *wire.TopicConfig) *wire.Refusal {
	if refusal := CheckName(config.TopicName); refusal != nil {
		return refusal
	}
	if t.settings.Load().ProtectSystemTopics && t.IsSystem(config.TopicName) {
		return wire.Refuse(wire.ResponseInvalidParameter, "The topic["+config.TopicName+"] is conflict with system topic.")
	}
	if refusal := refuseNumbers(*config); refusal != nil {
		return refusal
	}
	if config.Attributes["+message.type"] == "MIXED" && !t.settings.Load().MixedMessageType {
		return wire.Refuse(wire.ResponseInvalidParameter, "MIXED message type is not supported.")
	}
	return nil
}

// merged turns changes into whole configurations and drops those that change nothing. The caller has the token.
func (t *Table) merged(configs []wire.TopicConfig) ([]wire.TopicConfig, *wire.Refusal) {
	var changed []wire.TopicConfig
	added := 0
	for _, config := range configs {
		var current *wire.TopicConfig
		var attributes map[string]string
		if topic := t.Find(config.TopicName); topic != nil {
			current = topic.Config()
			attributes = current.Attributes
		} else {
			added++
		}
		var err error
		if config.Attributes, err = t.attributes.Alter(current == nil, attributes, config.Attributes); err != nil {
			return nil, wire.Refuse(wire.ResponseSystemError, err.Error())
		}
		// The original stores these and changes its storage; serving such a topic as an ordinary one would break the promise.
		if err := servable(&config); err != nil {
			return nil, wire.Refuse(wire.ResponseSystemError, err.Error())
		}
		if current == nil || !equalConfigs(current, &config) {
			changed = append(changed, config)
		}
	}
	if t.Count()+added > CountMax {
		return nil, wire.Refuse(wire.ResponseSystemError, "the topic table is full")
	}
	return changed, nil
}

func equalConfigs(a, b *wire.TopicConfig) bool {
	return a.TopicName == b.TopicName && a.ReadQueueNums == b.ReadQueueNums && a.WriteQueueNums == b.WriteQueueNums &&
		a.Perm == b.Perm && a.TopicFilterType == b.TopicFilterType && a.TopicSysFlag == b.TopicSysFlag && a.Order == b.Order &&
		maps.Equal(a.Attributes, b.Attributes)
}

// ParseAttributes reads the `attributes` header field of code 17 into signed changes.
func ParseAttributes(text string) (map[string]string, *wire.Refusal) {
	changes, err := attribute.ParseList(text)
	if err != nil {
		return nil, wire.Refuse(wire.ResponseSystemError, err.Error())
	}
	return changes, nil
}

// Delete is the table's part of code 215: a blank or a system topic is refused, an unknown one is fine.
func (t *Table) Delete(name string) *wire.Refusal {
	if isBlank(name) {
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified topic is blank.")
	}
	if t.IsSystem(name) {
		return wire.Refuse(wire.ResponseInvalidParameter, "The topic["+names.Quote(name)+"] is conflict with system topic.")
	}
	if !t.acquire() {
		return wire.Refuse(wire.ResponseSystemError, "the topic table is busy, try again")
	}
	t.mu.Lock()
	_, there := t.byName[name]
	delete(t.byName, name)
	t.mu.Unlock()
	if !there {
		t.release()
		return nil
	}
	generation := t.bump(nil, name)
	t.release()
	t.persist(generation)
	t.logger.Info("topic deleted", "topic", name)
	return nil
}

// Page is the answer of code 21: topics [from, from+count) in the order of their names, and how many there are. A count of
// 0 or less means all.
func (t *Table) Page(from, count int) (page []wire.TopicConfig, total int, version wire.DataVersion) {
	topics, version := t.Snapshot()
	total = len(topics)
	if count > 0 {
		from = min(max(from, 0), total)
		topics = topics[from:min(total, from+min(count, pageMax))]
	}
	for _, topic := range topics {
		page = append(page, *topic.Config())
	}
	return page, total, version
}
