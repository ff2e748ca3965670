package io.ppmr.protocol.control;

import io.ppmr.protocol.data.ProtocolException;

/**
 * The result of one check: a success, or a problem and its remedy. Immutable.
 *
 * @param level the severity
 * @param check the checked subject, one word
 * @param text the finding itself
 * @param remedy the remedy; empty if none is needed
 */
public record Finding(Level level, String check, String text, String remedy) {

    /**
     * Name of the check that a job's memory can be streamed to the target. Its finding contains the reason if it
     * cannot.
     */
    public static final String PAGES = "pages";

    /** Name of the check that a pod can continue at the target. */
    public static final String PODS = "pods";

    /** The severity of a finding. The codes are those of the protocol. */
    public enum Level {
        /** No problem. */
        OK(0),
        /** A problem that only reduces performance, or affects only some jobs. */
        WARN(1),
        /** A problem that prevents a migration. */
        FAIL(2);

        private final int code;

        Level(int code) {
            this.code = code;
        }

        int code() {
            return code;
        }

        static Level of(int code) throws ProtocolException {
            for (Level level : values()) {
                if (level.code == code) {
                    return level;
                }
            }
            throw new ProtocolException("a finding of unknown level " + code + ": the peer is broken");
        }
    }

    public static Finding ok(String check, String text) {
        return new Finding(Level.OK, check, text, "");
    }

    public static Finding warn(String check, String text, String remedy) {
        return new Finding(Level.WARN, check, text, remedy);
    }

    public static Finding fail(String check, String text, String remedy) {
        return new Finding(Level.FAIL, check, text, remedy);
    }

    /** Returns a success if the condition holds, and otherwise a failure with its own text and remedy. */
    public static Finding failUnless(boolean holds, String check, String text, String failure, String remedy) {
        return holds ? ok(check, text) : fail(check, failure, remedy);
    }

    /** Returns this finding with a failure reduced to a warning. */
    public Finding asWarning() {
        return level == Level.FAIL ? warn(check, text, remedy) : this;
    }

    /** Returns the finding and its remedy in one line. */
    public String sentence() {
        return remedy.isEmpty() ? text : text + ": " + remedy;
    }
}
