package io.ppmr.pods;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.PodSpecification;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * An order of a user: to run a pod, or a further command in one. Root opens none of its paths. The user opens directory
 * and files, in the pod. It is immutable. A request of the control socket.
 *
 * @param specification the pod; of a further command its name may be the full one, UID/NAME, and its job and template
 *     are not read
 * @param address one of the user's addresses; null for the first that is free; not read for a further command
 * @param user the pod's user, for root alone, or null for the caller
 * @param directory the working directory, or null for /tmp
 * @param input the file of its standard input, or null for /dev/null
 * @param output the file that its standard output is appended to, or null for /dev/null
 * @param error the file that its standard error is appended to, or null for the output's file
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record PodOrder(
        @JsonUnwrapped PodSpecification specification,
        String address,
        String user,
        String directory,
        String input,
        String output,
        String error) {
    private static final Pattern NAME = Pattern.compile("[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?");
    private static final Pattern VARIABLE = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*=.*", Pattern.DOTALL);
    private static final int MAX_WORDS = 4096;
    private static final String INIT = "/ppmr-pod-init";

    /** Returns an order of a further command in a pod. */
    public static PodOrder inPod(String name, List<String> command) {
        return new PodOrder(
                new PodSpecification(name, null, null, List.of(), command), null, null, null, null, null, null);
    }

    /** Returns the same order with its output redirected to a file in the pod. */
    public PodOrder withOutput(String file) {
        return new PodOrder(specification, address, user, directory, input, file, error);
    }

    /** Returns the same order for another user's pod, for root alone. */
    public PodOrder forUser(String owner) {
        return new PodOrder(specification, address, owner, directory, input, output, error);
    }

    String name() {
        return specification.name();
    }

    private List<String> command() {
        return specification.command();
    }

    private List<String> environment() {
        return specification.environment();
    }

    /** Returns true if a pod can have that name: it is also its host name. */
    static boolean isName(String name) {
        return name != null && NAME.matcher(name).matches();
    }

    /** Throws if the command is invalid. */
    void requireCommand() throws RequestException {
        if (command().isEmpty() || command().get(0).isEmpty()) {
            throw new RequestException("there is no command to run in the pod: give one behind --");
        }
        if (command().size() > MAX_WORDS || environment().size() > MAX_WORDS) {
            throw new RequestException("a command has at most " + MAX_WORDS + " words, and as many variables");
        }
        for (String variable : environment()) {
            if (!VARIABLE.matcher(variable).matches()) {
                throw new RequestException("a variable of the environment is written NAME=VALUE");
            }
        }
        List<String> all = new ArrayList<>(command());
        all.addAll(environment());
        for (String stream : new String[] {directory, input, output, error}) {
            all.add(stream == null ? "" : stream);
        }
        // The kernel would read the text only up to that byte.
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
        for (String variable : environment()) {
            byName.put(nameOf(variable), variable);
        }
        return List.copyOf(byName.values());
    }

    private static String nameOf(String variable) {
        return variable.substring(0, variable.indexOf('='));
    }

    /** Returns the words with which the pod's init, or with {@code detached} its helper, starts the command. */
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
        words.addAll(command());
        return words;
    }

    private static void add(List<String> words, String option, String value) {
        if (value != null) {
            words.add(option);
            words.add(value);
        }
    }
}
