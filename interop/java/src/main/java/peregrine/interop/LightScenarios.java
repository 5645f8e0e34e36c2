package peregrine.interop;

import java.util.HashMap;
import java.util.Map;

import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Light queues and lite topics while the broker has neither: the messages are like any others, and nothing else comes of them. */
final class LightScenarios {
    private static final int COUNT = 10;

    private LightScenarios() {
    }

    static void light(Session session) throws Exception {
        String topic = session.topic("t");
        String queue = "%LMQ%" + session.run;
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 2);
        for (int i = 0; i < COUNT; i++) {
            send(session, producer, session.message(topic, "dispatched", i, 64), "INNER_MULTI_DISPATCH", queue + "," + queue + "-other");
        }
        for (int i = COUNT; i < 2 * COUNT; i++) {
            send(session, producer, session.message(topic, "lite", i, 64), "__LITE_TOPIC", "lite-" + session.run);
        }
        session.consumer("A", session.group("g"), topic, "*").start();
        session.awaitArrivals(2 * COUNT);
        session.calm();
        synchronized (session.arrived) {
            long numbered = session.arrived.stream().filter(message -> message.getProperty("INNER_MULTI_QUEUE_OFFSET") != null).count();
            session.report.event("value", "name", "with offsets in light queues", "value", numbered);
        }
        session.told("pull of a light queue", () -> ask(session, producer, 11, Map.of("consumerGroup", session.group("g"), "topic", queue, "queueId", "0",
            "queueOffset", "0", "maxMsgNums", "32", "sysFlag", "4", "commitOffset", "0", "suspendTimeoutMillis", "0", "subscription", "*", "subVersion", "0")));
        session.told("end of a light queue", () -> ask(session, producer, 30, Map.of("topic", queue, "queueId", "0")));
    }

    private static void send(Session session, DefaultMQProducer producer, Message message, String property, String value) throws Exception {
        MessageAccessor.putProperty(message, property, value);
        session.sent(message, producer.send(message), "sync");
    }

    /** What no client asks with these features off. */
    private static String ask(Session session, DefaultMQProducer producer, int code, Map<String, String> fields) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields(new HashMap<>(fields));
        RemotingCommand response = producer.getDefaultMQProducerImpl().getmQClientFactory().getMQClientAPIImpl().getRemotingClient()
            .invokeSync(session.broker, request, Session.SEND_TIMEOUT_MS);
        if (response.getCode() != 0) {
            throw new MQBrokerException(response.getCode(), response.getRemark());
        }
        return String.valueOf(response.getExtFields());
    }
}
