package peregrine.interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions whose tag says how they end: at once, or when the broker asks. */
final class TransactionScenarios {
    private TransactionScenarios() {
    }

    /** A third is committed, a third rolled back, a third committed when checked; the consumer is there from the beginning. */
    static void transaction(Session session) throws Exception {
        int count = (int) session.number("transactions", 300);
        String topic = session.topic("t");
        session.createTopic(session.producer(), topic, 4);
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        TransactionMQProducer producer = producer(session);
        begin(session, producer, topic, count, "commit", "rollback", "check");
        session.awaitArrivals(count / 3 * 2);
        session.calm();
    }

    /** First run: halves that nobody decides about; the process then waits to be killed with the broker. */
    static void undecided(Session session) throws Exception {
        String topic = "undecided-" + session.run;
        session.createTopic(session.producer(), topic, 4);
        TransactionMQProducer producer = producer(session);
        begin(session, producer, topic, 100, "check", "refuse");
    }

    /** Second run, the broker restarted: the same producer group answers the checks. */
    static void decided(Session session) throws Exception {
        String topic = "undecided-" + session.run;
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        // A producer tells a broker of itself only when it has sent something there.
        begin(session, producer(session), topic, 1, "commit");
        session.awaitArrivals(51);
        Thread.sleep(8_000); // a round of checks would bring one too many
        session.calm();
    }

    private static TransactionMQProducer producer(Session session) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("G-transactions-" + session.run);
        producer.setNamesrvAddr(session.namesrv);
        producer.setInstanceName("transactions-" + session.scenario + "-" + session.run);
        producer.setSendMsgTimeout(Session.SEND_TIMEOUT_MS);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return "commit".equals(message.getTags()) ? LocalTransactionState.COMMIT_MESSAGE
                    : "rollback".equals(message.getTags()) ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                session.report.event("checked", "topic", message.getTopic(), "tags", message.getTags(), "id", message.getProperty("UNIQ_KEY"),
                    "sha", Report.sha256(message.getBody()));
                return "refuse".equals(message.getTags()) ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        session.onClose(producer::shutdown);
        return producer;
    }

    private static void begin(Session session, TransactionMQProducer producer, String topic, int count, String... tags) throws Exception {
        for (int i = 0; i < count; i++) {
            Message message = session.message(topic, tags[i % tags.length], i, 64 + i);
            message.setFlag(0); // the original's copies of half messages lose it
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            session.sent(message, result, tags[i % tags.length]);
        }
    }
}
