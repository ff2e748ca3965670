package io.ppmr.packages;

import io.ppmr.packages.PackageEntry.PackagedFile;
import io.ppmr.packages.PackageEntry.PackagedFolder;
import io.ppmr.packages.PackageEntry.PackagedLink;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.vafer.jdeb.Console;
import org.vafer.jdeb.DataConsumer;
import org.vafer.jdeb.DataProducer;
import org.vafer.jdeb.DebMaker;
import org.vafer.jdeb.PackagingException;
import org.vafer.jdeb.shaded.commons.compress.archivers.tar.TarArchiveEntry;
import org.vafer.jdeb.shaded.commons.compress.archivers.tar.TarConstants;

/** Writes the package for Debian, by jdeb. */
final class DebPackage {
    private static final int FOLDER_BIT = 0040000;
    private static final int FILE_BIT = 0100000;
    private static final int LINK_MODE = 0120777;

    private final PackageKind kind;
    private final PackageFacts facts;

    DebPackage(PackageKind kind, PackageFacts facts) {
        this.kind = kind;
        this.facts = facts;
    }

    /**
     * Writes the package.
     *
     * @param scripts the maintainer scripts, by their names
     * @param work a directory for the files of control
     */
    void write(List<PackageEntry> entries, Map<String, String> scripts, Path work, Path to) throws IOException {
        Files.createDirectories(work);
        Files.writeString(work.resolve("control"), control());
        for (Map.Entry<String, String> script : scripts.entrySet()) {
            Files.writeString(work.resolve(script.getKey()), script.getValue());
        }
        DataProducer all = consumer -> {
            for (PackageEntry entry : entries) {
                produce(entry, consumer);
            }
        };
        List<String> warnings = new ArrayList<>();
        DebMaker maker = new DebMaker(new WarningConsole(warnings), List.of(all), List.of());
        maker.setControl(work.toFile());
        maker.setDeb(to.toFile());
        maker.setCompression("gzip");
        maker.setOutputTimestampMs(facts.time().toEpochMilli());
        // The scripts of the packages have brackets of their own.
        maker.setOpenReplaceToken("<<<");
        maker.setCloseReplaceToken(">>>");
        try {
            maker.makeDeb();
        } catch (PackagingException e) {
            throw new IOException("jdeb cannot write " + to + ": " + e.getMessage(), e);
        }
        if (!warnings.isEmpty()) {
            throw new IOException("jdeb warns about " + to + ": " + String.join("; ", warnings));
        }
    }

    private String control() {
        PackageKind.DebRelations relations = kind.debian();
        return "Package: " + kind.packageName() + "\nVersion: " + facts.version()
                + "\nSection: net\nPriority: optional\nArchitecture: amd64\nMaintainer: " + PackageFacts.MAINTAINER
                + "\nDepends: " + relations.depends().replace("@VERSION@", facts.version())
                + "\nRecommends: " + relations.recommends() + "\nSuggests: " + relations.suggests()
                + "\nDescription: " + kind.summary() + "\n" + kind.description().indent(1);
    }

    private void produce(PackageEntry entry, DataConsumer consumer) throws IOException {
        if (entry instanceof PackagedFolder folder) {
            TarArchiveEntry tar = new TarArchiveEntry("." + folder.path() + "/", true);
            tar.setMode(FOLDER_BIT | folder.mode());
            consumer.onEachDir(asRoots(tar));
        } else if (entry instanceof PackagedLink link) {
            TarArchiveEntry tar = new TarArchiveEntry("." + link.path(), TarConstants.LF_SYMLINK, true);
            tar.setLinkName(link.target());
            tar.setMode(LINK_MODE);
            consumer.onEachLink(asRoots(tar));
        } else if (entry instanceof PackagedFile file) {
            TarArchiveEntry tar = new TarArchiveEntry("." + file.path(), true);
            tar.setMode(FILE_BIT | file.mode());
            tar.setSize(Files.size(file.source()));
            try (InputStream in = Files.newInputStream(file.source())) {
                consumer.onEachFile(in, asRoots(tar));
            }
        }
    }

    private TarArchiveEntry asRoots(TarArchiveEntry entry) {
        entry.setIds(0, 0);
        entry.setNames("root", "root");
        entry.setModTime(Date.from(facts.time()));
        return entry;
    }

    /** Collects the warnings, each of which is a mistake in the package. */
    private record WarningConsole(List<String> warnings) implements Console {
        @Override
        public void debug(String message) {}

        @Override
        public void info(String message) {}

        @Override
        public void warn(String message) {
            warnings.add(message);
        }
    }
}
