package io.ppmr.transaction;

/**
 * What an operator's word would mean where it is said, in words. Immutable.
 *
 * @param how whether it would be followed
 * @param text what it would mean, or why it is refused and what to do instead; whole sentences
 */
public record OperatorVerdict(How how, String text) {
    /** Whether a word is followed. */
    public enum How {
        /** It is not; nothing changes. */
        REFUSED,
        /** It is, at once. */
        FOLLOWED,
        /** It is if the fence command proves the source off, which is run for it. */
        AFTER_FENCE
    }

    static OperatorVerdict refused(String text) {
        return new OperatorVerdict(How.REFUSED, text);
    }

    static OperatorVerdict followed(String text) {
        return new OperatorVerdict(How.FOLLOWED, text);
    }

    /** Whether it is followed, at once or once the fence has succeeded. */
    public boolean allows() {
        return how != How.REFUSED;
    }
}
