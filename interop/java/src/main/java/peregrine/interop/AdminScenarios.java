package peregrine.interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What an administrator asks about a group or does to it. */
final class AdminScenarios {
    private static final int PER_QUEUE = 10;

    private AdminScenarios() {
    }

    /** Calls that the broker hands on to a consumer and whose answer it hands back. */
    static void relay(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        OffsetScenarios.fill(session, producer, topic, "t", 0, PER_QUEUE);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.start();
        session.awaitArrivals(2 * PER_QUEUE);
        DefaultMQAdminExt admin = session.admin();
        session.awaitOnline(admin, group);
        session.calm(); // the client's offsets follow the listener
        String client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();

        var info = admin.getConsumerRunningInfo(group, client, true);
        session.told("running: type", () -> info.getProperties().get("PROP_CONSUME_TYPE"));
        session.told("running: queues", () -> count(info.getMqTable().keySet(), topic));
        session.told("running: subscribed", () -> info.getSubscriptionSet().stream().anyMatch(s -> s.getTopic().equals(topic)));
        session.told("running: threads", () -> info.getJstack() != null && info.getJstack().contains("ConsumeMessageThread"));
        session.told("running without threads", () -> String.valueOf(admin.getConsumerRunningInfo(group, client, false).getJstack()));
        session.told("running: nobody", () -> admin.getConsumerRunningInfo(group, "nobody", false));

        session.told("status", () -> offsets(admin.getConsumeStatus(topic, group, "").values()));
        session.told("status of one", () -> offsets(admin.getConsumeStatus(topic, group, client).values()));
        session.told("status of nobody", () -> offsets(admin.getConsumeStatus(topic, group, "nobody").values()));

        MessageExt one;
        synchronized (session.arrived) {
            one = session.arrived.get(0);
        }
        session.report.event("phase", "name", "directly");
        session.report.event("value", "name", "directly: number", "value", one.getFlag());
        session.told("directly", () -> {
            var result = admin.consumeMessageDirectly(group, client, topic, one.getMsgId());
            return result.getConsumeResult() + " orderly " + result.isOrder();
        });
        session.told("directly: nobody", () -> admin.consumeMessageDirectly(group, "nobody", topic, one.getMsgId()).getConsumeResult());
        consumer.shutdown();
        session.calm();
        session.told("running: offline", () -> admin.getConsumerRunningInfo(group, client, false));
        session.told("status: offline", () -> offsets(admin.getConsumeStatus(topic, group, "").values()));
    }

    private static long count(Collection<MessageQueue> queues, String topic) {
        return queues.stream().filter(queue -> queue.getTopic().equals(topic)).count();
    }

    /** Of each client, its offsets by queue. */
    private static List<Map<Integer, Long>> offsets(Collection<Map<MessageQueue, Long>> clients) {
        List<Map<Integer, Long>> all = new ArrayList<>();
        for (Map<MessageQueue, Long> table : clients) {
            Map<Integer, Long> one = new TreeMap<>();
            table.forEach((queue, offset) -> one.put(queue.getQueueId(), offset));
            all.add(one);
        }
        return all;
    }

    /** How old the messages are that a group has reached: it has consumed some, and some came later. */
    static void timeSpan(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQAdminExt admin = halfConsumed(session, topic, group);
        long asked = System.currentTimeMillis();
        var spans = admin.queryConsumeTimeSpan(topic, group);
        long answered = System.currentTimeMillis();
        for (var span : spans) {
            session.report.event("span", "q", span.getMessageQueue().getQueueId(), "min", span.getMinTimeStamp(), "max", span.getMaxTimeStamp(),
                "t", span.getConsumeTimeStamp(), "ms", span.getDelayTime(), "from", asked, "at", answered);
        }
        DefaultMQPushConsumer second = session.consumer("B", group, topic, "*");
        second.start();
        session.awaitArrivals(2 * PER_QUEUE + 2 * 5);
        session.calm();
    }

