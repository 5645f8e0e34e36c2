package peregrine.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumption: one, two, broadcasting, tags, restarts of the consumer. */
final class PushScenarios {
    /** The clients rebalance every 20 s by themselves; what is notified must be much faster than that, what is not may need it. */
    private static final long REBALANCE_MS = 25_000;

    private PushScenarios() {
    }

    static void one(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        sendMany(session, producer, topic, "t", 0, 100);
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        session.awaitArrivals(100);
        // Now the pulls are held by the broker: these must wake them.
        sendMany(session, producer, topic, "t", 100, 200);
        session.awaitArrivals(200);
        session.calm();
    }

    /** Eight queues, two members: four each. One leaves: eight for the other. One joins: four each again. */
    static void two(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 8);

        DefaultMQPushConsumer a = session.consumer("A", group, topic, "*");
        a.start();
        DefaultMQPushConsumer b = session.consumer("B", group, topic, "*");
        b.start();
        long ms = session.until(REBALANCE_MS, () -> queues(a, topic).size() == 4 && queues(b, topic).size() == 4);
        assigned(session, "both", ms, topic, a, b);
        MQClientInstance client = a.getDefaultMQPushConsumerImpl().getmQClientFactory();
        session.report.event("value", "name", "members", "value", client.findConsumerIdList(topic, group).size());

        sendMany(session, producer, topic, "calm", 0, 160);
        session.awaitArrivals(160);
        session.calm();

        session.report.event("phase", "name", "A leaves");
        a.shutdown();
        ms = session.until(REBALANCE_MS, () -> queues(b, topic).size() == 8);
        assigned(session, "after A left", ms, topic, b);
        sendMany(session, producer, topic, "calm", 160, 240);
        session.awaitArrivals(240);
        session.calm();

        session.report.event("phase", "name", "C joins");
        DefaultMQPushConsumer c = session.consumer("C", group, topic, "*");
        c.start();
        ms = session.until(REBALANCE_MS, () -> queues(b, topic).size() == 4 && queues(c, topic).size() == 4);
        assigned(session, "after C joined", ms, topic, b, c);

        // A member leaves while messages keep coming: nothing may be lost (repeats are allowed then).
        session.report.event("phase", "name", "busy");
        int number = 240;
        for (int i = 0; i < 20; i++) {
            sendMany(session, producer, topic, "busy", number, number + 10);
            number += 10;
            if (i == 8) {
                b.shutdown();
            }
            Thread.sleep(20);
        }
        session.until(Session.PATIENCE_MS, () -> differentIds(session) >= 440);
        session.calm();
    }

    static void broadcast(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 4);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String name : new String[] {"A", "B"}) {
            DefaultMQPushConsumer consumer = session.consumer(name, group, topic, "*");
            session.setMessageModel(consumer, "BROADCASTING");
            consumer.start();
            consumers.add(consumer);
        }
        long ms = session.until(REBALANCE_MS, () -> queues(consumers.get(0), topic).size() == 4 && queues(consumers.get(1), topic).size() == 4);
        assigned(session, "both", ms, topic, consumers.get(0), consumers.get(1));
        sendMany(session, producer, topic, "t", 0, 40);
        session.awaitArrivals(80);
        session.calm();
    }

    /** The broker compares hashes, the client texts: "Aa" and "BB" have the same hash. */
    static void tags(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        int number = 0;
        for (int i = 0; i < 6; i++) {
            for (String tag : new String[] {"A", "B", "C", null, "Aa", "BB", "标签"}) {
                Message message = session.message(topic, tag, number++, 50);
                session.sent(message, producer.send(message), "sync");
            }
        }
        session.report.event("subscribed", "by", "ab", "wanted", List.of("A", "B"));
        session.report.event("subscribed", "by", "twin", "wanted", List.of("Aa", "标签"));
        DefaultMQPushConsumer ab = session.consumer("ab", session.group("ab"), topic, "A || B");
        ab.start();
        DefaultMQPushConsumer twin = session.consumer("twin", session.group("twin"), topic, "Aa||标签");
        twin.start();
        session.awaitArrivals(12 + 12);
        // With the pulls held: unmatched ones must not disturb, matched ones must wake.
        for (String tag : new String[] {"C", "BB", null, "A", "标签"}) {
            Message message = session.message(topic, tag, number++, 50);
            session.sent(message, producer.send(message), "sync");
        }
        session.awaitArrivals(12 + 12 + 2);
        session.calm();
    }

    static void consumerRestart(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        sendMany(session, producer, topic, "first", 0, 50);
        DefaultMQPushConsumer first = session.consumer("A", group, topic, "*");
        first.start();
        session.awaitArrivals(50);
        session.calm();
        first.shutdown();
        session.report.event("phase", "name", "restarted");
        sendMany(session, producer, topic, "second", 50, 80);
        DefaultMQPushConsumer second = session.consumer("B", group, topic, "*");
        second.start();
        session.awaitArrivals(80);
        session.calm();
    }

    /** The consumer of a topic that does not exist yet, as most first steps of a newcomer go. */
    static void consumerFirst(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        DefaultMQProducer producer = session.producer();
        sendMany(session, producer, topic, "t", 0, 20);
        session.awaitArrivals(20);
        session.calm();
    }

    /** Several processes with different clients and header encodings share one topic; each has a group of its own. */
    static void exchange(Session session) throws Exception {
        String topic = "exchange-" + session.run;
        String self = session.options.get("self");
        int peers = (int) session.number("peers", 1);
        DefaultMQPushConsumer consumer = session.consumer(self, "G-exchange-" + self + "-" + session.run, topic, "*");
        consumer.start();
        DefaultMQProducer producer = session.producer();
        for (int i = 0; i < 30; i++) {
            Message message = session.message(topic, self, i, 64);
            message.putUserProperty("from", self);
            if (i % 10 == 9) {
                message.setBody(SendScenarios.text(5 << 10, i)); // travels compressed
            }
            session.sent(message, producer.send(message), "sync");
        }
        session.awaitArrivals(30 * peers);
        session.calm();
    }

    static void sendMany(Session session, DefaultMQProducer producer, String topic, String tag, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            Message message = session.message(topic, tag, i, 64 + i);
            session.sent(message, producer.send(message), "sync");
        }
    }

    static int differentIds(Session session) {
        TreeSet<String> ids = new TreeSet<>();
        synchronized (session.arrived) {
            session.arrived.forEach(message -> ids.add(message.getMsgId()));
        }
        return ids.size();
    }

    static TreeSet<Integer> queues(DefaultMQPushConsumer consumer, String topic) {
        TreeSet<Integer> ids = new TreeSet<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                ids.add(queue.getQueueId());
            }
        }
        return ids;
    }

    static void assigned(Session session, String when, long ms, String topic, DefaultMQPushConsumer... consumers) {
        for (DefaultMQPushConsumer consumer : consumers) {
            String name = consumer.getInstanceName().substring(0, 1);
            session.report.event("assigned", "by", name, "when", when, "ms", ms, "queues", queues(consumer, topic));
        }
    }
}
