package peregrine.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.List;

import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs one mqadmin command after the other in this JVM: a line of standard input is a command, its arguments separated by tabs.
 * After each, one event says what the command printed to standard output and to standard error.
 */
public final class Tools {
    public static void main(String[] none) throws Exception {
        Report report = new Report("mqadmin"); // keeps the real standard output
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        hurry(Thread.currentThread());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            try {
                forgetCommands();
                MQAdminStartup.main0(line.split("\t"), null);
            } finally {
                System.setOut(realOut);
                System.setErr(realErr);
            }
            report.event("ran", "out", out.toString("UTF-8"), "error", err.toString("UTF-8"));
        }
        System.exit(0);
    }

    /**
     * A 5.x client that shuts down waits for its event thread, which looks up every three seconds only. With the command's work
     * done there is nothing to wait for.
     */
    private static void hurry(Thread main) {
        Thread thread = new Thread(() -> {
            while (true) {
                for (StackTraceElement frame : main.getStackTrace()) {
                    if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith(".NettyRemotingClient")) {
                        Thread.getAllStackTraces().keySet().stream().filter(t -> t.getName().startsWith("NettyEventExecutor")).forEach(Thread::interrupt);
                    }
                }
                try {
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }, "hurry");
        thread.setDaemon(true);
        thread.start();
    }

    /** Commands keep state in their fields; a new process would have new ones. main0 fills the list. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
