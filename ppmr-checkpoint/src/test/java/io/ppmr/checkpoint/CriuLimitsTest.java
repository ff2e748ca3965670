package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the scan with a generated {@code /proc}. */
class CriuLimitsTest {
    private static final JobUser USER = new JobUser(20_001, 20_001);
    private static final ProcessIdentity ROOT = new ProcessIdentity("boot", 1, 100, 1000);
    private static final int SHELL = 50;
    private static final int LOOKS = 300;
    private static final int MANY_ROWS = 50_000;

    @TempDir
    private Path proc;

    private boolean outerSessions;
    private boolean establishedTcp;
    private boolean internetSockets = true;
    private Duration lookLimit = Duration.ofSeconds(60);
    private Map<Integer, Integer> semaphoreUsers = Map.of();

    /** Makes a rank whose root leads its session, with a child in it, and a shell that started it. */
    @BeforeEach
    void setUp() throws IOException {
        process(1, "init", 0, 1);
        process(SHELL, "bash", 1, SHELL);
        process(100, "job", SHELL, 100);
        process(101, "worker", 100, 100);
        namespace("self", 7);
        Files.createDirectory(proc.resolve("sysvipc"));
        queue(0, 0);
        semaphores(0);
    }

    private void process(int pid, String name, int parent, int session) throws IOException {
        process(pid, name, 'S', parent, session);
    }

    private void process(int pid, String name, char state, int parent, int session) throws IOException {
        Path own = Files.createDirectories(proc.resolve("" + pid));
        Path whole = Files.writeString(
                own.resolve("stat.new"),
                "%d (%s) %c %d %d %d 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 %d 0"
                        .formatted(pid, name, state, parent, session, session, pid * 10L));
        Files.move(whole, own.resolve("stat"), StandardCopyOption.ATOMIC_MOVE);
        Files.writeString(own.resolve("maps"), "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n");
        Files.createDirectories(own.resolve("fdinfo"));
        Files.createDirectories(own.resolve("fd"));
        Path task = Files.createDirectories(own.resolve("task").resolve("" + pid));
        Files.writeString(task.resolve("wchan"), "do_nanosleep");
        namespace("" + pid, 7);
    }

    private void namespace(String process, int number) throws IOException {
        Path link = Files.createDirectories(proc.resolve(process).resolve("ns")).resolve("ipc");
        Files.deleteIfExists(link);
        Files.createSymbolicLink(link, Path.of("ipc:[" + number + "]"));
    }

    private void queue(int lastSender, int lastReceiver) throws IOException {
        String header = "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n";
        Files.writeString(
                proc.resolve("sysvipc/msg"),
                header
                        + "305419896 32769 600 0 0 %d %d 20001 20001 20001 20001 1700000000 0 5000000000\n"
                                .formatted(lastSender, lastReceiver));
    }

    private void semaphores(int owner) throws IOException {
        String header = "key semid perms nsems uid gid cuid cgid otime ctime\n";
        Files.writeString(
                proc.resolve("sysvipc/sem"), header + "0 5 600 3 %d 0 %d 0 0 1700000000\n".formatted(owner, owner));
    }

    private void lock(int pid, String lock) throws IOException {
        Path own = proc.resolve("" + pid);
        Files.writeString(own.resolve("fdinfo/3"), "pos:\t0\nflags:\t0100002\nmnt_id:\t28\nlock:\t1: " + lock + "\n");
        Files.createSymbolicLink(own.resolve("fd/3"), Path.of("/home/user/database"));
    }

    private CriuLimits limits() {
        return new CriuLimits(
                proc,
                (set, semaphore) -> semaphoreUsers.getOrDefault(semaphore, 0),
                new CriuLimits.Arguments(outerSessions, establishedTcp, internetSockets),
                Duration.ofMillis(1),
                lookLimit);
    }

