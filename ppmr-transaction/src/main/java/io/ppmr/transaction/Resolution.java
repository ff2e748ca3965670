package io.ppmr.transaction;

/**
 * What has become of an operator's word for a migration. Immutable.
 *
 * @param migrationId its whole name
 * @param result how far it has come
 * @param text for the operator; whole sentences
 */
public record Resolution(String migrationId, Result result, String text) {
    /** How far it has come. */
    public enum Result {
        /** Nothing was changed: it cannot be decided here, or not so. */
        REFUSED,
        /** Nothing was changed: the text says what it would mean. */
        EXPLAINED,
        /** It is decided and carried out: nothing is held here any more. */
        DONE,
        /** What was said is noted, but ranks stay held: the text says for whom. */
        STILL_HELD
    }

    /** The answer to a word that is not followed, or only explained. */
    public static Resolution of(String migrationId, OperatorVerdict ruling) {
        return new Resolution(migrationId, ruling.allows() ? Result.EXPLAINED : Result.REFUSED, ruling.text());
    }
}
