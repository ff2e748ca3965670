package io.ppmr.checkpoint.sharing;

/**
 * A process holds an object. Immutable.
 *
 * @param holder the process
 * @param place place in the process: {@code descriptor 3}, {@code a mapping}
 * @param object the object
 * @param label the kernel's name for it
 */
public record Hold(Holder holder, String place, KernelObject object, String label) {
    private static final int LONGEST_LABEL = 160;
    private static final int HALF = LONGEST_LABEL / 2 - 2;

    /** Keeps both ends of a long name. */
    public Hold {
        if (label.length() > LONGEST_LABEL) {
            label = label.substring(0, HALF) + "..." + label.substring(label.length() - HALF);
        }
    }

    @Override
    public String toString() {
        return holder + " as " + place;
    }
}