    /** A job may close a descriptor, and open another one under its number, between two reads of it. */
    @Test
    void shouldFindNothingWhenDescriptorsAreClosedAndOpenedMeanwhile() throws Exception {
        Path link = proc.resolve("101/fd/9");
        Path info = proc.resolve("101/fdinfo/9");
        Files.writeString(info, "pos:\t0\nflags:\t02\n");
        AtomicBoolean stop = new AtomicBoolean();
        Thread job = new Thread(
                () -> {
                    try {
                        while (!stop.get()) {
                            Files.createSymbolicLink(link, Path.of("/dev/null"));
                            Files.delete(link);
                        }
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                },
                "job");
        job.start();
        try {
            for (int i = 0; i < LOOKS; i++) {
                isMovable();
            }
        } finally {
            stop.set(true);
            job.join();
        }
    }

    private void isMovable() {
        assertDoesNotThrow(() -> limits().require(Map.of(3, ROOT), USER));
    }

    private void isRefused(String... words) {
        String message = assertThrows(CheckpointException.class, () -> limits().require(Map.of(3, ROOT), USER))
                .getMessage();
        assertTrue(message.startsWith("rank 3 was not stopped: PID "), message);
        assertTrue(message.contains("Remedy: "), message);
        for (String word : words) {
            assertTrue(message.contains(word), "'" + message + "' does not say '" + word + "'");
        }
    }

    @Test
    void shouldFindNothingWhenTheRankIsForItself() {
        isMovable();
    }

    @Test
    void shouldFindNothingWhenTheRankIsGone() throws Exception {
        Files.delete(proc.resolve("100/stat"));
        isMovable();
        process(100, "another", SHELL, SHELL);
        assertDoesNotThrow(() -> limits().require(Map.of(3, new ProcessIdentity("boot", 1, 100, 999)), USER));
    }

    // ---- sessions ------------------------------------------------------------------------------------------------

    @Test
    void shouldRefuseWhenTheRootIsInAShellsSession() throws Exception {
        process(100, "job", SHELL, SHELL);
        process(101, "worker", 100, SHELL);
        isRefused("session " + SHELL, "PID " + SHELL + " (bash) leads", "setsid(1)", "--shell-job");
        outerSessions = true;
        isMovable();
    }

    @ParameterizedTest
    @CsvSource({"0, 0", "50, '50\t0'"})
    void shouldRefuseWhenTheLeaderIsOutsideOfTheRanksPidNamespace(int session, String sessions) throws Exception {
        outerSessions = true;
        process(100, "job", SHELL, session);
        process(101, "worker", 100, session);
        for (int pid = 100; pid <= 101; pid++) {
            Files.writeString(
                    proc.resolve(pid + "/status"), "NSpgid:\t100\t1\nNSsid:\t" + sessions + "\nVmPeak:\t10 kB\n");
        }
        isRefused("outside of its PID namespace", "setsid(1)", "in its namespace");
    }

    @Test
    void shouldMoveARootInAnOuterSessionOfItsOwnPidNamespaceWhenThatIsAllowed() throws Exception {
        outerSessions = true;
        process(100, "job", SHELL, SHELL);
        process(101, "worker", 100, 100);
        Files.writeString(proc.resolve("100/status"), "NSsid:\t50\t10\n");
        isMovable();
    }

    @Test
    void shouldRefuseWhenTheRootsSessionHasLostItsLeader() throws Exception {
        process(100, "job", 1, 77);
        process(101, "worker", 100, 77);
        isRefused("session 77", "whose leader is gone", "setsid(1)");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void shouldRefuseWhenAChildIsInAnothersSession(boolean allowed) throws Exception {
        outerSessions = allowed;
        process(101, "worker", 100, SHELL);
        isRefused("PID 101 (worker) is in session " + SHELL, "PID " + SHELL + " (bash) leads", "stay in its sessions");
    }

    @Test
    void shouldFindNothingWhenASessionOfAChildsHasLostItsLeader() throws Exception {
        process(101, "worker", 100, 77);
        isMovable();
    }

    /** Its number may belong to another process by now, which then leads no session. */
    @Test
    void shouldFindNothingWhenTheNumberOfASessionIsAnothersThreadByNow() throws Exception {
        process(77, "unrelated", SHELL, SHELL);
        process(101, "worker", 100, 77);
        isMovable();
    }

    @Test
    void shouldFindNothingWhenAnEndedChildIsInAnothersSession() throws Exception {
        process(101, "worker", 'Z', 100, SHELL);
        isMovable();
    }

    @Test
    void shouldRefuseWhenAMemberOfTheSessionHasLeftTheTree() throws Exception {
        process(102, "daemon", 1, 100);
        isRefused("PID 102 (daemon) belongs to session 100", "descends from PID 1", "PID 100 (job)", "SUBREAPER");
        process(102, "daemon", 'Z', 1, 100);
        isMovable();
    }

    /** Returns a scan that counts reads of the user's semaphores. These are read only if there is no other finding. */
    private CriuLimits patient(AtomicInteger looks, int orphanSeen) throws IOException {
        semaphores(USER.uid());
        return new CriuLimits(
                proc,
                (set, semaphore) -> {
                    looks.incrementAndGet();
                    return 0;
                },
                new CriuLimits.Arguments(false, false, true),
                Duration.ofMillis(orphanSeen),
                lookLimit);
    }

    @Test
    void shouldFindNothingWhenAnOrphanIsThereForAMomentAlone() throws Exception {
        process(102, "daemon", 1, 100);
        AtomicInteger looks = new AtomicInteger();
        CriuLimits limits = patient(looks, 3000);
        Thread end = new Thread(() -> assertDoesNotThrow(() -> process(102, "daemon", 'Z', 1, 100)));
        end.start();
        limits.require(Map.of(3, ROOT), USER);
        end.join();
        assertTrue(looks.get() > 0, "it was looked at again");
    }

    @Test
    void shouldRefuseASegmentThatTheRankHasUsedThoughItIsNotAttached() throws Exception {
        Files.writeString(proc.resolve("sysvipc/shm"), """
                key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap
                0 32771 600 18446744073692774399 101 77 0 20001 20001 20001 20001 0 0 1700000000 0 0
                """);
        isRefused("PID 101 (worker) has used the System V shared memory 32771");
    }

    // ---- locks ---------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @CsvSource({
        "FLOCK  ADVISORY  WRITE 100 00:13:11691 0 EOF, FLOCK WRITE",
        "POSIX  ADVISORY  READ 100 00:13:11691 0 9, POSIX READ",
        "OFDLCK ADVISORY  WRITE -1 00:13:11691 0 EOF, OFDLCK WRITE"
    })
    void shouldRefuseALockOfAnyKind(String lock, String words) throws Exception {
        lock(101, lock);
        isRefused("PID 101 (worker) holds a lock (" + words + ") of /home/user/database", "--file-locks", "suspend");
    }

