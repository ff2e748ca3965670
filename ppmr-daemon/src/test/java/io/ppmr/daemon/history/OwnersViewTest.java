package io.ppmr.daemon.history;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class OwnersViewTest {
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "cancelled by user alice | cancelled by another user",
                "cancelled by user bob | cancelled by user bob",
                "by user 1001 of uid 0 | by user 1001 of another user",
                "/root/hooks/before.sh ended with 1 | (a path) ended with 1",
                "the file '/var/lib/ppmr/x' is gone | the file '(a path)' is gone",
                "the file /var/lib/ppmr/x: No space | the file (a path): No space",
                "job 1001/ring waits for 1002/secret | job 1001/ring waits for another user's job",
                "log /home/alice/log, see there | log (a path), see there",
                "../../root/secret and ~alice/x and ./y are gone | (a path) and (a path) and (a path) are gone",
                "spare1:7411, 10.0.0.1:7411 | spare1:7411, 10.0.0.1:7411",
                "12 MiB/s | 12 MiB/s",
            })
    void shouldLeaveOutWhatIsOfOthersWhenATextHasIt(String text, String shown) {
        assertEquals(shown, new OwnersView("bob", 1001).text(text));
    }
}
