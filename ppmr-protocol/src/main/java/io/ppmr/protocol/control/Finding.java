package io.ppmr.protocol.control;

import io.ppmr.protocol.data.ProtocolException;

/**
 * One line of a check: well, or what is wrong and how to mend it. Immutable.
 *
 * @param level how bad it is
 * @param check what was looked at, one word
 * @param text what was found
 * @param remedy what helps; empty where nothing has to be done
 */
public record Finding(Level level, String check, String text, String remedy) {

    /** The check of whether a job's memory can be streamed to the target. Its finding says why not. */
    public static final String PAGES = "pages";

    /** The check of whether a pod can continue at the target. */
    public static final String PODS = "pods";

    /** The severity of a finding. The codes are those of the protocol. */
    public enum Level {
        /** As it should be. */
        OK(0),
        /** It works, but not well, or not for every job. */
        WARN(1),
        /** It does not work. */
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

    /** Fine if it holds; else a failure with a text and a remedy of its own. */
    public static Finding failUnless(boolean holds, String check, String text, String failure, String remedy) {
        return holds ? ok(check, text) : fail(check, failure, remedy);
    }

    /** The same, but no reason to give up. */
    public Finding atMostAWarning() {
        return level == Level.FAIL ? warn(check, text, remedy) : this;
    }

    /** Returns what was found and what helps, in one line. */
    public String sentence() {
        return remedy.isEmpty() ? text : text + ": " + remedy;
    }
}
