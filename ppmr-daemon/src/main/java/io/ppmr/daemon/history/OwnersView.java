package io.ppmr.daemon.history;

import io.ppmr.daemon.history.MigrationHistory.Event;
import io.ppmr.daemon.history.MigrationHistory.MigrationRequest;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Shows a job's owner a migration without paths, and without names of other users and their jobs. Some reasons come
 * from commands and hooks of the operator, so the texts are searched. It is immutable.
 *
 * @param user the owner's name, or number as text
 * @param uid the owner's number
 */
record OwnersView(String user, int uid) {
    static final String PATH = "(a path)";
    static final String OTHER_USER = "another user";
    static final String OTHER_JOB = "another user's job";

    private static final Pattern FILE_PATH =
            Pattern.compile("(?<![\\w.~\\]-])(?:~\\w*|\\.{1,2})?/[^\\s'\"`:;,()<>|=]+");
    private static final Pattern USER = Pattern.compile("\\b(?:[Uu]ser|uid|UID) ([^\\s'\"`:;,()]+)");
    private static final Pattern JOB = Pattern.compile("\\b(\\d{1,10})/[^\\s'\"`:;,()]+");

    MigrationHistory of(MigrationHistory all) {
        return new MigrationHistory(
                all.id(),
                all.side(),
                new MigrationRequest(
                        text(all.request().who()),
                        all.request().job(),
                        text(all.request().what())),
                all.startedEpochMs(),
                all.endedEpochMs(),
                all.attempts(),
                all.outcome(),
                text(all.reason()),
                all.plan(),
                all.steps(),
                all.events().stream()
                        .map(event -> new Event(event.atEpochMs(), event.attempt(), event.name(), text(event.detail())))
                        .toList());
    }

    /** Returns a text without the names and paths that are not for the owner. */
    String text(String text) {
        String withoutUsers = USER.matcher(text).replaceAll(found -> Matcher.quoteReplacement(user(found)));
        String withoutJobs = JOB.matcher(withoutUsers)
                .replaceAll(found -> Matcher.quoteReplacement(
                        found.group(1).equals(Integer.toUnsignedString(uid)) ? found.group() : OTHER_JOB));
        return FILE_PATH.matcher(withoutJobs).replaceAll(PATH);
    }

    private String user(MatchResult found) {
        String named = found.group(1);
        return named.equals(user) || named.equals(Integer.toUnsignedString(uid)) ? found.group() : OTHER_USER;
    }
}
