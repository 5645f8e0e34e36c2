package peregrine.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * Runs the named scenarios side by side in one JVM (most of their time is waiting for the clients' own timers) and exits 0 when
 * all have ended, however they ended: standard output says how. A line "continue" on standard input releases the scenarios that
 * wait for a broker restart.
 *
 * <p>Usage: Main namesrv=HOST:PORT broker=HOST:PORT run=ID [limit=BYTES] [peers=N] SCENARIO…
 */
public final class Main {
    interface Scenario {
        void run(Session session) throws Exception;
    }

    /** Between the starts of two scenarios: the clients give their first look-ups 3 s, which thirty at once on a busy machine exceed. */
    private static final long START_STEP_MS = 200;

    private static Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new TreeMap<>();
        all.put("send", SendScenarios::send);
        all.put("topics", SendScenarios::topics);
        all.put("bodies", SendScenarios::bodies);
        all.put("compressed", SendScenarios::compressed);
        all.put("push-one", PushScenarios::one);
        all.put("push-two", PushScenarios::two);
        all.put("broadcast", PushScenarios::broadcast);
        all.put("tags", PushScenarios::tags);
        all.put("consumer-restart", PushScenarios::consumerRestart);
        all.put("consumer-first", PushScenarios::consumerFirst);
        all.put("exchange", PushScenarios::exchange);
        all.put("pull", PullScenarios::pull);
        all.put("lite", PullScenarios::lite);
        all.put("transaction", TransactionScenarios::transaction);
        all.put("undecided", TransactionScenarios::undecided);
        all.put("decided", TransactionScenarios::decided);
        all.put("delay", DeliveryScenarios::delay);
        all.put("retry", DeliveryScenarios::retry);
        all.put("dead-letter", DeliveryScenarios::deadLetter);
        all.put("orderly", OrderlyScenarios::orderly);
        all.put("request-reply", ReplyScenarios::requestReply);
        all.put("seek", OffsetScenarios::seek);
        all.put("reset", OffsetScenarios::reset);
        all.put("where", OffsetScenarios::where);
        all.put("trimmed", OffsetScenarios::trimmed);
        all.put("strategies", GroupScenarios::strategies);
        all.put("subscriptions", GroupScenarios::subscriptions);
        all.put("heartbeats", GroupScenarios::heartbeats);
        all.put("config-check", GroupScenarios::configCheck);
        all.put("relay", AdminScenarios::relay);
        all.put("time-span", AdminScenarios::timeSpan);
        all.put("clone", AdminScenarios::cloneOffsets);
        all.put("skip", AdminScenarios::skip);
        all.put("trace", TraceScenarios::trace);
        all.put("light", LightScenarios::light);
        all.put("survive", RestartScenarios::survive);
        all.put("before", RestartScenarios::before);
        all.put("after", RestartScenarios::after);
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> all = scenarios();
        Map<String, String> options = new HashMap<>();
        List<String> chosen = new ArrayList<>();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            if (equals > 0) {
                options.put(argument.substring(0, equals), argument.substring(equals + 1));
            } else if (all.containsKey(argument)) {
                chosen.add(argument);
            } else {
                throw new IllegalArgumentException("no scenario " + argument + "; there are " + all.keySet());
            }
        }
        CountDownLatch gate = new CountDownLatch(1);
        Thread input = new Thread(() -> listen(gate), "stdin");
        input.setDaemon(true);
        input.start();

        List<Thread> threads = new ArrayList<>();
        for (String name : chosen) {
            Thread thread = new Thread(() -> runOne(new Session(name, options, gate), all.get(name)), name);
            threads.add(thread);
            thread.start();
            Thread.sleep(START_STEP_MS);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // Client threads that are not daemons would keep the JVM.
        System.exit(0);
    }

    private static void runOne(Session session, Scenario scenario) {
        long start = System.nanoTime();
        try {
            scenario.run(session);
            session.report.event("done", "ms", (System.nanoTime() - start) / 1_000_000);
        } catch (Throwable failure) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            session.report.event("failed", "error", trace.toString());
        } finally {
            session.closeAll();
        }
    }

    private static void listen(CountDownLatch gate) {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                if (line.equals("continue")) {
                    gate.countDown();
                }
            }
        } catch (java.io.IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
