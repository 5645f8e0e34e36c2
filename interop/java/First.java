import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class First {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("first-producer");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("first-consumer");
        try {
            producer.setNamesrvAddr("127.0.0.1:9876");
            producer.start();
            System.out.println(producer.send(new Message("FirstTopic", "TagA", "hello".getBytes())));

            CountDownLatch received = new CountDownLatch(1);
            consumer.setNamesrvAddr("127.0.0.1:9876");
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe("FirstTopic", "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(m -> System.out.println("received " + new String(m.getBody())));
                received.countDown();
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            received.await(60, TimeUnit.SECONDS);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }
}
