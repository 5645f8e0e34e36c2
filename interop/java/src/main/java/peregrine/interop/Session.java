package peregrine.interop;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario needs: names of its own, started clients, messages with known content, and its report. */
final class Session {
    /** Client calls get far more than their usual 3 s, so that a busy machine does not cause retries, which are duplicates. */
    static final int SEND_TIMEOUT_MS = 20_000;
    /** After the last expected message: how long to listen for one too many. */
    static final long CALM_MS = 1_500;
    /** How long to wait for messages that must come. Covers one heartbeat (30 s) plus one rebalance (20 s) of the clients. */
    static final long PATIENCE_MS = 75_000;

    final String namesrv;
    final String broker;
    final String run;
    final String scenario;
    final Map<String, String> options;
    final CountDownLatch gate;
    final Report report;
    final List<MessageExt> arrived = new ArrayList<>();
    private final Map<String, Integer> uniqueIds = new HashMap<>();
    private final List<Runnable> closers = Collections.synchronizedList(new ArrayList<>());

    Session(String scenario, Map<String, String> options, CountDownLatch gate) {
        this.scenario = scenario;
        this.options = options;
        this.namesrv = options.get("namesrv");
        this.broker = options.get("broker");
        this.run = options.get("run");
        this.gate = gate;
        this.report = new Report(scenario);
    }

    String topic(String suffix) {
        return scenario + "-" + suffix + "-" + run;
    }

    String group(String suffix) {
        return "G-" + scenario + "-" + suffix + "-" + run;
    }

