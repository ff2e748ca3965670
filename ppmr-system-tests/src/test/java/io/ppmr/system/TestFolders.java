package io.ppmr.system;

import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.extension.AnnotatedElementContext;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.io.TempDirFactory;

/**
 * Every test's temporary folder is in one of this JVM's. The next JVM removes the remains of a killed one, including
 * services and mounts. It is named in junit-platform.properties.
 */
public final class TestFolders implements TempDirFactory {
    private static final AtomicInteger LAST = new AtomicInteger();
    private static Testbed testbed;

    @Override
    public Path createTempDirectory(AnnotatedElementContext element, ExtensionContext test) throws IOException {
        // A short name, since the path of a control socket in it may have 107 characters.
        return Files.createDirectory(
                folder().resolve(Integer.toString(LAST.incrementAndGet())),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    }

    private static synchronized Path folder() throws IOException {
        if (testbed == null) {
            testbed = Testbed.create("test");
        }
        return testbed.folder();
    }
}
