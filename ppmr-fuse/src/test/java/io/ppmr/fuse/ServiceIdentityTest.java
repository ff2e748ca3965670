package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;

class ServiceIdentityTest {
    @Test
    void shouldParseTheServiceFromTheSource() throws IOException {
        ServiceIdentity self = ServiceIdentity.ofThisProcess();
        assertEquals(self, ServiceIdentity.parse(self.asSource("ppmr-source")));
        assertTrue(self.isServing());
        assertTrue(self.isOfThisPidNamespace());
    }

    @Test
    void shouldNotMistakeReusedPidForServiceWhenStartTimeDiffers() throws IOException {
        ServiceIdentity self = ServiceIdentity.ofThisProcess();
        assertFalse(new ServiceIdentity(self.pid(), self.startTicks() - 1, self.pidNamespace()).isServing());
        assertFalse(new ServiceIdentity(1 << 30, self.startTicks(), self.pidNamespace()).isServing());
    }

    @Test
    void shouldParseNoServiceWhenSourceIsForeign() {
        assertNull(ServiceIdentity.parse("sshfs@host"));
        assertNull(ServiceIdentity.parse("user@host.example.org"));
        assertNull(ServiceIdentity.parse("tmpfs"));
    }
}
