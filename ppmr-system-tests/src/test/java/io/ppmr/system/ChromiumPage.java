package io.ppmr.system;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.testbed.Patience;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Assumptions;

/**
 * A page in Debian's headless Chromium, by its protocol for developers. Scripts of a test run in the page whatever its
 * content policy forbids. It notes each request, message and error of the page.
 */
final class ChromiumPage implements AutoCloseable {
    private static final String LISTENING = "DevTools listening on ";
    private static final long ANSWER_S = Patience.of(60);

    private final ObjectMapper json = new ObjectMapper();
    private final AtomicInteger lastId = new AtomicInteger();
    private final Map<Integer, CompletableFuture<JsonNode>> answers = new ConcurrentHashMap<>();
    private final List<String> requests = new CopyOnWriteArrayList<>();
    private final List<String> complaints = new CopyOnWriteArrayList<>();
    private volatile CompletableFuture<Boolean> loaded = new CompletableFuture<>();
    private final Process process;
    private final WebSocket socket;
    private String session = "";

    /** Starts the browser. Aborts the test where there is none. */
    ChromiumPage(Path profile) throws Exception {
        try {
            process = new ProcessBuilder(
                            "chromium",
                            "--headless",
                            "--no-sandbox",
                            "--disable-gpu",
                            "--disable-background-networking",
                            "--remote-debugging-port=0",
                            "--user-data-dir=" + profile,
                            "about:blank")
                    .redirectErrorStream(true)
                    .start();
        } catch (IOException e) {
            Assumptions.abort("Debian's package chromium is not here: " + e.getMessage());
            throw e;
        }
        socket = HttpClient.newHttpClient()
                .newWebSocketBuilder()
                .buildAsync(URI.create(address()), new Messages())
                .get(ANSWER_S, TimeUnit.SECONDS);
        String target = call("Target.createTarget", Map.of("url", "about:blank"))
                .get("targetId")
                .asText();
        session = call("Target.attachToTarget", Map.of("targetId", target, "flatten", true))
                .get("sessionId")
                .asText();
        for (String domain : List.of("Page", "Network", "Runtime", "Log")) {
            call(domain + ".enable", Map.of());
        }
    }

    private String address() throws IOException {
        BufferedReader output =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = output.readLine();
        while (line != null && !line.startsWith(LISTENING)) {
            line = output.readLine();
        }
        if (line == null) {
            throw new IOException("chromium ended");
        }
        Thread rest = new Thread(() -> output.lines().forEach(ignored -> {}), "chromium-output");
        rest.setDaemon(true);
        rest.start();
        return line.substring(LISTENING.length());
    }

    /** Takes messages, which may come in parts. */
    private final class Messages implements WebSocket.Listener {
        private final StringBuilder parts = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
            parts.append(data);
            if (last) {
                String message = parts.toString();
                parts.setLength(0);
                take(message);
            }
            from.request(1);
            return CompletableFuture.completedFuture(null);
        }
    }

    private void take(String text) {
        JsonNode message;
        try {
            message = json.readTree(text);
        } catch (IOException e) {
            complaints.add("not JSON: " + text);
            return;
        }
        if (message.has("id")) {
            answers.remove(message.get("id").asInt()).complete(message);
            return;
        }
        JsonNode values = message.path("params");
        switch (message.path("method").asText()) {
            case "Network.requestWillBeSent" ->
                requests.add(values.path("request").path("url").asText());
            case "Log.entryAdded" ->
                complaints.add(values.path("entry").path("text").asText());
            case "Runtime.consoleAPICalled", "Runtime.exceptionThrown" -> complaints.add(values.toString());
            case "Page.javascriptDialogOpening" ->
                complaints.add("dialog " + values.path("message").asText());
            case "Page.loadEventFired" -> loaded.complete(true);
            default -> loaded.isDone();
        }
    }

    private JsonNode call(String method, Map<String, ?> values) throws Exception {
        int id = lastId.incrementAndGet();
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        answers.put(id, answer);
        Map<String, Object> message = new HashMap<>(Map.of("id", id, "method", method, "params", values));
        if (!session.isEmpty()) {
            message.put("sessionId", session);
        }
        socket.sendText(json.writeValueAsString(message), true).get(ANSWER_S, TimeUnit.SECONDS);
        JsonNode answered = answer.get(ANSWER_S, TimeUnit.SECONDS);
        if (answered.has("error")) {
            throw new IOException(method + ": " + answered.get("error"));
        }
        return answered.get("result");
    }

    /** Opens a file in a window of this width, in a medium ("screen", "print") and a color scheme. */
    void open(Path file, int width, String medium, String scheme) throws Exception {
        call(
                "Emulation.setDeviceMetricsOverride",
                Map.of("width", width, "height", 900, "deviceScaleFactor", 1, "mobile", false));
        call(
                "Emulation.setEmulatedMedia",
                Map.of("media", medium, "features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
        requests.clear();
        complaints.clear();
        loaded = new CompletableFuture<>();
        call("Page.navigate", Map.of("url", file.toUri().toString()));
        loaded.get(ANSWER_S, TimeUnit.SECONDS);
    }

    /** Evaluates an expression in the page, and awaits its promise. */
    JsonNode evaluate(String expression) throws Exception {
        JsonNode result =
                call("Runtime.evaluate", Map.of("expression", expression, "returnByValue", true, "awaitPromise", true));
        if (result.has("exceptionDetails")) {
            throw new IOException(result.get("exceptionDetails").toString());
        }
        return result.get("result").path("value");
    }

    /** Returns the requests since the page was opened, without those for bytes in the page itself. */
    List<String> requests() {
        List<String> sent = new ArrayList<>(requests);
        sent.removeIf(url -> url.startsWith("data:"));
        return sent;
    }

    /** Returns what the page logged, and its errors. */
    List<String> complaints() {
        return List.copyOf(complaints);
    }

    @Override
    public void close() throws Exception {
        socket.abort();
        process.destroy();
        if (!process.waitFor(ANSWER_S, TimeUnit.SECONDS)) {
            process.destroyForcibly();
        }
    }
}
