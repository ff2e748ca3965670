package io.ppmr.cluster.zookeeper;

import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * The log levels of ZooKeeper and Curator in this process. Their lines about each connection would fill the log of a
 * service whose controllers are down; this part writes lines of its own about that.
 */
final class LibraryLogs {
    /** Strong references, without which java.util.logging loses the levels of loggers. */
    private static final List<Logger> QUIET = List.of(Logger.getLogger("org.apache"));

    private static final List<Logger> SILENT = List.of(
            Logger.getLogger("org.apache.zookeeper.ClientCnxn"),
            Logger.getLogger("org.apache.curator.ConnectionState"));

    /** They print a stack for a key or a certificate that is refused. */
    private static final List<Logger> MUTE = List.of(
            Logger.getLogger("org.apache.zookeeper.client.ZooKeeperSaslClient"),
            Logger.getLogger("org.apache.zookeeper.ClientCnxnSocketNetty"));

    private LibraryLogs() {}

    /** Sets the levels. It may be called any number of times. */
    static void quiet() {
        QUIET.forEach(logger -> logger.setLevel(Level.WARNING));
        SILENT.forEach(logger -> logger.setLevel(Level.SEVERE));
        MUTE.forEach(logger -> logger.setLevel(Level.OFF));
    }
}
