package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.migration.RequestException;
import java.io.IOException;

/** Sends questions about jobs to the active controller. Safe for any thread; blocks for some seconds at most. */
@FunctionalInterface
public interface ActiveController {
    /** Returns the answer, or throws if no controller gives one. */
    Answer ask(JobQuestion question) throws IOException, RequestException;
}
