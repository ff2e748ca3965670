package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ToolProcess.Explanation;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CriuWordsTest {
    /** The lines are from CRIU's logs. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "Error (criu/files-reg.c:1052): Can't dump ghost file /home/x of 3145728 size, increase limit"
                        + " | unlinked file open: /home/x | --ghost-limit",
                "Error (criu/files-ext.c:94): Can't dump file 3 of that type [600] (anon anon_inode:[perf_event])"
                        + " | does not write: anon anon_inode:[perf_event] | close it",
                "Error (criu/proc_parse.c:502): Unknown shit 600 (anon_inode:[io_uring])"
                        + " | does not write: anon_inode:[io_uring] | unmap it",
                "Error (criu/timer.c:329): Unable to convert the notify thread id 385"
                        + " | signals one thread | SIGEV_SIGNAL",
                "Error (criu/sk-unix.c:1): sk unix: External socket is used. Consider using --ext-unix-sk"
                        + " | the other end of one of its Unix sockets | suspend hook",
                "Error (criu/files-reg.c:2): Can't open file home/y on restore: No such file or directory"
                        + " | the file home/y: No such file or directory | share the folder",
                "Error (criu/files-reg.c:2): File usr/lib/z has bad size 5 (expect 6)"
                        + " | another file of the name usr/lib/z, with another size | same file",
                "Error (criu/cr-restore.c:3): Can't fork for 117: File exists | PID 117 | namespaces"
            })
    void shouldSayInOneSentenceWhatCriuMeans(String line, String sentence, String remedy) {
        Explanation found = CriuWords.explain("Warn (x): y\n" + line + "\nError: Dumping FAILED.\n")
                .orElseThrow();
        assertTrue(found.sentence().contains(sentence.strip()), found.sentence());
        assertTrue(found.remedy().contains(remedy.strip()), found.remedy());
    }

    @Test
    void shouldSayNothingOfWhatIsNotKnown() {
        assertEquals(Optional.empty(), CriuWords.explain("Error (criu/x.c:1): something new"));
    }

    /** A job chooses the names of its files, and the reason is a line in root's log. */
    @Test
    void shouldEscapeNamesThatAJobHasChosen() {
        Explanation found =
                CriuWords.explain("Can't dump ghost file /a\u001b[2J of 5 size").orElseThrow();
        assertTrue(found.sentence().contains("/a?[2J"), found.sentence());
    }
}
