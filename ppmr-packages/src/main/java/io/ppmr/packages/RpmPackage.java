package io.ppmr.packages;

import io.ppmr.packages.PackageEntry.PackagedFile;
import io.ppmr.packages.PackageEntry.PackagedFolder;
import io.ppmr.packages.PackageEntry.PackagedLink;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.eclipse.packager.rpm.FileFlags;
import org.eclipse.packager.rpm.RpmTag;
import org.eclipse.packager.rpm.RpmVersion;
import org.eclipse.packager.rpm.build.BuilderContext;
import org.eclipse.packager.rpm.build.BuilderOptions;
import org.eclipse.packager.rpm.build.FileInformation;
import org.eclipse.packager.rpm.build.RpmBuilder;
import org.eclipse.packager.rpm.coding.PayloadCoding;
import org.eclipse.packager.rpm.deps.RpmDependencyFlags;

/** Writes the package for distributions with rpm, by the Eclipse Packager. */
final class RpmPackage {
    private static final String RELEASE = "1";

    private final PackageKind kind;
    private final PackageFacts facts;

    RpmPackage(PackageKind kind, PackageFacts facts) {
        this.kind = kind;
        this.facts = facts;
    }

    /** Writes the package, with the scripts by their names: preinst, postinst, prerm and postrm, or none. */
    void write(List<PackageEntry> entries, Map<String, String> scripts, Path to) throws IOException {
        Files.deleteIfExists(to);
        BuilderOptions options = new BuilderOptions();
        options.setPayloadCoding(PayloadCoding.GZIP);
        try (RpmBuilder builder =
                new RpmBuilder(kind.packageName(), new RpmVersion(facts.version(), RELEASE), "x86_64", to, options)) {
            RpmBuilder.PackageInformation about = builder.getInformation();
            about.setSummary(upper(kind.summary()));
            about.setDescription(kind.description());
            about.setLicense(PackageFacts.LICENCE);
            about.setPackager(PackageFacts.MAINTAINER);
            about.setVendor("The ppmr authors");
            about.setGroup("System Environment/Daemons");
            about.setBuildHost("localhost");
            about.setSourcePackage(kind.packageName() + "-" + facts.version() + "-" + RELEASE + ".src.rpm");
            if (kind.equals(PackageKind.DEMO)) {
                builder.addRequirement(PackageKind.PRODUCT.packageName(), facts.version(), RpmDependencyFlags.EQUAL);
            } else {
                builder.addRequirement("java-headless", "1:17", RpmDependencyFlags.GREATER, RpmDependencyFlags.EQUAL);
            }
            kind.requires().forEach(what -> builder.addRequirement(what, null));
            kind.recommends().forEach(what -> builder.addRecommends(what, null));
            if (!scripts.isEmpty()) {
                builder.setPreInstallationScript(scripts.get("preinst"));
                builder.setPostInstallationScript(scripts.get("postinst"));
                builder.setPreRemoveScript(scripts.get("prerm"));
                builder.setPostRemoveScript(scripts.get("postrm"));
            }
            int seconds = Math.toIntExact(facts.time().getEpochSecond());
            builder.setHeaderCustomizer(header -> {
                header.putInt(RpmTag.BUILDTIME, seconds);
                header.putInt(RpmTag.CHANGELOG_TIMESTAMP, seconds);
                header.putStringArray(
                        RpmTag.CHANGELOG_AUTHOR, PackageFacts.MAINTAINER + " " + facts.version() + "-" + RELEASE);
                header.putStringArray(RpmTag.CHANGELOG_TEXT, "- " + PackageFacts.CHANGES);
            });
            BuilderContext context = builder.newContext();
            for (PackageEntry entry : entries) {
                add(entry, context);
            }
            builder.build();
        }
    }

    private static String upper(String summary) {
        return summary.substring(0, 1).toUpperCase(Locale.ROOT) + summary.substring(1);
    }

    private void add(PackageEntry entry, BuilderContext context) throws IOException {
        if (entry instanceof PackagedFolder folder) {
            context.addDirectory(folder.path(), about -> asRoots(about, folder.mode()));
        } else if (entry instanceof PackagedLink link) {
            context.addSymbolicLink(link.path(), link.target(), about -> asRoots(about, 0777));
        } else if (entry instanceof PackagedFile file) {
            context.addFile(file.path(), file.source(), about -> {
                asRoots(about, file.mode());
                if (file.path().startsWith("/usr/share/doc/") || file.path().startsWith("/usr/share/man/")) {
                    about.setFileFlags(Set.of(FileFlags.DOC));
                }
            });
        }
    }

    private void asRoots(FileInformation about, int mode) {
        about.setUser("root");
        about.setGroup("root");
        about.setMode((short) mode);
        about.setTimestamp(facts.time());
    }
}
