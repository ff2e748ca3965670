package io.ppmr.linux.config;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Declares a section of a configuration file. The components of the record are its keys ({@link Key}). A component
 * without that annotation is a record whose keys belong to the same section.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface Section {
    /** The name, as in {@code [name]}; empty for the top of a file and for the entries of a list of tables. */
    String name() default "";

    /** Allows the section once for each of several names, as {@code [name.NAME]}. */
    boolean many() default false;

    /** The purpose of the section, for the documentation. */
    String doc();
}
