package io.ppmr.target.slots;

import io.ppmr.target.image.ArrivingFile;

/** Makes slots for tests outside the package. */
public final class Slots {
    private Slots() {}

    public static Slot make(int index, int chunk, long address) {
        return new Slot(index, chunk, address);
    }

    public static void grant(Slot slot, Slot.Kind kind, ArrivingFile file, long window) {
        slot.grant(kind, file, window);
    }
}
