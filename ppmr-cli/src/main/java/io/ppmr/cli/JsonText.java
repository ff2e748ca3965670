package io.ppmr.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.io.PrintWriter;

/** Prints results as JSON. */
public final class JsonText {
    private JsonText() {}

    /** Prints a value on lines of its own. */
    public static void print(PrintWriter out, Object value) throws IOException {
        out.print(new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValueAsString(value));
        out.println();
        out.flush();
    }
}