    // ---- pipes and sockets ---------------------------------------------------------------------------------------

    private void open(String what, String flags) throws IOException {
        Path own = proc.resolve("101");
        Files.writeString(own.resolve("fdinfo/4"), "pos:\t0\nflags:\t" + flags + "\nmnt_id:\t14\n");
        Files.createSymbolicLink(own.resolve("fd/4"), Path.of(what));
        Files.createSymbolicLink(own.resolve("ns/net"), Path.of("net:[9]"));
        Files.createDirectory(own.resolve("net"));
        Files.writeString(own.resolve("net/tcp"), """
                  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
                   0: 0100007F:C404 0100007F:0050 01 00000000:00000000 00:00000000 00000000 0 0 77 1 0
                   1: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 78 1 0
                   2: 0100007F:1388 0100007F:C405 06 00000000:00000000 00:00000000 00000000 0 0 0 1 0
                """);
    }

    @ParameterizedTest
    @ValueSource(strings = {"040001", "0200001"})
    void shouldRefuseAPipeOfPackets(String flags) throws Exception {
        open("pipe:[5]", flags);
        isRefused("PID 101 (worker) has a pipe that keeps packets apart", "without that flag");
    }

    @Test
    void shouldFindNothingWhenAPipeIsOfBytes() throws Exception {
        open("pipe:[5]", "04001");
        isMovable();
    }

