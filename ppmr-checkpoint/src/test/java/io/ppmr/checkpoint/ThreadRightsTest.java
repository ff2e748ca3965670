package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ThreadRightsTest {
    private static final String ORIGINAL =
            "7 1000 1000 1000,4 0,0,0,1ff,0 8 2 3 1 ipc,net 5 0 0 nofile=100:200,nproc=18446744073709551615:"
                    + "18446744073709551615";

    private static Optional<String> escalation(String original, String copy) {
        return ThreadRights.parse(original).escalationOf(ThreadRights.parse(copy));
    }

    @Test
    void shouldBeTheSameWhenWrittenAndReadAgain() {
        assertEquals(
                ORIGINAL.replace("1000,4", "4,1000"),
                "7 " + ThreadRights.parse(ORIGINAL).words());
    }

    @Test
    void shouldAllowWhatIsNoMore() {
        assertEquals(Optional.empty(), escalation(ORIGINAL, ORIGINAL));
        assertEquals(
                Optional.empty(),
                escalation(ORIGINAL, "9 1000 4 - 0,0,0,f,0 8 2 4 1 - 19 0 3 nofile=200:200,nproc=5:5"));
    }

    /** If the file is read in pieces, it shows only its first digit. Then a part of a set counts for all of it. */
    @Test
    void shouldKnowTheKernelsLastCapabilityWhenItReadsAThread() throws Exception {
        Process process = new ProcessBuilder("cat").start();
        try {
            // Ranks are stopped when they are read. A program that answers has mapped all its files.
            process.getOutputStream().write('1');
            process.getOutputStream().flush();
            assertEquals('1', process.getInputStream().read());
            List<ThreadRights> threads = new ArrayList<>();
            ProcessPrivileges.threads(List.of(new ProcessTable().of((int) process.pid())), threads::add);
            String printed = CommandStarter.call(List.of("cat", "/proc/sys/kernel/cap_last_cap"), JobFixture.LIMIT)
                    .output();
            assertEquals(printed.strip(), "" + threads.get(0).lastCapability());
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldNameTheSetsThatGiveACapability() {
        assertEquals(
                List.of("CapInh", "CapAmb"),
                ThreadRights.parse(ORIGINAL.replace("0,0,0,1ff,0", "10000000000,ff,0,1ffffffffff,10000000000"))
                        .setsWith(40));
        assertEquals(
                List.of("CapPrm", "CapEff"),
                ThreadRights.parse(ORIGINAL.replace("0,0,0,1ff,0", "0,10000000000,10000000000,0,0"))
                        .setsWith(40));
        assertEquals(List.of(), ThreadRights.parse(ORIGINAL).setsWith(40));
    }

    /** A bounding set that has all of its kernel's capabilities also has those that a newer kernel adds. */
    @Test
    void shouldAllowANewKernelsCapabilityWhenTheSetWasFull() {
        assertEquals(Optional.empty(), escalation(ORIGINAL, ORIGINAL.replace(",1ff,0 8", ",3ff,0 9")));
        assertTrue(escalation(ORIGINAL.replace(",1ff,0 8", ",ff,0 8"), ORIGINAL).isPresent());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "7 1000 1000| 7 1000,0 1000| user ids",
                "1000 1000,4| 1000 1000,4,27| groups [27]",
                "1000 1000 1000| 1000 1000,6 1000| groups [6]",
                " 0,0,0,1ff| 1,0,0,1ff| CapInh",
                " 0,0,0,1ff| 0,2,0,1ff| CapPrm",
                " 0,0,0,1ff| 0,0,4,1ff| CapEff",
                "1ff,0 8| 1ff,8 8| CapAmb",
                " 8 2 3 1| 8 0 0 1| Seccomp",
                " 8 2 3 1| 8 2 2 1| Seccomp",
                " 8 2 3 1| 8 2 3 0| NoNewPrivs",
                "ipc,net| ipc,net,user| namespaces [user]",
                " 5 0 0 | 4 0 0 | scheduled before",
                " 5 0 0 | 5 1 0 | scheduled before",
                " 5 0 0 | 5 0 6 | scheduled before",
                "100:200| 100:201| hard limit nofile is 201"
            })
    void shouldNameWhatIsMore(String was, String is, String name) {
        String copy = ORIGINAL.replace(was, is);
        assertTrue(!copy.equals(ORIGINAL), "the case changes nothing");
        String printed = escalation(ORIGINAL, copy).orElse("nothing");
        assertTrue(printed.contains(name), printed);
    }
}
