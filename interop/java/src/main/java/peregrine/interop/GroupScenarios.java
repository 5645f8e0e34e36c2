package peregrine.interop;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What the members of a group and the broker know of each other. */
final class GroupScenarios {
    private GroupScenarios() {
    }

    /** Two members under each of two other strategies than the usual one. */
    static void strategies(Session session) throws Exception {
        DefaultMQProducer producer = session.producer();
        share(session, producer, "circle", 8, new AllocateMessageQueueAveragelyByCircle(), "A", "B");
        // So many queues that hardly any pair of names leaves a member without one.
        share(session, producer, "hash", 32, new AllocateMessageQueueConsistentHash(), "C", "D");
        session.calm();
    }

    private static void share(Session session, DefaultMQProducer producer, String name, int queues, AllocateMessageQueueStrategy strategy,
        String first, String second) throws Exception {
        String topic = session.topic(name);
        session.createTopic(producer, topic, queues);
        DefaultMQPushConsumer a = session.consumer(first, session.group(name), topic, "*");
        DefaultMQPushConsumer b = session.consumer(second, session.group(name), topic, "*");
        for (DefaultMQPushConsumer consumer : List.of(a, b)) {
            consumer.setAllocateMessageQueueStrategy(strategy);
            consumer.start();
        }
        // Queues change hands one by one, so only the shares that the strategy itself gives show that they have.
        List<String> members = new ArrayList<>(List.of(id(a), id(b)));
        Collections.sort(members);
        List<MessageQueue> all = new ArrayList<>(new TreeSet<>(producer.fetchPublishMessageQueues(topic)));
        long ms = session.until(Session.PATIENCE_MS, () -> {
            for (DefaultMQPushConsumer consumer : List.of(a, b)) {
                TreeSet<Integer> share = new TreeSet<>();
                strategy.allocate(session.group(name), id(consumer), all, members).forEach(queue -> share.add(queue.getQueueId()));
                if (!share.equals(PushScenarios.queues(consumer, topic))) {
                    return false;
                }
            }
            return true;
        });
        PushScenarios.assigned(session, name, ms, topic, a, b);
        int before = session.arrivals();
        PushScenarios.sendMany(session, producer, topic, name, 0, 2 * queues);
        session.awaitArrivals(before + 2 * queues);
    }

    private static String id(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    /** Members that want different tags: the broker filters for all of them by what was said last. Each holds one of two queues. */
    static void subscriptions(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        DefaultMQPushConsumer a = session.consumer("A", group, topic, "red");
        a.start();
        DefaultMQPushConsumer b = session.consumer("B", group, topic, "blue");
        b.start();
        long ms = session.until(Session.PATIENCE_MS, () -> PushScenarios.queues(a, topic).size() == 1 && PushScenarios.queues(b, topic).size() == 1);
        PushScenarios.assigned(session, "both", ms, topic, a, b);
        session.calm(); // each change of its queues makes a member say again what it wants
        DefaultMQAdminExt admin = session.admin();
        last(session, admin, producer, b, "blue", 0);
        last(session, admin, producer, a, "red", 40);
    }

    private static void last(Session session, DefaultMQAdminExt admin, DefaultMQProducer producer, DefaultMQPushConsumer who, String tag, int from) throws Exception {
        String topic = session.topic("t");
        session.report.event("phase", "name", tag + " last");
        who.subscribe(topic, tag);
        session.until(Session.PATIENCE_MS, () -> tag.equals(wanted(admin, session.group("g"), topic)));
        session.told(tag + " last", () -> wanted(admin, session.group("g"), topic));
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        Collections.sort(queues);
        int before = session.arrivals();
        String other = tag.equals("red") ? "blue" : "red";
        for (int i = from; i < from + 40; i++) {
            // What passes comes last, so that no queue ends with messages that would pass when the members say something else.
            Message message = session.message(topic, i % 2 == 0 ? other : tag, i, 64);
            session.sent(message, producer.send(message, queues.get(i / 2 % 2)), "sync");
        }
        session.awaitArrivals(before + 10);
        session.calm();
    }

    private static String wanted(DefaultMQAdminExt admin, String group, String topic) throws Exception {
        return admin.examineConsumerConnectionInfo(group).getSubscriptionTable().get(topic).getSubString();
    }

    /** Heartbeats that carry a fingerprint in place of the subscriptions; the client 4.9.4 has none. */
    static void heartbeats(Session session) throws Exception {
        String topic = session.topic("t");
        String other = session.topic("other");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        session.createTopic(producer, other, 2);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.getClass().getMethod("setUseHeartbeatV2", boolean.class).invoke(consumer, true);
        consumer.setHeartbeatBrokerInterval(500);
        consumer.start();
        PushScenarios.sendMany(session, producer, topic, "t", 0, 10);
        session.awaitArrivals(10);
        DefaultMQAdminExt admin = session.admin();
        session.awaitOnline(admin, group);
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        session.told("brokers that know fingerprints", () -> ((Set<?>) field(client, "brokerSupportV2HeartbeatSet")).size());
        session.calm(); // some heartbeats without subscriptions
        session.told("subscribed", () -> subscribed(session, admin, group));
        consumer.subscribe(other, "X");
        session.until(Session.PATIENCE_MS, () -> subscribed(session, admin, group).contains("other"));
        session.told("subscribed to another", () -> subscribed(session, admin, group));
        consumer.unsubscribe(other);
        session.until(Session.PATIENCE_MS, () -> !subscribed(session, admin, group).contains("other"));
        session.told("unsubscribed", () -> subscribed(session, admin, group));
        PushScenarios.sendMany(session, producer, topic, "t", 10, 20);
        session.awaitArrivals(20);
        consumer.shutdown();
        session.calm();
        session.told("unregistered", () -> subscribed(session, admin, group));
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    /** The topics of a group but for its retry topic, by the names that the scenario gave them. */
    private static TreeSet<String> subscribed(Session session, DefaultMQAdminExt admin, String group) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String topic : admin.examineConsumerConnectionInfo(group).getSubscriptionTable().keySet()) {
            if (topic.startsWith(session.scenario)) {
                names.add(topic.substring(session.scenario.length() + 1, topic.length() - session.run.length() - 1));
            }
        }
        return names;
    }

    /** The client itself asks only about what is no tag. */
    static void configCheck(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        DefaultMQPushConsumer tags = session.consumer("tags", session.group("tags"), topic, "A || B");
        tags.start();
        MQClientInstance client = tags.getDefaultMQPushConsumerImpl().getmQClientFactory();
        var wanted = tags.getDefaultMQPushConsumerImpl().getSubscriptionInner().get(topic);
        session.told("tags", () -> {
            client.getMQClientAPIImpl().checkClientInBroker(session.broker, session.group("tags"), client.getClientId(), wanted, Session.SEND_TIMEOUT_MS);
            return "accepted";
        });
        for (String expression : new String[] {"a > 1", "a > > 1"}) {
            DefaultMQPushConsumer sql = session.consumer("sql" + expression.length(), session.group("sql"), topic, "*");
            sql.subscribe(topic, MessageSelector.bySql(expression));
            session.told(expression, () -> {
                sql.start();
                return "accepted";
            });
        }
    }
}
