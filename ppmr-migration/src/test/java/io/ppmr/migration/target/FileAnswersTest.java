package io.ppmr.migration.target;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.protocol.control.ControlMessage.FilesInspected;
import io.ppmr.protocol.control.ControlMessage.InspectFiles;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.ControlLink;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests queries about files, on a link that is lost in the meantime. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FileAnswersTest {
    private static final Duration LIMIT = Duration.ofSeconds(20L * Integer.getInteger("ppmr.patience", 1));
    private static final InspectFiles QUESTION = new InspectFiles(41_378, 41_378, 's', List.of("/etc/passwd"));

    @TempDir
    private Path programs;

    private final AtomicBoolean lost = new AtomicBoolean();

    /** The process notes its PID and never answers, as on a filesystem without its server. */
    @BeforeEach
    void makeProgram() throws Exception {
        Path launch = programs.resolve("ppmr-launch");
        Files.writeString(launch, "#!/bin/sh\necho $$ > \"" + programs.resolve("pid") + "\"\nexec sleep 600\n");
        Files.setPosixFilePermissions(launch, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private FileAnswers answers(String whyNot) {
        return new FileAnswers(
                new NativePrograms(programs),
                new ContentDigests(),
                user -> whyNot.isEmpty() ? Optional.empty() : Optional.of(whyNot),
                false,
                lost::get,
                CarryPolicy.NONE);
    }

    private boolean hasPending() {
        return Files.exists(programs.resolve("pid"));
    }

    private boolean hasEnded() throws Exception {
        String pid = Files.readString(programs.resolve("pid")).strip();
        return ProcessHandle.of(Long.parseLong(pid))
                .filter(ProcessHandle::isAlive)
                .isEmpty();
    }

    @Test
    void shouldEndTheLookAndItsProcessWhenTheLinkIsLost() throws Exception {
        try (FileAnswers answers = answers("")) {
            CompletableFuture<FilesInspected> answer = CompletableFuture.supplyAsync(() -> answers.answer(QUESTION));
            assertTrue(Polling.until(LIMIT, this::hasPending), "the process is started");
            lost.set(true);
            FilesInspected seen = answer.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertEquals("the check of the job's files was called off", seen.failure());
            assertEquals(List.of(), seen.lines());
            assertTrue(Polling.until(LIMIT, this::hasEnded), "nobody looks any more");
        }
    }

    @Test
    void shouldEndTheLookWhenItsOwnerClosesIt() throws Exception {
        FileAnswers answers = answers("");
        CompletableFuture<FilesInspected> answer = CompletableFuture.supplyAsync(() -> answers.answer(QUESTION));
        assertTrue(Polling.until(LIMIT, this::hasPending), "the process is started");
        answers.close();
        assertEquals(
                "the check of the job's files was called off",
                answer.get(LIMIT.toSeconds(), TimeUnit.SECONDS).failure());
        assertTrue(Polling.until(LIMIT, this::hasEnded), "nobody looks any more");
    }

    @Test
    void shouldTakeTheNextQuestionWhenTheLastAnswerFoundNoLink() throws Exception {
        try (ServerSocketChannel listening = ServerSocketChannel.open()) {
            listening.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            try (SocketChannel here = SocketChannel.open(listening.getLocalAddress());
                    SocketChannel there = listening.accept();
                    FileAnswers answers = answers("nothing is looked at here")) {
                assertTrue(there.isConnected());
                ControlLink link = new ControlLink(here, ProtocolVersion.NEWEST, 1, LIMIT.toNanos());
                link.close();
                answers.answerLater(QUESTION, link);
                assertTrue(Polling.until(LIMIT, () -> isFree(answers, link)), "it does not stay busy");
            }
        }
    }

    private static boolean isFree(FileAnswers answers, ControlLink link) {
        try {
            answers.answerLater(QUESTION, link);
            return true;
        } catch (ProtocolException e) {
            return false;
        }
    }

    @Test
    void shouldRefuseASecondQuestionWhenTheFirstIsNotAnswered() throws Exception {
        try (ServerSocketChannel listening = ServerSocketChannel.open()) {
            listening.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            try (SocketChannel here = SocketChannel.open(listening.getLocalAddress());
                    SocketChannel there = listening.accept();
                    FileAnswers answers = answers("");
                    ControlLink link = new ControlLink(here, ProtocolVersion.NEWEST, 1, LIMIT.toNanos())) {
                assertTrue(there.isConnected());
                answers.answerLater(QUESTION, link);
                assertTrue(Polling.until(LIMIT, this::hasPending), "the process is started");
                assertThrows(ProtocolException.class, () -> answers.answerLater(QUESTION, link));
                lost.set(true);
                assertTrue(Polling.until(LIMIT, this::hasEnded), "nobody looks any more");
            }
        }
    }
}
