package io.ppmr.fuse;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Starts a main class of the tests in a separate JVM, with this JVM's class path and module flags. */
final class JavaProcess {
    private JavaProcess() {}

    static List<String> command(Class<?> main, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("java.home") + "/bin/java");
        for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
            if (flag.startsWith("--")) {
                command.add(flag);
            }
        }
        command.add("-cp");
        command.add(System.getProperty("java.class.path"));
        command.add(main.getName());
        command.addAll(List.of(arguments));
        return command;
    }

    static Process start(Class<?> main, String... arguments) throws IOException {
        return new ProcessBuilder(command(main, arguments))
                .directory(new File("/"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }
}
