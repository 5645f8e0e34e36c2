package peregrine.interop;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What a client writes into the trace topic about each message, found there by the message's id. */
final class TraceScenarios {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private TraceScenarios() {
    }

    static void trace(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = traced(DefaultMQProducer.class, session.group("p"));
        producer.setNamesrvAddr(session.namesrv);
        producer.setInstanceName("p-" + session.scenario + "-" + session.run);
        producer.setSendMsgTimeout(Session.SEND_TIMEOUT_MS);
        producer.setMqClientApiTimeout(Session.SEND_TIMEOUT_MS);
        producer.start();
        session.onClose(producer::shutdown);
        session.createTopic(producer, topic, 2);
        DefaultMQPushConsumer consumer = traced(DefaultMQPushConsumer.class, session.group("g"));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setInstanceName("A-" + session.scenario + "-" + session.run);
        consumer.setMqClientApiTimeout(Session.SEND_TIMEOUT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> session.got("A", message));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        session.onClose(consumer::shutdown);

        Message message = session.message(topic, "t", 1, 64);
        SendResult result = producer.send(message);
        session.sent(message, result, "sync");
        session.told("trace", () -> result.isTraceOn() + " " + result.getRegionId());
        session.awaitArrivals(1);
        DefaultMQAdminExt admin = session.admin();
        session.until(Session.PATIENCE_MS, () -> records(admin, result.getMsgId()).size() >= 3);
        session.calm();
        for (String record : records(admin, result.getMsgId())) {
            String[] parts = record.split("\u0001");
            switch (parts[0]) {
                case "Pub":
                    session.report.event("traced", "name", parts[0], "group", parts[3], "topic", parts[4], "id", parts[5]);
                    break;
                case "SubBefore":
                    session.report.event("traced", "name", parts[0], "group", parts[3], "id", parts[5]);
                    break;
                default:
                    session.report.event("traced", "name", parts[0], "id", parts[2]);
            }
        }
    }

    /** The records about one message; the index follows its sends. */
    private static Set<String> records(DefaultMQAdminExt admin, String id) throws InterruptedException {
        Set<String> found = new HashSet<>();
        try {
            for (MessageExt message : admin.queryMessage(TRACE_TOPIC, id, 64, 0, Long.MAX_VALUE).getMessageList()) {
                for (String record : new String(message.getBody(), StandardCharsets.UTF_8).split("\u0002")) {
                    if (record.contains(id)) {
                        found.add(record);
                    }
                }
            }
        } catch (MQClientException e) {
            return found; // nothing there yet
        }
        return found;
    }

    /** The trace is a setting in 5.x and an argument of the constructor before. */
    private static <T> T traced(Class<T> client, String group) throws Exception {
        try {
            T made = client.getConstructor(String.class).newInstance(group);
            client.getMethod("setEnableTrace", boolean.class).invoke(made, true);
            return made;
        } catch (NoSuchMethodException e) {
            return client.getConstructor(String.class, boolean.class).newInstance(group, true);
        }
    }
}
