package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class InstalledVersionTest {
    @TempDir
    private Path folder;

    private Path tree(String name, String facts) throws IOException {
        Path tree = Files.createDirectories(folder.resolve(name));
        Files.writeString(tree.resolve("ppmr"), "");
        Files.writeString(tree.resolve("package.properties"), facts);
        return tree;
    }

    private Path command(Path tree) throws IOException {
        return Files.createSymbolicLink(folder.resolve("command"), tree.resolve("ppmr"));
    }

    @Test
    void shouldNameTheInstalledVersionWhenItIsAnother() throws Exception {
        Path running = tree("running", "version=0.3.0\ntree=a\n");
        Path installed = tree("installed", "version=0.3.1\ntree=b\n");
        assertEquals(Optional.of("0.3.1"), InstalledVersion.waiting(running, command(installed)));
    }

    @Test
    void shouldNameTheInstalledVersionWhenItIsAnotherBuildOfTheSame() throws Exception {
        Path running = tree("running", "version=0.3.0\ntree=a\n");
        Path installed = tree("installed", "version=0.3.0\ntree=b\n");
        assertEquals(Optional.of("0.3.0"), InstalledVersion.waiting(running, command(installed)));
    }

    @Test
    void shouldNameNoneWhenTheServiceRunsInTheInstalledVersion() throws Exception {
        Path running = tree("running", "version=0.3.0\ntree=a\n");
        Path installed = tree("installed", "version=0.3.0\ntree=a\n");
        assertEquals(Optional.empty(), InstalledVersion.waiting(running, command(installed)));
    }

    @Test
    void shouldNameNoneWhenTheServiceIsOfNoPackageOrThePackageIsGone() throws Exception {
        Path running = tree("running", "version=0.3.0\ntree=a\n");
        assertEquals(Optional.empty(), InstalledVersion.waiting(running, folder.resolve("command")));
        Path installed = tree("installed", "version=0.3.1\ntree=b\n");
        Files.delete(running.resolve("package.properties"));
        assertEquals(Optional.empty(), InstalledVersion.waiting(running, command(installed)));
    }
}
