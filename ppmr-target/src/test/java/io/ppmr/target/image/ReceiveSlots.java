package io.ppmr.target.image;

/** Creates slots for tests outside of the package. */
public final class ReceiveSlots {
    private ReceiveSlots() {}

    public static ReceiveSlot make(int index, int chunk, long address) {
        return new ReceiveSlot(index, chunk, address);
    }

    public static void grant(ReceiveSlot slot, ReceiveSlot.SlotKind kind, ArrivingFile file, long window) {
        slot.grant(kind, file, window);
    }
}
