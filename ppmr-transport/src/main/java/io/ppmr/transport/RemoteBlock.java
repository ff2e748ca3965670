package io.ppmr.transport;

/**
 * A run of bytes in the peer's exported region: address, key and length. Mutable, so that one instance serves every
 * chunk; owned by the thread that starts the RDMA Reads.
 */
public final class RemoteBlock {
    private long address;
    private long key;
    private int lengthBytes;

    public RemoteBlock set(long blockAddress, long blockKey, int blockLengthBytes) {
        address = blockAddress;
        key = blockKey;
        lengthBytes = blockLengthBytes;
        return this;
    }

    public long address() {
        return address;
    }

    public long key() {
        return key;
    }

    public int lengthBytes() {
        return lengthBytes;
    }

    @Override
    public String toString() {
        return "RemoteBlock{address=0x" + Long.toHexString(address) + ", length=" + lengthBytes + '}';
    }
}
