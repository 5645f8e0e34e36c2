package peregrine.interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that come later: delay levels, deliveries that failed, dead letters. */
final class DeliveryScenarios {
    private DeliveryScenarios() {
    }

    /** Levels 1, 2 and 3 mean 1, 5 and 10 seconds; the tag names the level. Without one in between, so that both kinds mix. */
    static void delay(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 4);
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        consumer.start();
        for (int i = 0; i < 40; i++) {
            int level = i % 4;
            Message message = session.message(topic, "level" + level, i, 64 + i);
            message.setDelayTimeLevel(level);
            session.sent(message, producer.send(message), "sync");
        }
        session.awaitArrivals(40);
        session.calm();
    }

    /** Messages with the tag "fails" succeed at their third delivery only. */
    static void retry(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        session.createTopic(producer, topic, 4);
        for (int i = 0; i < 60; i++) {
            Message message = session.message(topic, i % 6 == 0 ? "fails" : "works", i, 64 + i);
            session.sent(message, producer.send(message), "sync");
        }
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            MessageExt message = messages.get(0); // one at a time unless told otherwise
            session.got("A", message);
            boolean fails = "fails".equals(message.getTags()) && message.getReconsumeTimes() < 2;
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        watchRetries(session, consumer, group);
        session.awaitDeliveries(60 + 2 * 10);
        session.calm();
    }

    /**
     * A group that fails always and gives up after one retry. Its last failure asks for a delay of a minute: a dead letter must
     * not wait for it.
     */
    static void deadLetter(Session session) throws Exception {
        String topic = session.topic("t");
        String group = session.group("g");
        DefaultMQProducer producer = session.producer();
        PushScenarios.sendMany(session, producer, topic, "t", 0, 8);
        DefaultMQPushConsumer consumer = session.consumer("A", group, topic, "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            context.setDelayLevelWhenNextConsume(message.getReconsumeTimes() == 0 ? 1 : 5);
            session.got("A", message);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        watchRetries(session, consumer, group);
        session.awaitDeliveries(16);
        DefaultMQPushConsumer undertaker = session.consumer("D", session.group("dead"), "%DLQ%" + group, "*");
        undertaker.start();
        session.awaitDeliveries(24);
        session.calm();
    }

    /** A client learns of its new retry topic within half a minute by itself. It is asked to look at once. */
    private static void watchRetries(Session session, DefaultMQPushConsumer consumer, String group) throws Exception {
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        String retryTopic = "%RETRY%" + group;
        session.until(Session.PATIENCE_MS, () -> {
            client.updateTopicRouteInfoFromNameServer(retryTopic);
            client.rebalanceImmediately();
            Thread.sleep(200);
            return !PushScenarios.queues(consumer, retryTopic).isEmpty();
        });
    }
}
