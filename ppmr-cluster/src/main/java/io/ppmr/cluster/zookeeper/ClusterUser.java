package io.ppmr.cluster.zookeeper;

import io.ppmr.transport.auth.PeerAuthenticator;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * A user of the ensemble, by SASL DIGEST-MD5 (RFC 2831). Name and password follow from a key file, so each holder of
 * the key can compute them. The name contains a digest of the key, so that two keys can be valid at a time. Immutable.
 *
 * @param name the name, as in access control lists
 * @param password the password
 */
public record ClusterUser(String name, String password) {
    private static final int DIGEST_BYTES = 4;

    /** Returns the user that every service connects as. */
    public static ClusterUser service(PeerAuthenticator key) {
        return of("service", key);
    }

    /** Returns the user that controllers connect as. Only they have this key. */
    public static ClusterUser controller(PeerAuthenticator controllerKey) {
        return of("controller", controllerKey);
    }

    /** Returns the user that the members of an ensemble connect as to each other. */
    public static ClusterUser member(PeerAuthenticator controllerKey) {
        return of("member", controllerKey);
    }

    private static ClusterUser of(String role, PeerAuthenticator key) {
        byte[] digest = key.seal(("ppmr cluster key of " + role).getBytes(StandardCharsets.US_ASCII));
        byte[] password = key.seal(("ppmr cluster password of " + role).getBytes(StandardCharsets.US_ASCII));
        HexFormat hex = HexFormat.of();
        return new ClusterUser(
                role + "-" + hex.formatHex(Arrays.copyOf(digest, DIGEST_BYTES)), hex.formatHex(password));
    }

    @Override
    public String toString() {
        return name;
    }
}
