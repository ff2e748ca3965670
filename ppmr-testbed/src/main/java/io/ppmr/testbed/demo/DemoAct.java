package io.ppmr.testbed.demo;

import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.Optional;

/** Shows an MPI job that is moved with its connections. An optional part has it, and a service loader finds it. */
public interface DemoAct {
    /** Returns the reason why it cannot be shown here, or empty if it can. */
    Optional<String> whyNot() throws IOException, InterruptedException;

    /** Shows it. All that it makes belongs to the testbed. */
    DemoReport.DemoMigration show(Testbed testbed, PrintWriter out) throws Exception;
}
