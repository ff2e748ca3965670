package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;

class MountEntryTest {
    @Test
    void shouldReadFieldsWhenLineHasOptionalFieldsAndEscapes() {
        MountEntry entry = MountEntry.parse("36 35 0:53 / /mnt/with\\040blank\\134 rw,nosuid shared:7 master:1"
                + " - fuse.ppmr ppmr-source@12.345.678 rw,user_id=0");
        assertEquals(new MountEntry(53, "/mnt/with blank\\", "fuse.ppmr", "ppmr-source@12.345.678"), entry);
        assertTrue(entry.isPpmr());
    }

    @Test
    void shouldReadFieldsWhenLineHasNoOptionalField() {
        MountEntry entry = MountEntry.parse("36 35 8:1 / / rw - ext4 /dev/root rw");
        assertEquals(new MountEntry(1, "/", "ext4", "/dev/root"), entry);
        assertFalse(entry.isPpmr());
    }

    @Test
    void shouldKnowServiceWhenSourceCarriesIt() throws IOException {
        ServiceIdentity self = ServiceIdentity.ofThisProcess();
        assertEquals(self, ServiceIdentity.parse(self.asSource("ppmr-source")));
        assertTrue(self.isServing());
        assertTrue(self.isOfThisPidNamespace());
    }

    @Test
    void shouldNotTakeReusedPidForServiceWhenStartTimeDiffers() throws IOException {
        ServiceIdentity self = ServiceIdentity.ofThisProcess();
        assertFalse(new ServiceIdentity(self.pid(), self.startTicks() - 1, self.pidNamespace()).isServing());
        assertFalse(new ServiceIdentity(1 << 30, self.startTicks(), self.pidNamespace()).isServing());
    }

    @Test
    void shouldKnowNoServiceWhenSourceIsForeign() {
        assertNull(ServiceIdentity.parse("sshfs@host"));
        assertNull(ServiceIdentity.parse("user@host.example.org"));
        assertNull(ServiceIdentity.parse("tmpfs"));
    }
}
