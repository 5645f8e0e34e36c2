package peregrine.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Request-reply: the requester gets the answer of whoever consumes its message. */
final class ReplyScenarios {
    private static final long NOBODY_MS = 3_000;

    /** A consumer whose first rebalance came too early has its queues with the next one, 20 s later. */
    private static final long SOMEBODY_MS = 60_000;

    private ReplyScenarios() {
    }

    /** One request by itself, eight at once from two producers, one that nobody answers. */
    static void requestReply(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer first = session.producer();
        DefaultMQProducer second = session.producer();
        DefaultMQProducer replier = session.producer();
        session.createTopic(first, topic, 4);
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                session.got("A", message);
                if (!"silent".equals(message.getTags())) {
                    reply(session, replier, message);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        ask(session, first, topic, "alone", 0);
        List<Thread> askers = new ArrayList<>();
        for (int i = 1; i <= 8; i++) {
            int number = i;
            DefaultMQProducer producer = i % 2 == 0 ? first : second;
            Thread asker = new Thread(() -> ask(session, producer, topic, "at once", number));
            askers.add(asker);
            asker.start();
        }
        for (Thread asker : askers) {
            asker.join();
        }
        ask(session, first, topic, "silent", 9);
        session.awaitArrivals(10);
        session.calm();
    }

    private static void reply(Session session, DefaultMQProducer replier, MessageExt message) {
        try {
            Message reply = MessageUtil.createReplyMessage(message, ("reply to " + Report.sha256(message.getBody())).getBytes(StandardCharsets.UTF_8));
            session.report.event("answered", "flag", message.getFlag(), "status", replier.send(reply).getSendStatus().name());
        } catch (Exception e) {
            session.report.event("failed", "error", "reply: " + e);
        }
    }

    private static void ask(Session session, DefaultMQProducer producer, String topic, String tag, int number) {
        Message message = session.message(topic, tag, number, 100 + number);
        long start = System.nanoTime();
        try {
            boolean silent = tag.equals("silent");
            session.report.event("asked", "name", tag, "flag", number, "n", message.getBody().length, "sha", Report.sha256(message.getBody()));
            // Without a selector the client 4.9.4 returns its own request as soon as it is sent.
            Message reply = producer.request(message, (queues, sent, queue) -> queues.get((int) queue % queues.size()), number,
                silent ? NOBODY_MS : SOMEBODY_MS);
            session.report.event("reply", "flag", number, "remark", new String(reply.getBody(), StandardCharsets.UTF_8));
        } catch (RequestTimeoutException e) {
            session.report.event("unanswered", "flag", number, "ms", (System.nanoTime() - start) / 1_000_000, "limit", NOBODY_MS);
        } catch (Exception e) {
            session.report.event("failed", "error", "request " + number + ": " + e);
        }
    }
}
