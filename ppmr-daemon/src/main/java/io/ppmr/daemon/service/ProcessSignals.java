package io.ppmr.daemon.service;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.Map;

/**
 * Signals to this process, by {@code sun.misc.Signal} of the module jdk.unsupported. It uses reflection, because the
 * compiler warns of every mention of that class and has no option against that.
 */
public final class ProcessSignals {
    /** The environment variable with the signal by which HotSpot suspends its threads. */
    static final String SUSPEND_SIGNAL = "_JAVA_SR_SIGNUM";

    private static final int SIGUSR2 = 12;
    private static final int LEAST = 1;
    private static final int MOST = 64;

    private ProcessSignals() {}

    /** Runs {@code action} on a thread of the JVM's at each signal of that name, without "SIG". */
    public static void on(String name, Runnable action) {
        try {
            Class<?> signal = Class.forName("sun.misc.Signal");
            Class<?> handler = Class.forName("sun.misc.SignalHandler");
            InvocationHandler calls = (proxy, method, arguments) -> {
                if (method.getDeclaringClass() == Object.class) {
                    return method.invoke(action, arguments);
                }
                action.run();
                return null;
            };
            Object proxy = Proxy.newProxyInstance(handler.getClassLoader(), new Class<?>[] {handler}, calls);
            signal.getMethod("handle", signal, handler)
                    .invoke(null, signal.getConstructor(String.class).newInstance(name), proxy);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(
                    "this JVM does not take SIG" + name + ": run a JDK with jdk.unsupported", e);
        }
    }

    /** Throws if the JVM itself uses SIGUSR2, which would start migrations. */
    public static void requireFreeTrigger(Map<String, String> environment) throws CommandFailure {
        String number = environment.getOrDefault(SUSPEND_SIGNAL, "");
        boolean valid = number.matches("\\d{1,2}")
                && Integer.parseInt(number) >= LEAST
                && Integer.parseInt(number) <= MOST
                && Integer.parseInt(number) != SIGUSR2;
        if (!valid) {
            throw new CommandFailure(
                    ExitCode.USAGE,
                    "the trigger SIGUSR2 is not armed: the JVM suspends its own threads with that signal, and each time"
                            + " would start a migration. " + SUSPEND_SIGNAL + " is "
                            + (number.isEmpty() ? "not set" : "'" + number + "'")
                            + "; set it to another signal's number, such as 40 (the launcher"
                            + " does), or give --no-trigger");
        }
    }
}