    @Test
    void shouldRefuseAnEstablishedConnectionUnlessItIsTakenAlong() throws Exception {
        open("socket:[77]", "02");
        isRefused("PID 101 (worker) has an established TCP connection", "--tcp-established");
        establishedTcp = true;
        isMovable();
    }

    /** On a busy node a rank may not run during a scan, and so lack a connection that it normally has. */
    @Test
    void shouldRefuseAConnectionThatComesWhenTheRankGetsTheProcessor() throws Exception {
        process(101, "worker", 'R', 100, 100);
        open("socket:[78]", "02");
        semaphores(USER.uid());
        Duration patience = Duration.ofMillis(200);
        AtomicLong firstLookNs = new AtomicLong();
        CriuLimits limits = new CriuLimits(
                proc,
                (set, semaphore) -> {
                    firstLookNs.compareAndSet(0, System.nanoTime());
                    if (System.nanoTime() - firstLookNs.get() > 2 * patience.toNanos()
                            && !Files.isSymbolicLink(proc.resolve("101/fd/5"))) {
                        assertDoesNotThrow(() -> connect(77));
                    }
                    return 0;
                },
                new CriuLimits.Arguments(false, false, true),
                patience,
                lookLimit);
        refuseAConnection(limits);
    }

    /** A scan falls between two connections. The following ones find one. */
    @Test
    void shouldRefuseConnectionsThatComeAndGo() throws Exception {
        open("socket:[78]", "02");
        semaphores(USER.uid());
        AtomicInteger looks = new AtomicInteger();
        CriuLimits limits = new CriuLimits(
                proc,
                (set, semaphore) -> {
                    if (looks.getAndIncrement() == 0) {
                        assertDoesNotThrow(() -> connect(77));
                    }
                    return 0;
                },
                new CriuLimits.Arguments(false, establishedTcp, true),
                Duration.ofMillis(300),
                lookLimit);
        refuseAConnection(limits);
    }

    /**
     * On a busy node a single scan can take longer than the normal time of all scans, and fall between two connections.
     */
    @Test
    void shouldRefuseAConnectionThatTheThirdLookFindsWhenLooksTakeLong() throws Exception {
        open("socket:[78]", "02");
        semaphores(USER.uid());
        Duration patience = Duration.ofMillis(50);
        // Each scan reads each of the three semaphores.
        int inTwoLooks = 6;
        AtomicInteger polled = new AtomicInteger();
        CriuLimits limits = new CriuLimits(
                proc,
                (set, semaphore) -> {
                    long endNs = System.nanoTime() + patience.toNanos();
                    while (polled.get() < inTwoLooks && System.nanoTime() - endNs < 0) {
                        Thread.onSpinWait();
                    }
                    if (polled.incrementAndGet() == inTwoLooks) {
                        assertDoesNotThrow(() -> connect(77));
                    }
                    return 0;
                },
                new CriuLimits.Arguments(false, false, true),
                patience,
                lookLimit);
        refuseAConnection(limits);
    }

    /** Its descriptor is closed before it is read, and the next one is newer than the list of connections. */
    @Test
    void shouldRefuseConnectionsThatAreGoneBeforeTheirDescriptorsAreLookedAt() throws Exception {
        open("socket:[78]", "02");
        Files.writeString(
                proc.resolve("101/net/tcp"),
                "   3: 0100007F:1388 0100007F:C406 01 00000000:00000000 00:00000000 00000000 20001 0 79 1 0\n",
                StandardOpenOption.APPEND);
        isRefused("PID 101 (worker) has an established TCP connection", "--tcp-established");
        establishedTcp = true;
        isMovable();
    }

    /** At another address of the node the same port can belong to another user. */
    @Test
    void shouldMoveARankThatWaitsForConnectionsWhenAnotherUserHasOneAtTheSamePort() throws Exception {
        open("socket:[78]", "02");
        Files.writeString(
                proc.resolve("101/net/tcp"),
                "   3: 0200007F:1388 0100007F:C406 01 00000000:00000000 00:00000000 00000000 20002 0 79 1 0\n",
                StandardOpenOption.APPEND);
        isMovable();
    }

