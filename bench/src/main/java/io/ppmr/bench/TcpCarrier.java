package io.ppmr.bench;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** TCP over the loopback device. */
final class TcpCarrier implements Carrier {
    @Override
    public String device() {
        return "TCP over loopback";
    }

    @Override
    public Map<String, Object> settings(StageOptions options) {
        return Map.of("connections", options.connections);
    }

    @Override
    public List<String> targetWords() {
        return List.of(StageOptions.TCP, "127.0.0.1");
    }

    @Override
    public String limitName() {
        return "sender and receiver in C with CRC32C at both ends";
    }

    @Override
    public double limitMibPerSecond(StageOptions options) throws BenchFailure, IOException, InterruptedException {
        return new Limits(options).net(true).mibPerSecond();
    }
}
