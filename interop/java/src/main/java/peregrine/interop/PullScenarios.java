package peregrine.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The two pull consumers and the questions that clients ask about offsets. */
@SuppressWarnings("deprecation")
final class PullScenarios {
    private static final int PER_QUEUE = 20;

    private PullScenarios() {
    }

    /** DefaultMQPullConsumer: every status, long polling, committed offsets, bounds and search by time. */
    static void pull(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        Collections.sort(queues);
        int number = 0;
        for (int i = 0; i < PER_QUEUE; i++) {
            for (MessageQueue queue : queues) {
                Message message = session.message(topic, i % 2 == 0 ? "even" : "odd", number++, 60);
                session.sent(message, producer.send(message, queue), "sync");
            }
            Thread.sleep(5); // store times must differ for the search below
        }

        DefaultMQPullConsumer consumer = puller(session, session.group("g"), "A");
        session.report.event("value", "name", "subscribed queues", "value", consumer.fetchSubscribeMessageQueues(topic).size());
        MessageQueue first = queues.get(0);
        long bounds = session.until(5_000, () -> consumer.maxOffset(first) == PER_QUEUE && consumer.maxOffset(queues.get(1)) == PER_QUEUE);
        session.report.event("value", "name", "maxOffset", "value", consumer.maxOffset(first), "ms", bounds);
        session.report.event("value", "name", "minOffset", "value", consumer.minOffset(first));

        for (MessageQueue queue : queues) {
            long offset = 0;
            while (offset < PER_QUEUE) {
                PullResult result = consumer.pull(queue, "*", offset, 7);
                record(session, "all", queue, offset, result);
                if (result.getNextBeginOffset() <= offset) {
                    break;
                }
                offset = result.getNextBeginOffset();
            }
        }
        long offset = 0;
        while (offset < PER_QUEUE) {
            PullResult result = consumer.pull(first, "even", offset, 32);
            record(session, "even", first, offset, result);
            if (result.getNextBeginOffset() <= offset) {
                break;
            }
            offset = result.getNextBeginOffset();
        }
        record(session, "at the end", first, PER_QUEUE, consumer.pull(first, "*", PER_QUEUE, 32));
        record(session, "beyond the end", first, PER_QUEUE + 100, consumer.pull(first, "*", PER_QUEUE + 100, 32));
        record(session, "no such tag", first, 0, consumer.pull(first, "nobody", 0, 32));

        longPoll(session, consumer, producer, first);
        committed(session, consumer, first);
        search(session, consumer, first);
    }

    private static void longPoll(Session session, DefaultMQPullConsumer consumer, DefaultMQProducer producer, MessageQueue queue) throws Exception {
        Message late = session.message(queue.getTopic(), "late", 1000, 60);
        long[] sendAt = new long[1];
        Thread sender = new Thread(() -> {
            try {
                Thread.sleep(700); // the pull must be parked at the broker by then; if not, the check is weaker, never wrong
                sendAt[0] = System.nanoTime();
                session.sent(late, producer.send(late, queue), "sync");
            } catch (Exception e) {
                session.report.event("failed", "error", String.valueOf(e));
            }
        });
        sender.start();
        long start = System.nanoTime();
        PullResult result = consumer.pullBlockIfNotFound(queue, "*", PER_QUEUE, 32);
        long end = System.nanoTime();
        sender.join();
        record(session, "held", queue, PER_QUEUE, result);
        session.report.event("value", "name", "held pull after start ms", "value", TimeUnit.NANOSECONDS.toMillis(end - start));
        session.report.event("value", "name", "held pull after send ms", "value", TimeUnit.NANOSECONDS.toMillis(end - sendAt[0]));
    }

    private static void committed(Session session, DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        session.report.event("value", "name", "committed before", "value", consumer.fetchConsumeOffset(queue, true));
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, 13, false);
        session.report.event("value", "name", "committed after 13", "value", consumer.fetchConsumeOffset(queue, true));
        // Lower than what is stored: the broker has no monotonic rule.
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, 5, false);
        session.report.event("value", "name", "committed after 5", "value", consumer.fetchConsumeOffset(queue, true));
    }

    private static void search(Session session, DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        List<Long> times = new ArrayList<>();
        synchronized (session.arrived) {
            for (MessageExt message : session.arrived) {
                if (message.getQueueId() == queue.getQueueId()) {
                    times.add(message.getStoreTimestamp());
                }
            }
        }
        Collections.sort(times);
        long[] asked = {0, times.get(0), times.get(times.size() / 2), times.get(times.size() / 2) + 1, times.get(times.size() - 1),
            times.get(times.size() - 1) + 1_000_000};
        for (long time : asked) {
            session.report.event("search", "q", queue.getQueueId(), "t", time, "o", consumer.searchOffset(queue, time));
        }
    }

    private static void record(Session session, String by, MessageQueue queue, long from, PullResult result) {
        session.report.event("pulled", "by", by, "q", queue.getQueueId(), "from", from, "status", result.getPullStatus().name(),
            "next", result.getNextBeginOffset(), "min", result.getMinOffset(), "max", result.getMaxOffset());
        if (result.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : result.getMsgFoundList()) {
                session.got(by, message);
            }
        }
    }

    private static DefaultMQPullConsumer puller(Session session, String group, String name) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setMqClientApiTimeout(Session.SEND_TIMEOUT_MS);
        consumer.setInstanceName(name + "-" + session.scenario + "-" + session.run);
        consumer.start();
        session.onClose(consumer::shutdown);
        return consumer;
    }

    /** Lite pull consumer: subscribe and poll, go on where another instance committed, assign and seek. */
    static void lite(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        PushScenarios.sendMany(session, producer, topic, "first", 0, 30);
        DefaultLitePullConsumer first = liteConsumer(session, group, "A");
        first.subscribe(topic, "*");
        first.start();
        poll(session, first, "A", 30);
        first.commitSync();
        first.shutdown();

        session.report.event("phase", "name", "restarted");
        PushScenarios.sendMany(session, producer, topic, "second", 30, 40);
        DefaultLitePullConsumer second = liteConsumer(session, group, "B");
        second.subscribe(topic, "*");
        second.start();
        poll(session, second, "B", 40);

        DefaultLitePullConsumer assigned = liteConsumer(session, session.group("assign"), "C");
        assigned.start();
        Set<MessageQueue> all = new java.util.TreeSet<>(assigned.fetchMessageQueues(topic));
        MessageQueue queue = all.iterator().next();
        assigned.assign(Collections.singletonList(queue));
        assigned.seek(queue, 5);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Session.PATIENCE_MS);
        long last = -1;
        while (last < 19 && System.nanoTime() < end) {
            for (MessageExt message : assigned.poll(500)) {
                session.got("C", message);
                last = message.getQueueOffset();
            }
        }
    }

    static DefaultLitePullConsumer liteConsumer(Session session, String group, String name) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setMqClientApiTimeout(Session.SEND_TIMEOUT_MS);
        consumer.setInstanceName(name + "-" + session.scenario + "-" + session.run);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        session.onClose(consumer::shutdown);
        return consumer;
    }

    /** Polls until the scenario saw so many different messages, then a calm while longer. */
    private static void poll(Session session, DefaultLitePullConsumer consumer, String by, int total) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Session.PATIENCE_MS);
        while (session.arrivals() < total && System.nanoTime() < end) {
            for (MessageExt message : consumer.poll(500)) {
                session.got(by, message);
            }
        }
        for (MessageExt message : consumer.poll(Session.CALM_MS)) {
            session.got(by, message);
        }
    }
}
