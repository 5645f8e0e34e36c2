package peregrine.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Ways to send and sizes of bodies. */
final class SendScenarios {
    private static final int EACH = 8;

    private SendScenarios() {
    }

    /** Synchronous, asynchronous, one-way and batch into a topic that the first send creates. */
    static void send(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        int number = 0;
        for (int i = 0; i < EACH; i++) {
            Message message = session.message(topic, "sync", number++, 100 + i);
            session.sent(message, producer.send(message), "sync");
        }
        CountDownLatch answered = new CountDownLatch(EACH);
        for (int i = 0; i < EACH; i++) {
            Message message = session.message(topic, "async", number++, 200 + i);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    session.sent(message, result, "async");
                    answered.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    session.report.event("refused", "what", "async send", "remark", String.valueOf(failure));
                    answered.countDown();
                }
            });
        }
        if (!answered.await(Session.SEND_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("asynchronous sends without an answer: " + answered.getCount());
        }
        for (int i = 0; i < EACH; i++) {
            Message message = session.message(topic, "oneway", number++, 300 + i);
            producer.sendOneway(message);
            session.sentOneway(message);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < EACH; i++) {
            batch.add(session.message(topic, "batch", number++, 400 + i));
        }
        session.sentBatch(batch, producer.send(batch));

        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        session.awaitArrivals(number);
        session.calm();
    }

    /** Auto-creation gives what the template allows; explicit creation gives what was asked; both are in the route. */
    static void topics(Session session) throws Exception {
        DefaultMQProducer producer = session.producer();
        // Another client: its view comes from the name server, not from the sender's copy of TBW102.
        DefaultMQProducer other = session.producer();
        String automatic = session.topic("auto");
        Message message = session.message(automatic, "t", 1, 10);
        session.sent(message, producer.send(message), "sync");
        queues(session, other, automatic, "queues of an auto-created topic", 4);

        String explicit = session.topic("explicit");
        session.createTopic(producer, explicit, 6);
        queues(session, other, explicit, "queues of a topic created with 6", 6);
        message = session.message(explicit, "t", 2, 10);
        session.sent(message, producer.send(message), "sync");
        // Creating it again with more queues is how operators widen a topic.
        session.createTopic(producer, explicit, 9);
        queues(session, other, explicit, "queues after widening to 9", 9);
    }

    /** The original registers a changed topic with its name server a moment later. */
    private static void queues(Session session, DefaultMQProducer client, String topic, String what, int expected) throws Exception {
        long ms = session.until(5_000, () -> routed(client, topic) == expected);
        session.report.event("value", "name", what, "value", routed(client, topic), "ms", ms);
    }

    private static int routed(DefaultMQProducer client, String topic) {
        try {
            return client.fetchPublishMessageQueues(topic).size();
        } catch (org.apache.rocketmq.client.exception.MQClientException noRouteYet) {
            return 0;
        }
    }

    /** 1 B, 4 KiB, 1 MiB, exactly the broker's limit, one byte over it, and one more message on the same connection. */
    static void bodies(Session session) throws Exception {
        int limit = (int) session.number("limit", 4_194_304);
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        producer.setMaxMessageSize(2 * limit + 1024);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        int accepted = 0;
        for (int size : new int[] {1, 4096, 1 << 20, limit}) {
            if (size > limit) {
                continue;
            }
            Message message = session.message(topic, "ok", accepted++, size);
            session.sent(message, producer.send(message), "sync");
        }
        try {
            Message message = session.message(topic, "over", 99, limit + 1);
            session.sent(message, producer.send(message), "sync");
        } catch (MQBrokerException refusal) {
            session.report.event("refused", "what", "one over", "code", refusal.getResponseCode(), "remark", refusal.getErrorMessage(),
                "n", limit + 1, "limit", limit);
        }
        Message last = session.message(topic, "after", accepted++, 10);
        session.sent(last, producer.send(last), "sync");

        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        session.awaitArrivals(accepted);
        session.calm();
    }

    /**
     * Bodies that the client compresses, but for the first. The largest is above the broker's limit before compression: only the
     * bytes that travel count.
     */
    static void compressed(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        producer.setMaxMessageSize(16 << 20);
        int number = 0;
        for (int size : new int[] {100, 4096, 1 << 20, 6_000_000}) {
            Message message = session.message(topic, "z", number, 0);
            message.setBody(text(size, number++));
            session.sent(message, producer.send(message), "sync");
        }
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        session.awaitArrivals(number);
        session.calm();
    }

    /** A body that compresses well. */
    static byte[] text(int sizeBytes, int number) {
        StringBuilder text = new StringBuilder(sizeBytes + 64);
        for (int line = 0; text.length() < sizeBytes; line++) {
            text.append("line ").append(line).append(" of body ").append(number).append(": a peregrine stoops at prey\n");
        }
        text.setLength(sizeBytes);
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }
}