    long number(String option, long fallback) {
        String text = options.get(option);
        return text == null ? fallback : Long.parseLong(text);
    }

    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group("p" + closers.size()));
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setMqClientApiTimeout(SEND_TIMEOUT_MS);
        producer.start();
        closers.add(producer::shutdown);
        return producer;
    }

    /** Not started yet; the caller may still change it. */
    DefaultMQPushConsumer consumer(String name, String group, String topic, String expression) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(name + "-" + scenario + "-" + run);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(SEND_TIMEOUT_MS);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                got(name, message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        closers.add(consumer::shutdown);
        return consumer;
    }

    DefaultMQAdminExt admin() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt((long) SEND_TIMEOUT_MS);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("admin-" + scenario + "-" + run);
        admin.start();
        closers.add(admin::shutdown);
        return admin;
    }

    /** Until the broker knows the group, and the name server its retry topic, by which administrators look for the broker. */
    void awaitOnline(DefaultMQAdminExt admin, String group) throws Exception {
        until(PATIENCE_MS, () -> {
            try {
                return !admin.examineConsumerConnectionInfo(group).getConnectionSet().isEmpty();
            } catch (MQClientException | MQBrokerException e) {
                return false;
            }
        });
    }

    interface Question {
        Object ask() throws Exception;
    }

    /** Reports an answer as text, or the code and the remark of the refusal. */
    void told(String name, Question question) throws Exception {
        try {
            report.event("told", "name", name, "out", String.valueOf(question.ask()));
        } catch (MQClientException e) {
            report.event("told", "name", name, "code", e.getResponseCode(), "remark", e.getErrorMessage());
        } catch (MQBrokerException e) {
            report.event("told", "name", name, "code", e.getResponseCode(), "remark", e.getErrorMessage());
        }
    }

    void closeAll() {
        for (Runnable closer : closers) {
            try {
                closer.run();
            } catch (RuntimeException e) {
                report.event("closing", "error", String.valueOf(e));
            }
        }
    }

    void onClose(Runnable closer) {
        closers.add(closer);
    }

    /** Content is a function of the number, so that a wrong body cannot be right by chance. */
    Message message(String topic, String tag, int number, int sizeBytes) {
        byte[] body = new byte[sizeBytes];
        new Random(31L * number + sizeBytes).nextBytes(body);
        Message message = new Message(topic, tag, body);
        message.setKeys("key-" + number + " 键-é-" + number);
        message.setFlag(number);
        message.putUserProperty("名字", "值 é ñ " + number);
        message.putUserProperty("emoji", "\uD83D\uDC26 peregrine");
        message.putUserProperty("json", "{\"a\":\"b\\c\"}\t\n/\u007f");
        message.putUserProperty("Ключ с пробелом", " leading, trailing ");
        return message;
    }

    void sent(Message message, SendResult result, String how) {
        MessageQueue queue = result.getMessageQueue();
        sent(message, how, result.getMsgId(), result.getOffsetMsgId(), queue.getQueueId(), result.getQueueOffset(), result.getSendStatus().name());
    }

    void sentOneway(Message message) {
        sent(message, "oneway", MessageClientIDSetter.getUniqID(message), null, null, null, null);
    }

    /** The answer to a batch: ids joined by commas, the offset of the first element. */
    void sentBatch(List<Message> batch, SendResult result) {
        String[] ids = result.getMsgId().split(",");
        String[] offsetIds = result.getOffsetMsgId().split(",");
        report.event("batch", "size", batch.size(), "ids", ids.length, "offsetIds", offsetIds.length, "o", result.getQueueOffset());
        for (int i = 0; i < batch.size(); i++) {
            sent(batch.get(i), "batch", i < ids.length ? ids[i] : "", i < offsetIds.length ? offsetIds[i] : "",
                result.getMessageQueue().getQueueId(), result.getQueueOffset() + i, result.getSendStatus().name());
        }
    }

    private void sent(Message message, String how, String id, String offsetId, Integer queue, Long offset, String status) {
        report.event("sent", "how", how, "topic", message.getTopic(), "id", id, "mid", offsetId, "q", queue, "o", offset,
            "status", status, "n", message.getBody().length, "sha", Report.sha256(message.getBody()), "tags", message.getTags(),
            "keys", message.getKeys(), "flag", message.getFlag(), "props", userProperties(message));
    }

    /** Records an arrival; called on consumer threads. */
    void got(String by, MessageExt message) {
        String offsetId = message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null;
        report.event("got", "by", by, "topic", message.getTopic(), "id", message.getMsgId(), "mid", offsetId, "q", message.getQueueId(),
            "o", message.getQueueOffset(), "n", message.getBody().length, "sha", Report.sha256(message.getBody()),
            "tags", message.getTags(), "keys", message.getKeys(), "flag", message.getFlag(), "props", userProperties(message),
            "born", message.getBornHostString() + ":" + port(message), "st", message.getStoreTimestamp(), "sys", message.getSysFlag(),
            "size", message.getStoreSize(), "again", message.getReconsumeTimes(), "bt", message.getBornTimestamp(),
            "at", System.currentTimeMillis(), "origin", message.getProperty("ORIGIN_MESSAGE_ID"), "retryOf", message.getProperty("RETRY_TOPIC"));
        synchronized (arrived) {
            arrived.add(message);
            uniqueIds.merge(by + message.getMsgId(), 1, Integer::sum);
            arrived.notifyAll();
        }
    }

    private static int port(MessageExt message) {
        return message.getBornHost() instanceof java.net.InetSocketAddress ? ((java.net.InetSocketAddress) message.getBornHost()).getPort() : -1;
    }

    /** Only what the application put there: the rest differs by client and broker version. */
    private static Map<String, String> userProperties(Message message) {
        Map<String, String> kept = new TreeMap<>();
        for (String key : new String[] {"名字", "emoji", "json", "Ключ с пробелом", "from"}) {
            String value = message.getProperty(key);
            if (value != null) {
                kept.put(key, value);
            }
        }
        return kept;
    }

    /** Waits until count different messages arrived (per consumer name, summed). Says so if they do not. */
    boolean awaitArrivals(int count) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        synchronized (arrived) {
            while (uniqueIds.size() < count) {
                long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (leftMs <= 0) {
                    report.event("missing", "expected", count, "arrived", uniqueIds.size());
                    return false;
                }
                arrived.wait(leftMs);
            }
        }
        return true;
    }

    /** Waits until count messages arrived, repeats counted as well. */
    boolean awaitDeliveries(int count) throws Exception {
        return await("deliveries", count, () -> arrived.size());
    }

    /** The same for the messages of one tag. */
    boolean awaitTagged(String tag, int count) throws Exception {
        return await(tag, count, () -> (int) arrived.stream().filter(message -> tag.equals(message.getTags())).count());
    }

    private boolean await(String what, int count, IntSupplier have) throws Exception {
        IntSupplier locked = () -> {
            synchronized (arrived) {
                return have.getAsInt();
            }
        };
        if (until(PATIENCE_MS, () -> locked.getAsInt() >= count) >= 0) {
            return true;
        }
        report.event("missing", "by", what, "expected", count, "arrived", locked.getAsInt());
        return false;
    }

    int arrivals() {
        synchronized (arrived) {
            return uniqueIds.size();
        }
    }

    void calm() throws InterruptedException {
        Thread.sleep(CALM_MS);
    }

    interface Check {
        boolean holds() throws Exception;
    }

    /** Polls a condition of the client that nothing announces. Returns the milliseconds it took, or -1. */
    long until(long withinMs, Check check) throws Exception {
        long start = System.nanoTime();
        while (true) {
            long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            if (check.holds()) {
                return tookMs;
            }
            if (tookMs > withinMs) {
                return -1;
            }
            Thread.sleep(20);
        }
    }

    /** Tells the harness that the broker may be restarted now, and waits for its word that it was. */
    void pauseForRestart() throws InterruptedException {
        report.event("ready");
        if (!gate.await(180, TimeUnit.SECONDS)) {
            throw new IllegalStateException("nobody said continue");
        }
    }

    /** MQAdmin.createTopic has three parameters in 4.9.4 and four in 5.x. */
    void createTopic(DefaultMQProducer producer, String topic, int queues) throws Exception {
        for (Method method : producer.getClass().getMethods()) {
            if (!method.getName().equals("createTopic")) {
                continue;
            }
            Class<?>[] types = method.getParameterTypes();
            if (types.length == 3 && types[2] == int.class) {
                method.invoke(producer, "TBW102", topic, queues);
                return;
            }
            if (types.length == 4 && types[2] == int.class && types[3] == Map.class) {
                method.invoke(producer, "TBW102", topic, queues, new HashMap<String, String>());
                return;
            }
        }
        throw new IllegalStateException("this client has no createTopic that we know");
    }

    /** The enumeration MessageModel moved to another package in 5.x. */
    void setMessageModel(Object consumer, String model) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> type = method.getParameterTypes()[0];
                for (Object constant : type.getEnumConstants()) {
                    if (constant.toString().equals(model)) {
                        method.invoke(consumer, constant);
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("this client has no message model " + model);
    }
}
