package io.ppmr.pods;

import com.fasterxml.jackson.annotation.JsonInclude;
import io.ppmr.migration.RequestException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Holds what a user picks for a pod or for a further command in one. Nothing in it is a path that root opens: directory
 * and files are opened in the pod, by the user. Immutable; a request of the control socket.
 *
 * @param name what the user calls the pod; of a further command the full name, UID/NAME, will do too
 * @param job the job that the pod belongs to; null for one of its own; of no use for a further command
 * @param template which {@code [pods.NAME]}; null where there is only one; of no use for a further command
 * @param address which of the user's addresses; null for the first that is free; of no use for a further command
 * @param user whose the pod is to be, for root alone; null for the user who asks
 * @param environment NAME=VALUE each
 * @param directory where the command begins; null for /tmp
 * @param input what it reads; null for /dev/null
 * @param output what its standard output is appended to; null for /dev/null
 * @param error the same for its standard error; null for where the output goes
 * @param command the program and its arguments
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record PodOrder(
        String name,
        String job,
        String template,
        String address,
        String user,
        List<String> environment,
        String directory,
        String input,
        String output,
        String error,
        List<String> command) {
    private static final Pattern NAME = Pattern.compile("[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?");
    private static final Pattern VARIABLE = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*=.*", Pattern.DOTALL);
    private static final int MAX_WORDS = 4096;
    private static final String INIT = "/ppmr-pod-init";

    public PodOrder {
        // What stands in the lists and is no text is refused as a text that will not do.
        environment = texts(environment);
        command = texts(command);
    }

    private static List<String> texts(List<?> words) {
        return words == null ? List.of() : words.stream().map(String::valueOf).toList();
    }

    /** Returns true if a pod can have that name: it is also its host name. */
    static boolean isName(String name) {
        return name != null && NAME.matcher(name).matches();
    }

    /** Throws if a command cannot be meant like that. */
    void requireCommand() throws RequestException {
        if (command.isEmpty() || command.get(0).isEmpty()) {
            throw new RequestException("there is no command to run in the pod: give one behind --");
        }
        if (command.size() > MAX_WORDS || environment.size() > MAX_WORDS) {
            throw new RequestException("a command has at most " + MAX_WORDS + " words, and as many variables");
        }
        for (String variable : environment) {
            if (!VARIABLE.matcher(variable).matches()) {
                throw new RequestException("a variable of the environment is written NAME=VALUE");
            }
        }
        List<String> all = new ArrayList<>(command);
        all.addAll(environment);
        for (String stream : new String[] {directory, input, output, error}) {
            all.add(stream == null ? "" : stream);
        }
        // To the kernel it would end there.
        if (all.stream().anyMatch(text -> text.indexOf('\0') >= 0)) {
            throw new RequestException("a word, variable or file has a NUL in it: leave that out");
        }
    }

    /** Returns an environment in which this order's variables replace those with the same names. */
    List<String> environmentOver(List<String> base) {
        Map<String, String> byName = new LinkedHashMap<>();
        for (String variable : base) {
            byName.put(nameOf(variable), variable);
        }
        for (String variable : environment) {
            byName.put(nameOf(variable), variable);
        }
        return List.copyOf(byName.values());
    }

    private static String nameOf(String variable) {
        return variable.substring(0, variable.indexOf('='));
    }

    /** Lists the words that have the pod's init, or with {@code detached} its helper, start the command. */
    List<String> initWords(boolean detached) {
        List<String> words = new ArrayList<>(List.of(INIT));
        if (detached) {
            words.add("--detach");
        }
        add(words, "--directory", directory);
        add(words, "--input", input);
        add(words, "--output", output);
        add(words, "--error", error);
        words.add("--");
        words.addAll(command);
        return words;
    }

    private static void add(List<String> words, String option, String value) {
        if (value != null) {
            words.add(option);
            words.add(value);
        }
    }
}
