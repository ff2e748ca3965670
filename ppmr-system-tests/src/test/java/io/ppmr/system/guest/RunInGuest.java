package io.ppmr.system.guest;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes inside the guest and prints one line for each test, which {@link TestsInGuest} outside reads.
 * Arguments: names of classes, or CLASS#METHOD(TYPES) for one test. They are of this package if they name none.
 */
public final class RunInGuest {
    /** The beginning of a line about a test. A tab follows, and then the outcome, the test and the reason. */
    static final String MARK = "@@ppmr-test";

    /** The system property with the tags whose tests are left out, inside as outside. */
    static final String EXCLUDED = "ppmr.excludedGroups";

    private static final String ONE_TEST = "90 s";

    private RunInGuest() {}

    public static void main(String[] classes) {
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(classes).map(RunInGuest::selector).toList())
                .filters(TagFilter.excludeTags(System.getProperty(EXCLUDED)))
                .configurationParameter("junit.jupiter.execution.timeout.default", ONE_TEST)
                .configurationParameter("junit.jupiter.execution.timeout.thread.mode.default", "SEPARATE_THREAD")
                .configurationParameter("jqwik.database", "/tmp/jqwik-database")
                .build();
        Teller teller = new Teller();
        LauncherFactory.create().execute(request, teller);
        System.exit(teller.failed ? 1 : 0);
    }

    private static DiscoverySelector selector(String name) {
        String whole = name.contains(".") ? name : RunInGuest.class.getPackageName() + '.' + name;
        return whole.contains("#") ? selectMethod(whole) : selectClass(whole);
    }

    private static final class Teller implements TestExecutionListener {
        private boolean failed;
        private long startNs;

        @Override
        public void executionStarted(TestIdentifier test) {
            startNs = System.nanoTime();
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            tell("SKIPPED", test, reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
                tell(
                        "SKIPPED",
                        test,
                        result.getThrowable().map(Throwable::getMessage).orElse(""));
                return;
            }
            boolean bad = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
            failed |= bad;
            if (test.isTest() || bad) {
                String reason = result.getThrowable().map(String::valueOf).orElse("");
                if (bad) {
                    result.getThrowable().ifPresent(Throwable::printStackTrace);
                }
                tell(bad ? "FAILED" : "PASSED", test, reason);
            }
        }

        private void tell(String outcome, TestIdentifier test, String reason) {
            String name = test.getParentIdObject()
                            .map(parent -> parent.getLastSegment().getValue().replaceAll(".*\\.|\\(.*", ""))
                            .orElse("")
                    + '.'
                    + test.getDisplayName();
            System.out.println(String.join(
                    "\t",
                    MARK,
                    outcome,
                    name,
                    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs) + " ms",
                    reason.replaceAll("\\s+", " ")));
            System.out.flush();
        }
    }
}
