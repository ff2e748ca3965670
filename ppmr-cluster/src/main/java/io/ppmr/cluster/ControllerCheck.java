package io.ppmr.cluster;

import io.ppmr.cluster.zookeeper.ControllerAccess;
import io.ppmr.cluster.zookeeper.ControllerStore;
import io.ppmr.cluster.zookeeper.EnsembleCheck;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.protocol.control.Finding;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The checks of a controller's node for {@code ppmr doctor}. */
final class ControllerCheck {
    private static final String ENSEMBLE = "ensemble";
    private static final String DATA = "data";
    private static final Duration LIMIT = Duration.ofSeconds(5);
    /** The types of file systems on other nodes, as in proc(5). The transaction log waits for each write. */
    private static final Set<String> REMOTE = Set.of("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph");

    private ControllerCheck() {}

    /** Checks the node of a controller with this file. */
    static List<Finding> findings(Path file) throws ConfigException {
        ControllerConfig config = ControllerConfig.load(file);
        List<Finding> findings = new ArrayList<>();
        if (config.ownServer().isPresent()) {
            findings.add(data(config.keys().ensemble().data()));
        }
        findings.add(ensemble(config));
        return findings;
    }

    private static Finding data(Path data) {
        Path existing = data;
        while (!Files.exists(existing)) {
            existing = existing.getParent();
        }
        try {
            FileStore store = Files.getFileStore(existing);
            return REMOTE.contains(store.type())
                    ? Finding.fail(
                            DATA,
                            data + " is on " + store.type() + ", a file system of other nodes",
                            "name a directory on a local disk in data")
                    : Finding.ok(DATA, "the transaction log in " + data + " is on " + store.type());
        } catch (IOException e) {
            return Finding.fail(
                    DATA, data + " cannot be examined: " + e.getMessage(), "name another directory in data");
        }
    }

    private static Finding ensemble(ControllerConfig config) {
        try {
            ControllerAccess access = config.ensembleAccess();
            EnsembleCheck check = new EnsembleCheck(access, LIMIT);
            List<String> silent = check.requireOwn();
            if (!silent.isEmpty()) {
                return Finding.warn(
                        ENSEMBLE, "of the servers these do not answer: " + String.join(", ", silent), "start them");
            }
            List<String> unknown = check.requireClosed();
            if (!unknown.isEmpty()) {
                return Finding.warn(
                        ENSEMBLE,
                        "each server authenticates this controller. It is unknown if others can read the records of: "
                                + String.join(", ", unknown),
                        "start the controller, which makes its records, and repeat this check");
            }
            return Finding.ok(
                    ENSEMBLE,
                    String.join(", ", access.servers()) + " authenticate this controller, and give the cluster's"
                            + " records to no other user");
        } catch (ControllerStore.UnreachableException e) {
            String text = String.valueOf(e.getMessage());
            return config.ownServer().isPresent()
                    ? Finding.warn(ENSEMBLE, text, "start the controllers")
                    : Finding.fail(ENSEMBLE, text, "start the site's servers, or correct servers");
        } catch (IOException e) {
            return Finding.fail(ENSEMBLE, String.valueOf(e.getMessage()), "");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Finding.fail(ENSEMBLE, "the check was interrupted", "");
        }
    }
}
