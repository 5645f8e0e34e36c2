package peregrine.interop;

import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Where a consumer begins: seeks, a reset while it works, a new group on an old topic. */
final class OffsetScenarios {
    private static final int PER_QUEUE = 20;

    private OffsetScenarios() {
    }

    /** A lite pull consumer that goes back to the begin, to the end, and to a time. */
    static void seek(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        List<MessageQueue> queues = fill(session, producer, topic, "old", 0, PER_QUEUE);
        DefaultLitePullConsumer consumer = PullScenarios.liteConsumer(session, session.group("g"), "A");
        consumer.start();
        consumer.assign(queues);
        seek(consumer, queues, queue -> consumer.seekToBegin(queue));
        TreeSet<Long> times = new TreeSet<>();
        for (MessageExt message : poll(session, consumer, "begin", 2 * PER_QUEUE)) {
            times.add(message.getStoreTimestamp());
        }
        seek(consumer, queues, queue -> consumer.seek(queue, PER_QUEUE - 3));
        poll(session, consumer, "middle", 2 * 3);
        seek(consumer, queues, queue -> {
            consumer.seekToBegin(queue);
            consumer.seekToEnd(queue);
        });
        session.calm();
        fill(session, producer, topic, "new", PER_QUEUE, PER_QUEUE + 5);
        poll(session, consumer, "end", 2 * 5);
        long time = new ArrayList<>(times).get(times.size() / 2);
        seek(consumer, queues, queue -> {
            long offset = consumer.offsetForTimestamp(queue, time);
            session.report.event("search", "q", queue.getQueueId(), "t", time, "o", offset);
            consumer.seek(queue, offset);
        });
        poll(session, consumer, "time", 1);
    }

    private interface Seek {
        void to(MessageQueue queue) throws Exception;
    }

    /** Seeks while nothing is pulled: in the client 4.9.4 a pull that is on its way may put its messages before those of the new place. */
    private static void seek(DefaultLitePullConsumer consumer, List<MessageQueue> queues, Seek seek) throws Exception {
        consumer.pause(queues);
        Thread.sleep(1_000);
        for (MessageQueue queue : queues) {
            seek.to(queue);
        }
        consumer.resume(queues);
    }

    /** An administrator sends a group back in time while its consumer works: it goes on from there by itself. */
    static void reset(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        fill(session, producer, topic, "early", 0, PER_QUEUE);
        Thread.sleep(50);
        long time = System.currentTimeMillis();
        Thread.sleep(50);
        fill(session, producer, topic, "late", PER_QUEUE, PER_QUEUE + 5);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.start();
        session.awaitArrivals(2 * (PER_QUEUE + 5));
        session.calm();
        DefaultMQAdminExt admin = session.admin();
        session.report.event("phase", "name", "reset");
        for (Map.Entry<MessageQueue, Long> entry : admin.resetOffsetByTimestamp(topic, group, time, true).entrySet()) {
            session.report.event("search", "q", entry.getKey().getQueueId(), "t", time, "o", entry.getValue());
        }
        session.awaitDeliveries(2 * (PER_QUEUE + 5) + 2 * 5);
        // It goes on as usual: what is new comes once.
        fill(session, producer, topic, "new", PER_QUEUE + 5, PER_QUEUE + 10);
        session.awaitArrivals(2 * (PER_QUEUE + 10));
        session.calm();
    }

    /** New groups on an old topic. The time of CONSUME_FROM_TIMESTAMP is in whole seconds. */
    static void where(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        newGroups(session, producer, topic, fillOld(session, producer, topic, 0));
    }

    /** Makes an old topic: what is early from that offset on, and later five more. Returns a time between the two. */
    private static String fillOld(Session session, DefaultMQProducer producer, String topic, int from) throws Exception {
        fill(session, producer, topic, "early", from, PER_QUEUE);
        Thread.sleep(1_100);
        String time = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date());
        fill(session, producer, topic, "late", PER_QUEUE, PER_QUEUE + 5);
        return time;
    }

    /** The same on a topic whose oldest messages are gone: the harness sees to that, while the broker is stopped. */
    static void trimmed(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        fill(session, producer, topic, "gone", 0, 10);
        for (int i = 0; i < 48; i++) {
            byte[] filler = new byte[64 << 10];
            new Random(i).nextBytes(filler);
            producer.send(new Message(session.topic("filler"), filler));
        }
        String time = fillOld(session, producer, topic, 10);
        session.pauseForRestart();
        newGroups(session, producer, topic, time);
    }

    private static void newGroups(Session session, DefaultMQProducer producer, String topic, String time) throws Exception {
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (ConsumeFromWhere from : new ConsumeFromWhere[] {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}) {
            String name = from.name().substring("CONSUME_FROM_".length()).replace("_OFFSET", "");
            DefaultMQPushConsumer consumer = session.consumer(name, session.group(name), topic, "*");
            consumer.setConsumeFromWhere(from);
            consumer.setConsumeTimestamp(time);
            consumer.start();
            consumers.add(consumer);
        }
        for (DefaultMQPushConsumer consumer : consumers) {
            // Which offset it begins at is asked when it gets its queues.
            session.until(Session.PATIENCE_MS, () -> PushScenarios.queues(consumer, topic).size() == 2);
        }
        session.calm();
        fill(session, producer, topic, "new", PER_QUEUE + 5, PER_QUEUE + 10);
        session.awaitTagged("new", 3 * 2 * 5);
        session.calm();
    }

    /** Fills both queues with messages from..to. */
    static List<MessageQueue> fill(Session session, DefaultMQProducer producer, String topic, String tag, int from, int to) throws Exception {
        if (from == 0) {
            session.createTopic(producer, topic, 2);
        }
        List<MessageQueue> queues = new ArrayList<>(new TreeSet<>(producer.fetchPublishMessageQueues(topic)));
        for (int i = from; i < to; i++) {
            for (MessageQueue queue : queues) {
                Message message = session.message(topic, tag, 2 * i + queue.getQueueId(), 64);
                session.sent(message, producer.send(message, queue), "sync");
            }
            Thread.sleep(2); // store times must differ
        }
        return queues;
    }

    /** Polls until so many messages came, then a calm while longer. */
    private static List<MessageExt> poll(Session session, DefaultLitePullConsumer consumer, String by, int count) {
        List<MessageExt> messages = new ArrayList<>();
        long end = System.nanoTime() + Session.PATIENCE_MS * 1_000_000;
        long calmEnd = end;
        while (System.nanoTime() < calmEnd) {
            for (MessageExt message : consumer.poll(200)) {
                session.got(by, message);
                messages.add(message);
            }
            if (messages.size() >= count && calmEnd == end) {
                calmEnd = System.nanoTime() + Session.CALM_MS * 1_000_000;
            }
        }
        if (messages.size() < count) {
            session.report.event("missing", "by", by, "expected", count, "arrived", messages.size());
        }
        return messages;
    }
}
