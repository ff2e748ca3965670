package io.ppmr.cluster.job;

import io.ppmr.daemon.jobs.JobName;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The name of a job's record in the ensemble: UID.JOB. */
public final class JobKey {
    private static final Pattern FORM = Pattern.compile("(\\d{1,10})\\.([a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?)");
    private static final Pattern NAME = Pattern.compile("[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?");
    private static final Pattern SET = Pattern.compile("[0-9]{1,6}-[0-9]{1,9}-[0-9a-f]{8}");
    private static final Pattern HOST = Pattern.compile("[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?");

    private JobKey() {}

    /** Returns the record's name of a job. */
    public static String of(JobName job) {
        return Integer.toUnsignedString(job.uid()) + "." + job.name();
    }

    /** Returns the job of a record's name, or empty if it is no such name. */
    public static Optional<JobName> parse(String key) {
        Matcher found = FORM.matcher(key);
        try {
            return found.matches()
                    ? Optional.of(new JobName(Integer.parseUnsignedInt(found.group(1)), found.group(2)))
                    : Optional.empty();
        } catch (NumberFormatException e) {
            // A number beyond 32 bits is no user's.
            return Optional.empty();
        }
    }

    /** Returns true if a job or a pod can have this name. It becomes a name of a directory. */
    public static boolean isName(String name) {
        return name != null && NAME.matcher(name).matches();
    }

    /** Returns true if a set can have this name. It becomes a name of a directory. */
    public static boolean isSet(String set) {
        return set != null && SET.matcher(set).matches();
    }

    /** Returns true if a node can have this name. */
    public static boolean isHost(String host) {
        return host != null && HOST.matcher(host).matches();
    }
}
