package io.ppmr.packages;

import java.util.List;

/**
 * A package that the build makes, with what its headers contain in both formats. It is immutable.
 *
 * @param requires what the package for rpm requires, beside a Java runtime or the product
 */
record PackageKind(
        String packageName,
        String summary,
        String description,
        DebRelations debian,
        List<String> requires,
        List<String> recommends) {
    /** Everything that a node needs. */
    static final PackageKind PRODUCT = new PackageKind(
            "ppmr",
            "pipelined migration of the processes of a failing node",
            """
            ppmr moves the processes of a compute node that is about to fail to a spare
            node. The restart reads the image while the checkpoint is still written.
            Jobs are checkpointed by CRIU, BLCR or commands of a site, and the data is
            sent over TCP or RDMA.""",
            new DebRelations(
                    // Debian 12 has a JRE 17, Debian 13 one of 21 and 25: each of them provides this.
                    "default-jre-headless (>= 2:1.17) | java17-runtime-headless, fuse3 | fuse,"
                            + " libc6 (>= 2.17), libfuse2 | libfuse2t64",
                    "crun, ibverbs-providers, iproute2, libibverbs1, librdmacm1, nftables",
                    "systemd, criu (>= 4)"),
            // Files by which another package can be had, whatever a distribution calls it.
            List.of("/bin/bash", "/usr/bin/find", "/usr/bin/flock", "/usr/bin/namei", "libfuse.so.2()(64bit)"),
            List.of("crun", "iproute", "libibverbs.so.1()(64bit)", "librdmacm.so.1()(64bit)", "nftables"));

    /** The classes and the jobs of {@code ppmr demo}. */
    static final PackageKind DEMO = new PackageKind(
            "ppmr-demo",
            "demonstration of ppmr on one machine",
            """
            The command ppmr demo makes isolated nodes on one machine and moves jobs from
            one to the other. This package has its classes and its jobs. One of its jobs is
            an MPI job, which needs Open MPI with its compiler.""",
            new DebRelations(
                    "ppmr (= @VERSION@), iproute2, libc6 (>= 2.34), procps",
                    "crun, nftables",
                    "gcc, libopenmpi-dev, openmpi-bin"),
            List.of("/usr/bin/kill", "/usr/bin/nsenter", "/usr/bin/unshare", "iproute"),
            List.of("crun", "nftables"));

    static final List<PackageKind> ALL = List.of(PRODUCT, DEMO);

    PackageKind {
        requires = List.copyOf(requires);
        recommends = List.copyOf(recommends);
    }

    /** The relations of a package of Debian to others. {@code @VERSION@} is its own version. */
    record DebRelations(String depends, String recommends, String suggests) {}
}
