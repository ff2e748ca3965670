package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion;
import java.io.IOException;

/** The services of the cluster, as the controller sees them. Safe for any thread; each call may take some seconds. */
interface AskedServices {
    /** Returns true if the node is off, by an operator's report. */
    boolean isOff(String host) throws IOException, InterruptedException;

    /** Queries a service of a node. Throws if it does not answer. */
    JobQuestion.Answer ask(String host, String role, JobQuestion question) throws IOException, InterruptedException;
}