    /** New groups go on from where another one stands: by the tool, which commits for them, and by the broker. */
    static void cloneOffsets(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQAdminExt admin = halfConsumed(session, topic, group);
        session.told("to an unknown group", () -> commit(session, admin, group, session.group("tool"), topic));
        var config = admin.examineSubscriptionGroupConfig(session.broker, group);
        config.setGroupName(session.group("tool"));
        admin.createAndUpdateSubscriptionGroupConfig(session.broker, config);
        session.told("by the tool", () -> commit(session, admin, group, session.group("tool"), topic));
        session.told("by the broker", () -> {
            admin.cloneGroupOffset(group, session.group("broker"), topic, true);
            return "done";
        });
        session.consumer("T", session.group("tool"), topic, "*").start();
        session.consumer("B", session.group("broker"), topic, "*").start();
        session.awaitArrivals(2 * PER_QUEUE + 2 * 2 * 5);
        session.calm();
    }

    /** A group has consumed and committed what was there, and is gone when more comes. */
    private static DefaultMQAdminExt halfConsumed(Session session, String topic, String group) throws Exception {
        DefaultMQProducer producer = session.producer();
        OffsetScenarios.fill(session, producer, topic, "first", 0, PER_QUEUE);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.start();
        session.awaitArrivals(2 * PER_QUEUE);
        DefaultMQAdminExt admin = session.admin();
        committed(session, admin, consumer, group, topic);
        consumer.shutdown();
        OffsetScenarios.fill(session, producer, topic, "second", PER_QUEUE, PER_QUEUE + 5);
        return admin;
    }

    /** Until the broker has all the offsets of a consumer: commits are one-way. */
    private static void committed(Session session, DefaultMQAdminExt admin, DefaultMQPushConsumer consumer, String group, String topic) throws Exception {
        session.awaitOnline(admin, group);
        session.until(Session.PATIENCE_MS, () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            Thread.sleep(100);
            return admin.examineConsumeStats(group, topic).getOffsetTable().values().stream().mapToLong(offset -> offset.getConsumerOffset()).sum() == 2 * PER_QUEUE;
        });
    }

    /** What mqadmin cloneGroupOffset does. */
    private static String commit(Session session, DefaultMQAdminExt admin, String from, String to, String topic) throws Exception {
        for (var entry : admin.examineConsumeStats(from, topic).getOffsetTable().entrySet()) {
            admin.updateConsumeOffset(session.broker, to, entry.getKey(), entry.getValue().getConsumerOffset());
        }
        return "done";
    }

    /** A working consumer is stuck in a backlog; it is skipped and goes on with what comes. */
    static void skip(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        OffsetScenarios.fill(session, producer, topic, "backlog", 0, PER_QUEUE);
        CountDownLatch stuck = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                session.got("A", message);
                try {
                    stuck.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        session.awaitDeliveries(2); // it has two threads
        List<ProcessQueue> held = new ArrayList<>();
        consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().forEach((queue, process) -> {
            if (queue.getTopic().equals(topic)) {
                held.add(process);
            }
        });
        Map<MessageQueue, Long> skipped = session.admin().resetOffsetByTimestamp(topic, group, -1, true);
        session.told("skipped to", () -> offsets(List.of(skipped)));
        session.until(Session.PATIENCE_MS, () -> held.stream().allMatch(ProcessQueue::isDropped));
        stuck.countDown();
        OffsetScenarios.fill(session, producer, topic, "new", PER_QUEUE, PER_QUEUE + 5);
        // The client lets go of the queues 10 s later, and the old one takes them back at its next rebalance only.
        var rebalance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        session.until(Session.PATIENCE_MS, () -> held.stream().noneMatch(rebalance.getProcessQueueTable()::containsValue));
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
        session.awaitTagged("new", 2 * 5);
        session.calm();
    }
}
