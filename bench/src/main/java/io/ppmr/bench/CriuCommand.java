package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.CheckpointerConfig;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** CRIU as the services call it. Hardware breakpoints stop no process there either. It is immutable. */
record CriuCommand(NativePrograms programs) {
    /** ppmr-launch sets CRIU_FAULT to this where hardware breakpoints stop no process. */
    private static final String BREAKPOINTS = "130";

    /** Returns the words of a command of CRIU's with its images in a directory. */
    List<String> words(String command, Path images, List<String> more) {
        return words(List.of(), command, images, more);
    }

    /**
     * @param before words before CRIU's own, which exec them
     */
    List<String> words(List<String> before, String command, Path images, List<String> more) {
        List<String> words = new ArrayList<>(List.of(programs.launch().toString(), "--breakpoints", BREAKPOINTS, "--"));
        words.addAll(before);
        words.addAll(CheckpointerConfig.criu(System.getenv()));
        words.addAll(List.of(command, "--images-dir", images.toString(), "--log-file", command + ".log"));
        words.addAll(more);
        return words;
    }
}
