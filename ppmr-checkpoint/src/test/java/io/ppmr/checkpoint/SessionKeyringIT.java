package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.Command;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Tests that a job does not get the keys in the session keyring of a service (session-keyring(7)). */
class SessionKeyringIT {
    private JobFixture fixture;
    private String holder;

    @BeforeEach
    void makeFixture() throws Exception {
        fixture = new JobFixture();
        holder = fixture.bin.resolve("key-holder").toString();
    }

    @AfterEach
    void close() throws Exception {
        fixture.close();
    }

    private String found(String... launcher) throws Exception {
        List<String> words = new ArrayList<>(List.of(holder, "hold"));
        words.addAll(List.of(launcher));
        words.addAll(List.of(holder, "look"));
        Command.CommandResult result = CommandStarter.call(words, JobFixture.LIMIT);
        Assumptions.assumeTrue(result.exitCode() != 2, "this kernel has no keys: " + result.output());
        return result.output().strip();
    }

    @Test
    void shouldNotPossessTheServicesKeysWhenACommandIsLaunched() throws Exception {
        String launch = fixture.programs.launch().toString();
        String uid = "" + JobFixture.USER.uid();
        assertEquals("hidden", found("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"), "a child has them");
        assertEquals("none", found(launch, "--uid", uid, "--gid", uid, "--"));
        // CRIU restores as root a process that then becomes the user's.
        assertEquals("none", found(launch, "--", "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"));
    }
}
