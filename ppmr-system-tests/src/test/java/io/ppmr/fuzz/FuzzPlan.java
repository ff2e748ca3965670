package io.ppmr.fuzz;

/** The number of inputs that each parser gets: in the gate, and with the tests tagged {@code soak}. */
public enum FuzzPlan {
    HANDSHAKE_AT_THE_TARGET(10_000, 500_000),
    HANDSHAKE_AT_THE_SOURCE(10_000, 500_000),
    TLS_AT_THE_TARGET(3_000, 500_000),
    FRAMES(40_000, 1_500_000),
    MESSAGES(40_000, 2_000_000),
    MESSAGE_PARTS(1_000, 500_000),
    CHUNKS(8_000, 500_000),
    CONTROL_LINES(10_000, 500_000),
    CONTROL_REQUESTS(10_000, 500_000),
    ANNOUNCEMENTS(5_000, 500_000),
    PID_FILES(10_000, 500_000),
    SOURCE_CONFIGURATION(2_000, 500_000),
    TARGET_CONFIGURATION(2_000, 500_000),
    JOURNAL_RECORDS(20_000, 1_000_000),
    JOURNAL_FILES(10_000, 500_000),
    MANIFESTS(11_000, 500_000),
    JOB_RECORDS(5_000, 500_000),
    JOB_SETS(3_000, 500_000),
    JOB_QUESTIONS(10_000, 500_000),
    JOB_ANSWERS(5_000, 500_000),
    MOUNTS(10_000, 500_000),
    MAPPINGS(10_000, 500_000),
    PROCESS_STATS(10_000, 500_000),
    SYSTEM_V_OBJECTS(10_000, 500_000),
    SOCKETS(10_000, 500_000),
    MEMORY(2_000, 500_000);

    private final int gate;
    private final int all;

    FuzzPlan(int gate, int all) {
        this.gate = gate;
        this.all = all;
    }

    int gate() {
        return gate;
    }

    int all() {
        return all;
    }
}
