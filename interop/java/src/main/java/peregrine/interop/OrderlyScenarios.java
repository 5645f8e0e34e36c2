package peregrine.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Orderly consumption: one owner a queue, order kept, over a suspended queue and a hand-over. */
final class OrderlyScenarios {
    private static final long REBALANCE_MS = 60_000;

    private OrderlyScenarios() {
    }

    /** Four queues, two members: two each. Then messages keep coming while A leaves: all four for B. */
    static void orderly(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 4);
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        Collections.sort(queues);

        DefaultMQPushConsumer a = member(session, "A", group, topic);
        a.start();
        DefaultMQPushConsumer b = member(session, "B", group, topic);
        b.start();
        long ms = session.until(REBALANCE_MS, () -> {
            TreeSet<Integer> together = PushScenarios.queues(a, topic);
            together.addAll(PushScenarios.queues(b, topic));
            return together.size() == 4 && PushScenarios.queues(a, topic).size() == 2 && PushScenarios.queues(b, topic).size() == 2;
        });
        PushScenarios.assigned(session, "both", ms, topic, a, b);
        send(session, producer, topic, queues, 0, 80);
        session.awaitArrivals(80);
        session.calm();

        session.report.event("phase", "name", "busy");
        Thread leaver = new Thread(a::shutdown, "A leaves");
        for (int i = 0; i < 10; i++) {
            send(session, producer, topic, queues, 80 + i * 8, 88 + i * 8);
            if (i == 4) {
                leaver.start();
            }
            Thread.sleep(20);
        }
        leaver.join();
        ms = session.until(REBALANCE_MS, () -> PushScenarios.queues(b, topic).size() == 4);
        PushScenarios.assigned(session, "after A left", ms, topic, b);
        send(session, producer, topic, queues, 160, 200);
        session.until(Session.PATIENCE_MS, () -> PushScenarios.differentIds(session) >= 200);
        session.calm();
    }

    /** Every tenth message suspends its queue twice. What begins and ends is reported, so that two owners at a time are seen. */
    private static DefaultMQPushConsumer member(Session session, String name, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = session.consumer(name, group, topic, "*");
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            session.got(name, message);
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            boolean suspend = message.getFlag() % 10 == 0 && message.getReconsumeTimes() < 2;
            session.report.event("finished", "by", name, "q", message.getQueueId(), "o", message.getQueueOffset(),
                "status", suspend ? "SUSPEND" : "SUCCESS", "at", System.currentTimeMillis());
            context.setSuspendCurrentQueueTimeMillis(100);
            return suspend ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        return consumer;
    }

    private static void send(Session session, DefaultMQProducer producer, String topic, List<MessageQueue> queues, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            Message message = session.message(topic, "t", i, 64);
            session.sent(message, producer.send(message, queues.get(i % queues.size())), "sync");
        }
    }
}
