package io.ppmr.transaction.rules;

/**
 * One state of the world. It has the three services with their states and journals by number, -1 while a service is
 * down. All messages ever sent stay in a set, so each may arrive late, twice or never. It also has the processes, the
 * remaining budgets, and data for the checks.
 */
final class ModelWorld {
    static final int NONE = 0;
    static final int RESTORING = 1;
    static final int HELD = 2;
    static final int RUNNING = 3;
    static final int DEAD = 4;

    final int[] state = new int[3];
    final int[] journal = new int[3];
    long said0;
    long said1;
    int alive = 3;
    int held;
    /** Bit of an original that ran after its image was written. */
    int moved;

    final int[] copy = new int[2];
    /** Bit 2*(attempt-1)+target of an image that may be whole. */
    int whole;
    /** Bit of a node that is off for good. */
    int off;
    /** Bit of a target whose fence window is open. {@link #fencing} has a bit while its fence command runs. */
    int window;

    int fencing;
    int windowsUsed;
    boolean continued;
    boolean ran;
    boolean excused;
    int losses;
    int budget;

    ModelWorld copy() {
        ModelWorld other = new ModelWorld();
        System.arraycopy(state, 0, other.state, 0, 3);
        System.arraycopy(journal, 0, other.journal, 0, 3);
        System.arraycopy(copy, 0, other.copy, 0, 2);
        other.said0 = said0;
        other.said1 = said1;
        other.alive = alive;
        other.held = held;
        other.moved = moved;
        other.whole = whole;
        other.off = off;
        other.window = window;
        other.fencing = fencing;
        other.windowsUsed = windowsUsed;
        other.continued = continued;
        other.ran = ran;
        other.excused = excused;
        other.losses = losses;
        other.budget = budget;
        return other;
    }

    boolean isUp(int node) {
        return state[node] >= 0 && !isOff(node);
    }

    boolean isOff(int node) {
        return (off >> node & 1) != 0;
    }

    boolean wasSent(int message) {
        return ((message < 64 ? said0 >> message : said1 >> (message - 64)) & 1) != 0;
    }

    void say(int message) {
        if (message < 64) {
            said0 |= 1L << message;
        } else {
            said1 |= 1L << (message - 64);
        }
    }

    void unsay(int message) {
        if (message < 64) {
            said0 &= ~(1L << message);
        } else {
            said1 &= ~(1L << (message - 64));
        }
    }

    void loss(boolean named) {
        losses = Math.min(3, losses + 1);
        excused |= named || losses > 1;
    }

    /** Writes the state as five words, the search's key. */
    void encode(long[] key) {
        key[0] = said0;
        key[1] = said1;
        key[2] = (state[0] + 1) | (long) journal[0] << 16 | (long) (state[1] + 1) << 32 | (long) journal[1] << 48;
        key[3] = (state[2] + 1) | (long) journal[2] << 16 | (long) budget << 32;
        long bits = alive | held << 2 | copy[0] << 4 | copy[1] << 7 | whole << 10 | off << 14 | window << 17;
        bits |= fencing << 19 | windowsUsed << 21 | losses << 25;
        bits |= (long) flag(continued) << 27 | (long) flag(ran) << 28 | (long) flag(excused) << 29;
        bits |= (long) moved << 30;
        key[4] = bits;
    }

    static ModelWorld decode(long[] key) {
        ModelWorld world = new ModelWorld();
        world.said0 = key[0];
        world.said1 = key[1];
        world.state[0] = (int) (key[2] & 0xffff) - 1;
        world.journal[0] = (int) (key[2] >> 16 & 0xffff);
        world.state[1] = (int) (key[2] >> 32 & 0xffff) - 1;
        world.journal[1] = (int) (key[2] >>> 48);
        world.state[2] = (int) (key[3] & 0xffff) - 1;
        world.journal[2] = (int) (key[3] >> 16 & 0xffff);
        world.budget = (int) (key[3] >>> 32);
        int bits = (int) key[4];
        world.alive = bits & 3;
        world.held = bits >> 2 & 3;
        world.moved = (int) (key[4] >> 30) & 3;
        world.copy[0] = bits >> 4 & 7;
        world.copy[1] = bits >> 7 & 7;
        world.whole = bits >> 10 & 15;
        world.off = bits >> 14 & 7;
        world.window = bits >> 17 & 3;
        world.fencing = bits >> 19 & 3;
        world.windowsUsed = bits >> 21 & 15;
        world.losses = bits >> 25 & 3;
        world.continued = (bits >> 27 & 1) != 0;
        world.ran = (bits >> 28 & 1) != 0;
        world.excused = (bits >> 29 & 1) != 0;
        return world;
    }

    private static int flag(boolean set) {
        return set ? 1 : 0;
    }
}
