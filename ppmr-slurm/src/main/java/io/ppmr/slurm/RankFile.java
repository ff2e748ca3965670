package io.ppmr.slurm;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The file of an announced rank. It has lines {@code KEY = VALUE} as in TOML, with numbers, texts in quotes without
 * escapes, and lists of such texts. A user writes it and a service of root reads it. No complete TOML parser reads it,
 * because the parser would need ten megabytes for four kilobytes of mistakes. It is immutable.
 *
 * @param pid the PID of the rank's root process
 * @param startTicks the start time of that process, field 22 of {@code /proc/PID/stat}
 * @param checkpointer the name of its checkpointer
 * @param spares the job's own spare nodes, not looked up yet
 */
record RankFile(int pid, long startTicks, String checkpointer, List<InetSocketAddress> spares) {
    private static final String VALUE = "\\d{1,18}|\"[^\"\\\\]*\"|'[^']*'|\\[[^\\]]*\\]";
    private static final Pattern LINE =
            Pattern.compile("\\h*(?:\"?([A-Za-z0-9_-]{1,64})\"?\\h*=\\h*(" + VALUE + ")\\h*)?(?:#.*)?\\r?");
    private static final Pattern ADDRESS = Pattern.compile("\\s*[\"']([A-Za-z0-9._-]{1,255}):(\\d{1,5})[\"']\\s*");
    private static final int MAX_PORT = 65_535;

    RankFile {
        spares = List.copyOf(spares);
    }

    /**
     * Parses the text.
     *
     * @throws IOException if it has a mistake, with the right form
     */
    static RankFile parse(String text) throws IOException {
        Map<String, String> values = new HashMap<>();
        for (String line : text.split("\n", -1)) {
            Matcher found = LINE.matcher(line);
            if (!found.matches() || (found.group(1) != null && values.put(found.group(1), found.group(2)) != null)) {
                throw new IOException("must have lines KEY = VALUE, each key once");
            }
        }
        String pid = values.getOrDefault("pid", "");
        String startTicks = values.getOrDefault("start_ticks", "");
        String checkpointer = values.getOrDefault("checkpointer", "");
        boolean numbers = pid.matches("[1-9]\\d{0,9}") && startTicks.matches("0|[1-9]\\d{0,17}");
        if (!numbers
                || Long.parseLong(pid) < 2
                || Long.parseLong(pid) > Integer.MAX_VALUE
                || !checkpointer.matches("[\"'].*")) {
            throw new IOException("must hold pid = NUMBER, start_ticks = NUMBER and checkpointer = \"NAME\"");
        }
        return new RankFile(
                Integer.parseInt(pid),
                Long.parseLong(startTicks),
                checkpointer.substring(1, checkpointer.length() - 1),
                spares(values.getOrDefault("spares", "[]")));
    }

    private static List<InetSocketAddress> spares(String list) throws IOException {
        List<InetSocketAddress> spares = new ArrayList<>();
        String inside =
                list.startsWith("[") ? list.substring(1, list.length() - 1).strip() : "none";
        for (String word : inside.isEmpty() ? new String[0] : inside.split(",", -1)) {
            Matcher address = ADDRESS.matcher(word);
            if (!address.matches() || Integer.parseInt(address.group(2)) > MAX_PORT) {
                throw new IOException("spares must be a list of HOST:PORT");
            }
            spares.add(InetSocketAddress.createUnresolved(address.group(1), Integer.parseInt(address.group(2))));
        }
        return spares;
    }
}