    /** No known kernel writes such rows. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "   3:",
                "   3: 0100007F 0100007F:C406 01 0:0 00:00000000 00000000 20001 0 79 1 0",
                "   3: 0100007F:13880 0100007F:C406 ZZ 0:0 00:00000000 00000000 20001 0 79 1 0",
                "   3: 0100007F:1388 0100007F:C406 01 0:0 00:00000000 00000000 who 0 inode 1 0",
                "   3: 0100007F:1388 0100007F:C406 01 0:0 00:00000000 00000000 20001 0 99999999999999999999 1 0"
            })
    void shouldFindNothingWhenTheRowOfAnothersSocketIsNotUnderstood(String row) throws Exception {
        open("socket:[78]", "02");
        Files.writeString(proc.resolve("101/net/tcp"), row + "\n", StandardOpenOption.APPEND);
        isMovable();
    }

    @Test
    void shouldRefuseTheRankAloneWhenTheRowOfItsSocketIsNotUnderstood() throws Exception {
        open("socket:[80]", "02");
        Files.writeString(
                proc.resolve("101/net/tcp"),
                "   3: 0100007F:1388 0100007F:C406 new 0:0 00:00000000 00000000 20001 0 80 1 0\n",
                StandardOpenOption.APPEND);
        String message = assertThrows(CheckpointException.class, () -> limits().require(Map.of(3, ROOT), USER))
                .getMessage();
        assertTrue(message.contains("the row of socket 80 in /proc/net/tcp"), message);
    }

    /** A user can have any number of sockets, and of System V objects up to the kernel's limits. */
    @ParameterizedTest
    @ValueSource(strings = {"101/net/tcp", "sysvipc/sem"})
    void shouldRefuseByNameWhatCouldNotBeLookedAtInTime(String table) throws Exception {
        open("socket:[78]", "02");
        try (BufferedWriter rows = Files.newBufferedWriter(proc.resolve(table), StandardOpenOption.APPEND)) {
            for (int row = 0; row < MANY_ROWS; row++) {
                rows.write(
                        table.contains("tcp")
                                ? "   3: 0200007F:1388 0100007F:C406 01 0:0 00:00000000 00000000 20002 0 79 1 0\n"
                                : "-7 5 600 3 20002 0 20002 0 0 1700000000\n");
            }
        }
        isMovable();
        lookLimit = Duration.ofNanos(1);
        String message = assertThrows(CheckpointException.class, () -> limits().require(Map.of(3, ROOT), USER))
                .getMessage();
        assertTrue(message.contains("CRIU's ability to move them is unknown"), message);
        assertTrue(message.contains("Remedy: "), message);
    }

    @Test
    void shouldMoveARankThatWaitsForConnectionsAndHasNone() throws Exception {
        open("socket:[78]", "02");
        isMovable();
    }

    private static void refuseAConnection(CriuLimits limits) {
        String message = assertThrows(CheckpointException.class, () -> limits.require(Map.of(3, ROOT), USER))
                .getMessage();
        assertTrue(message.contains("PID 101 (worker) has an established TCP connection"), message);
    }

    private void connect(int inode) throws IOException {
        Path own = proc.resolve("101");
        Files.writeString(own.resolve("fdinfo/5"), "pos:\t0\nflags:\t02\nmnt_id:\t14\n");
        Files.createSymbolicLink(own.resolve("fd/5"), Path.of("socket:[" + inode + "]"));
    }

    @ParameterizedTest
    @ValueSource(ints = {77, 78})
    void shouldRefuseEveryInternetSocketWhereCriuCannotReadItsOptions(int inode) throws Exception {
        open("socket:[" + inode + "]", "02");
        establishedTcp = true;
        isMovable();
        internetSockets = false;
        isRefused("PID 101 (worker) has a socket open (TCP)", "SO_PASSCRED", "a later CRIU");
    }

    @Test
    void shouldFindNothingWhenASocketIsOfNoInternetProtocol() throws Exception {
        internetSockets = false;
        open("socket:[79]", "02");
        isMovable();
    }

    // ---- System V IPC --------------------------------------------------------------------------------------------

