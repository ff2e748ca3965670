package io.ppmr.system;

import io.ppmr.linux.HostPort;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/**
 * A program that sends a service the notice that an address is away, as every holder of the key can. It prints the
 * answer.
 */
final class AwayNotice {
    private static final Duration LIMIT = Duration.ofSeconds(10);

    private AwayNotice() {}

    /**
     * The arguments are a key file, a service, an address, the name of a migration, a lease in milliseconds and a
     * token.
     */
    public static void main(String[] arguments) throws IOException {
        Connector service = new Connector(
                HostPort.parse(arguments[1]).orElseThrow().lookUp(), PreSharedKey.load(Path.of(arguments[0])), LIMIT);
        System.out.println(service.request(
                () -> new ControlMessage.AddressAway(
                        arguments[2], arguments[3], Long.parseLong(arguments[4]), arguments[5]),
                ControlMessage::read,
                LIMIT));
    }
}
