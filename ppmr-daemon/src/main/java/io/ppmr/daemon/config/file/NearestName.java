package io.ppmr.daemon.config.file;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** Finds the name that was probably meant by a mistyped one. */
public final class NearestName {
    private static final int MAX_EDIT_DISTANCE = 3;

    private NearestName() {}

    /** Returns the candidate at the smallest edit distance (Levenshtein 1966), or empty if none is near. */
    public static Optional<String> of(String written, List<String> known) {
        return known.stream()
                .min(Comparator.comparingInt(name -> distance(written, name)))
                .filter(name -> distance(written, name) <= Math.min(MAX_EDIT_DISTANCE, name.length() / 2));
    }

    private static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int substituted = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(substituted, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[b.length()];
    }
}
