package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * Splits answers about jobs into pages, since all of them do not fit a message, and joins the pages again. A job with
 * pods on many nodes may be split, too. One thread owns an object; the static methods are for any thread.
 */
public final class JobPages {
    /** The most bytes of a page. It fits a frame. */
    static final int MOST_BYTES = 48 << 10;
    /** The most pages of an answer, in case that a controller never sends the last one. */
    private static final int MOST_PAGES = 4096;
    /** Quotes, a colon or a comma, and brackets. */
    private static final int MARKS_BYTES = 6;

    /**
     * The end of a page.
     *
     * @param key the record's name of the last job
     * @param host the last node of that job in the page; empty if the page has all of the job
     */
    record PageEnd(String key, String host) {
        /** Reads the end of a page. A damaged one is a place in the order, too. */
        static PageEnd parse(String text) {
            String end = text == null ? "" : text;
            int slash = end.indexOf('/');
            return slash < 0 ? new PageEnd(end, "") : new PageEnd(end.substring(0, slash), end.substring(slash + 1));
        }

        private String text() {
            return host.isEmpty() ? key : key + "/" + host;
        }
    }

    private final PageEnd after;
    private final List<JobView> views = new ArrayList<>();
    private Optional<PageEnd> last = Optional.empty();
    private boolean isFull;
    private int bytes;

    /** Begins a page. */
    JobPages(PageEnd after) {
        this.after = after;
    }

    /** Returns true if no further job fits. */
    boolean isFull() {
        return isFull;
    }

    /** Adds a job, the nodes of which may need further pages. Jobs come in the order of their keys. */
    void add(String key, JobView view) {
        Map<String, Set<String>> places =
                key.equals(after.key()) ? new TreeMap<>(view.places()).tailMap(after.host(), false) : view.places();
        int needed = bytesOf(view.at(Map.of()));
        for (Map.Entry<String, Set<String>> place : places.entrySet()) {
            needed += bytesOf(place);
        }
        if (bytes + needed <= MOST_BYTES) {
            views.add(view.at(places));
            bytes += needed;
            last = Optional.of(new PageEnd(key, ""));
        } else if (views.isEmpty()) {
            split(key, view, places);
        } else {
            isFull = true;
        }
    }

    private void split(String key, JobView view, Map<String, Set<String>> places) {
        Map<String, Set<String>> some = new TreeMap<>();
        int room = MOST_BYTES - bytesOf(view.at(Map.of()));
        String end = "";
        for (Map.Entry<String, Set<String>> place : places.entrySet()) {
            room -= bytesOf(place);
            if (room < 0 && !some.isEmpty()) {
                break;
            }
            some.put(place.getKey(), place.getValue());
            end = place.getKey();
        }
        views.add(view.at(some));
        last = Optional.of(new PageEnd(key, end));
        isFull = true;
    }

    /** Names of nodes and pods have one byte for each character. */
    private static int bytesOf(Map.Entry<String, Set<String>> place) {
        return place.getKey().length()
                + MARKS_BYTES
                + place.getValue().stream()
                        .mapToInt(pod -> pod.length() + MARKS_BYTES)
                        .sum();
    }

    private static int bytesOf(JobView view) {
        return Answer.ofJobs(List.of(view), Optional.empty()).text().getBytes(StandardCharsets.UTF_8).length;
    }

    /** Returns the page. */
    Answer answer() {
        return Answer.ofJobs(List.copyOf(views), isFull ? last.map(PageEnd::text) : Optional.empty());
    }

    /**
     * Requests all pages, and joins them.
     *
     * @param job the job; null for all
     * @param uid the user whose jobs are shown; null for all users
     */
    public static List<JobView> request(ActiveController controllers, JobName job, Integer uid)
            throws IOException, RequestException {
        List<JobView> all = new ArrayList<>();
        String after = null;
        for (int page = 0; page < MOST_PAGES; page++) {
            Answer answer = controllers.ask(new JobQuestion.Show(job, uid, after));
            if (answer.refusal() != null) {
                throw new RequestException(answer.refusal());
            }
            for (JobView view : answer.jobs() == null ? List.<JobView>of() : answer.jobs()) {
                JobView before = all.isEmpty() ? null : all.get(all.size() - 1);
                if (before != null && before.job().equals(view.job())) {
                    all.set(all.size() - 1, before.joined(view));
                } else {
                    all.add(view);
                }
            }
            if (answer.next() == null) {
                return all;
            }
            after = answer.next();
        }
        throw new IOException("the controller's list of jobs does not end within " + MOST_PAGES
                + " pages. Remedy: install the same release of ppmr on all nodes");
    }
}
