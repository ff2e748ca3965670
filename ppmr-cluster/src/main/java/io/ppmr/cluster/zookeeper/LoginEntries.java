package io.ppmr.cluster.zookeeper;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;
import org.apache.zookeeper.server.auth.DigestLoginModule;

/**
 * The JAAS configuration of this process, without a file. ZooKeeper finds the passwords of its clients and servers by
 * the names of entries. JAAS has one configuration for each process. Safe for any thread.
 */
final class LoginEntries extends Configuration {
    private static final LoginEntries INSTALLED = new LoginEntries();

    private final Map<String, Map<String, String>> entries = new ConcurrentHashMap<>();

    private LoginEntries() {}

    /** Adds an entry with the options of ZooKeeper's {@link DigestLoginModule}, or replaces it. */
    static synchronized void put(String name, Map<String, String> options) {
        INSTALLED.entries.put(name, Map.copyOf(options));
        Configuration.setConfiguration(INSTALLED);
    }

    /** Adds the entry of a client, and returns its name. */
    static String ofClient(ClusterUser user) {
        String name = "ppmr-" + user.name();
        put(name, Map.of("username", user.name(), "password", user.password()));
        return name;
    }

    /** Adds an entry by which a server accepts these users, and returns its name. */
    static String ofServer(String name, Iterable<ClusterUser> accepted) {
        Map<String, String> options = new ConcurrentHashMap<>();
        accepted.forEach(user -> options.put("user_" + user.name(), user.password()));
        put(name, options);
        return name;
    }

    /** Returns the section of a JAAS file by which the servers of a site accept these users. */
    static String section(Iterable<ClusterUser> accepted) {
        StringBuilder section = new StringBuilder("Server {\n    ")
                .append(DigestLoginModule.class.getName())
                .append(" required");
        accepted.forEach(user -> section.append("\n    user_")
                .append(user.name())
                .append("=\"")
                .append(user.password())
                .append('"'));
        return section.append(";\n};\n").toString();
    }

    @Override
    public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
        Map<String, String> options = entries.get(name);
        return options == null
                ? null
                : new AppConfigurationEntry[] {
                    new AppConfigurationEntry(
                            DigestLoginModule.class.getName(), LoginModuleControlFlag.REQUIRED, options)
                };
    }
}
