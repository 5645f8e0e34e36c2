package peregrine.interop;

import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Broker restarts, seen by clients that live through them and by clients of a later process. */
final class RestartScenarios {
    private RestartScenarios() {
    }

    /** Producer and consumer stay while the broker goes away and comes back. */
    static void survive(Session session) throws Exception {
        String topic = session.topic("t");
        DefaultMQProducer producer = session.producer();
        DefaultMQPushConsumer consumer = session.consumer("A", session.group("g"), topic, "*");
        PushScenarios.sendMany(session, producer, topic, "early", 0, 50);
        consumer.start();
        session.awaitArrivals(50);
        session.calm();
        session.pauseForRestart();
        for (int i = 50; i < 100; i++) {
            Message message = session.message(topic, "late", i, 64 + i);
            session.sent(message, stubborn(session, producer, message), "sync");
        }
        session.awaitArrivals(100);
        session.calm();
    }

    /** First run: 100 messages for nobody yet, and a group that consumed its 50 and left. */
    static void before(Session session) throws Exception {
        String waiting = "waiting-" + session.run;
        String consumed = "consumed-" + session.run;
        DefaultMQProducer producer = session.producer();
        PushScenarios.sendMany(session, producer, waiting, "w", 0, 100);
        PushScenarios.sendMany(session, producer, consumed, "c", 100, 150);
        DefaultMQPushConsumer consumer = session.consumer("before", "G-consumed-" + session.run, consumed, "*");
        consumer.start();
        session.awaitArrivals(50);
        session.calm();
        consumer.shutdown();
    }

    /** Second run, another process, the broker restarted: all of the one topic, only what is new of the other. */
    static void after(Session session) throws Exception {
        String waiting = "waiting-" + session.run;
        String consumed = "consumed-" + session.run;
        DefaultMQPushConsumer all = session.consumer("waiting", "G-waiting-" + session.run, waiting, "*");
        all.start();
        DefaultMQPushConsumer rest = session.consumer("after", "G-consumed-" + session.run, consumed, "*");
        rest.start();
        DefaultMQProducer producer = session.producer();
        PushScenarios.sendMany(session, producer, consumed, "c", 150, 170);
        session.awaitArrivals(100 + 20);
        session.calm();
    }

    /** An application that must not lose its message: sends until the broker says it has it. */
    private static SendResult stubborn(Session session, DefaultMQProducer producer, Message message) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Session.PATIENCE_MS);
        int failures = 0;
        while (true) {
            try {
                return producer.send(message);
            } catch (Exception failure) {
                failures++;
                if (System.nanoTime() > end) {
                    throw failure;
                }
                session.report.event("retry", "failures", failures, "error", String.valueOf(failure));
                Thread.sleep(250);
            }
        }
    }
}
