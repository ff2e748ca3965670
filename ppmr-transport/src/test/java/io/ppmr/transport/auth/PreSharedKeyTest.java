package io.ppmr.transport.auth;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.transport.auth.ConnectionProof.Role;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PreSharedKeyTest {
    private static final String SECRET = "0123456789abcdef0123456789abcdef";
    private static final byte[] TRANSCRIPT = "transcript".getBytes(StandardCharsets.US_ASCII);

    @TempDir
    private Path directory;

    @ParameterizedTest
    @ValueSource(strings = {"rw-------", "r--------"})
    void shouldLoadAKeyThatOnlyItsOwnerReads(String permissions) throws IOException {
        PreSharedKey key = PreSharedKey.load(file(SECRET + "\n", permissions));
        PreSharedKey same = new PreSharedKey(SECRET.getBytes(StandardCharsets.US_ASCII));
        assertTrue(same.verify(Role.SOURCE, TRANSCRIPT, key.prove(Role.SOURCE, TRANSCRIPT)));
    }

    /** Editors and web forms add such text; for a user it is the same key. */
    @ParameterizedTest
    @ValueSource(strings = {"%s\n\n", "%s\r\n", "%s \n", "%s", "\ufeff%s\n", "\ufeff%s\r\n"})
    void shouldLoadTheSameKeyWithSurroundingText(String form) throws IOException {
        PreSharedKey key = PreSharedKey.load(file(form.formatted(SECRET), "rw-------"));
        PreSharedKey same = new PreSharedKey(SECRET.getBytes(StandardCharsets.US_ASCII));
        assertTrue(same.verify(Role.SOURCE, TRANSCRIPT, key.prove(Role.SOURCE, TRANSCRIPT)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw-r--r--", "rw-r-----", "rw----r--", "rw--w----", "rwx------"})
    void shouldRefuseAKeyThatOthersCanRead(String permissions) throws IOException {
        Path file = file(SECRET, permissions);
        IOException e = assertThrows(IOException.class, () -> PreSharedKey.load(file));
        assertTrue(e.getMessage().contains("chmod 600 " + file), e.getMessage());
    }

    @Test
    void shouldRefuseAKeyThatIsTooShortOrTooLong() throws IOException {
        Path tooShort = file("  " + SECRET.substring(1) + "  \n", "rw-------");
        IOException e = assertThrows(IOException.class, () -> PreSharedKey.load(tooShort));
        assertTrue(e.getMessage().contains("a key of 31 bytes: it must have at least 32"), e.getMessage());
        assertTrue(e.getMessage().contains(tooShort.toString()), e.getMessage());
        Path tooLong = file("x".repeat(4097), "rw-------");
        e = assertThrows(IOException.class, () -> PreSharedKey.load(tooLong));
        assertTrue(e.getMessage().contains("longer than 4096 bytes"), e.getMessage());
    }

    @Test
    void shouldSayHowToMakeAKeyWhenThereIsNone() {
        Path none = directory.resolve("none");
        IOException e = assertThrows(IOException.class, () -> PreSharedKey.load(none));
        assertTrue(e.getMessage().contains("ppmr keygen " + none), e.getMessage());
        assertThrows(IOException.class, () -> PreSharedKey.load(directory));
    }

    @Test
    void shouldProveByHmacOverRoleAndTranscript() {
        PreSharedKey key = new PreSharedKey(SECRET.getBytes(StandardCharsets.US_ASCII));
        byte[] proof = key.prove(Role.SOURCE, TRANSCRIPT);
        // printf 'ppmr peer SOURCEtranscript' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        assertEquals(
                "bcc9b254a708f6a8fc7f4ef194d668fc463f44aa6171727a5f50d59deb664e5e",
                HexFormat.of().formatHex(proof));
        assertEquals(PeerAuthenticator.PROOF_BYTES, proof.length);
    }

    @Test
    void shouldRefuseAProofOfAnotherRoleKeyOrTranscript() {
        PreSharedKey key = new PreSharedKey(SECRET.getBytes(StandardCharsets.US_ASCII));
        PreSharedKey other = new PreSharedKey(("X" + SECRET.substring(1)).getBytes(StandardCharsets.US_ASCII));
        byte[] proof = key.prove(Role.SOURCE, TRANSCRIPT);
        assertTrue(key.verify(Role.SOURCE, TRANSCRIPT, proof));
        assertFalse(key.verify(Role.TARGET, TRANSCRIPT, proof));
        assertFalse(other.verify(Role.SOURCE, TRANSCRIPT, proof));
        assertFalse(key.verify(Role.SOURCE, new byte[10], proof));
        proof[31] ^= 1;
        assertFalse(key.verify(Role.SOURCE, TRANSCRIPT, proof));
        assertFalse(key.verify(Role.SOURCE, TRANSCRIPT, new byte[0]));
    }

    private Path file(String text, String permissions) throws IOException {
        Path file = Files.createTempFile(directory, "key", "");
        Files.writeString(file, text);
        return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
    }
}
