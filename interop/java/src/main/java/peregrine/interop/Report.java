package peregrine.interop;

import java.io.PrintStream;
import java.io.UnsupportedEncodingException;
import java.security.MessageDigest;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Writes facts, one JSON object a line, to standard output. Nothing is judged here: what was sent, what arrived and what was
 * refused is printed, and the Go side decides whether that was right. The vocabulary stands in interop/README.md.
 */
final class Report {
    private static final PrintStream OUT = utf8(System.out);
    private final String scenario;

    Report(String scenario) {
        this.scenario = scenario;
    }

    /** One line; values are text, numbers, booleans, collections or maps of these. */
    void event(String name, Object... keysAndValues) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("s", scenario);
        line.put("e", name);
        for (int i = 0; i < keysAndValues.length; i += 2) {
            if (keysAndValues[i + 1] != null) {
                line.put((String) keysAndValues[i], keysAndValues[i + 1]);
            }
        }
        StringBuilder text = new StringBuilder(256);
        write(text, line);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    static String sha256(byte[] bytes) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            StringBuilder hex = new StringBuilder(64);
            for (byte b : digest) {
                hex.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
            }
            return hex.toString();
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static PrintStream utf8(PrintStream stream) {
        try {
            return new PrintStream(stream, false, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            out.append('{');
            String comma = "";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(comma);
                quote(out, String.valueOf(entry.getKey()));
                out.append(':');
                write(out, entry.getValue());
                comma = ",";
            }
            out.append('}');
        } else if (value instanceof Collection) {
            out.append('[');
            String comma = "";
            for (Object element : (Collection<?>) value) {
                out.append(comma);
                write(out, element);
                comma = ",";
            }
            out.append(']');
        } else if (value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(out, String.valueOf(value));
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