    @Test
    void shouldRefuseASharedSegmentUnlessTheNamespaceIsTheRanksOwn() throws Exception {
        Files.writeString(
                proc.resolve("101/maps"),
                "7f0000000000-7f0000001000 rw-s 00000000 00:01 32770                      /SYSV0000beef (deleted)\n");
        isRefused("PID 101 (worker) has System V shared memory attached (/SYSV0000beef)", "unshare --ipc");
        namespace("101", 8);
        isMovable();
    }

    @Test
    void shouldRefuseAMessageQueueThatTheRankHasUsed() throws Exception {
        queue(101, 0);
        isRefused("PID 101 (worker) has used the System V message queue 32769");
        queue(0, 100);
        isRefused("PID 100 (job) has used the System V message queue 32769");
        queue(SHELL, SHELL);
        isMovable();
    }

    @Test
    void shouldRefuseSemaphoresThatTheRankHasUsed() throws Exception {
        semaphores(USER.uid());
        semaphoreUsers = Map.of(0, SHELL, 1, -1, 2, 101);
        isRefused("PID 101 (worker) has used the System V semaphores 5");
        // Another user's semaphores are not read one by one.
        semaphores(USER.uid() + 1);
        isMovable();
    }

    /** Half of the keys that ftok(3) makes are negative, and one table has the objects of all users. */
    @Test
    void shouldFindNothingWhenAnothersObjectsHaveNegativeKeys() throws Exception {
        anothersObjects("-1627324413", 0);
        isMovable();
        // The rank's own use of one is found all the same.
        anothersObjects("-1627324413", 101);
        isRefused("PID 101 (worker) has used the System V shared memory 32771");
    }

    /** No known kernel writes such rows. If one does, it must not end the migrations of all jobs. */
    @ParameterizedTest
    @ValueSource(strings = {"", "0x9f010003", "99999999999999999999999999", "-", "key"})
    void shouldFindNothingWhenAnothersObjectHasAKeyThatIsNoNumber(String key) throws Exception {
        anothersObjects(key, 0);
        isMovable();
    }

    private void anothersObjects(String key, int user) throws IOException {
        Files.writeString(
                proc.resolve("sysvipc/shm"),
                "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n"
                        + key + " 32771 600 4096 77 77 0 20002 20002 20002 20002 0 0 1700000000 0 0\n"
                        + "0 32771 600 4096 %d 77 0 20002 20002 20002 20002 0 0 1700000000 0 0\n".formatted(user));
        Files.writeString(
                proc.resolve("sysvipc/msg"),
                "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n" + key
                        + " 32769 600 0 0 0 0 20002 20002 20002 20002 1700000000 0 1700000000\n");
        Files.writeString(
                proc.resolve("sysvipc/sem"),
                "key semid perms nsems uid gid cuid cgid otime ctime\n" + key
                        + " 5 600 3 20002 20002 20002 20002 0 1700000000\n");
    }

    @ParameterizedTest
    @ValueSource(strings = {"do_semtimedop", "__do_semtimedop", "do_msgrcv", "do_msgsnd"})
    void shouldRefuseAThreadThatWaitsForSemaphoresOrMessages(String place) throws Exception {
        Files.writeString(proc.resolve("101/task/101/wchan"), place);
        isRefused("PID 101 (worker) waits for System V semaphores or messages");
        Files.writeString(proc.resolve("sysvipc/sem"), "");
        Files.writeString(proc.resolve("sysvipc/msg"), "");
        isMovable();
    }

    @Test
    void shouldReadTheDumpArguments() {
        assertEquals(List.of(false, false), networkAndTerminal("--file-locks"));
        assertEquals(List.of(true, false), networkAndTerminal("-l", "-j"));
        assertEquals(List.of(true, true), networkAndTerminal("--tcp-established", "--shell-job"));
    }

    private static List<Boolean> networkAndTerminal(String... arguments) {
        CriuLimits.Arguments read = CriuLimits.Arguments.of("Version: 4.2", List.of(arguments));
        assertTrue(read.internetSockets(), "a later CRIU is not known to fail");
        return List.of(read.outerSessions(), read.establishedTcp());
    }
}
