package io.ppmr.linux.config;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Declares a key of a configuration file, with its default, its meaning and an example, which are stated only here. The
 * key is the component's name in snake case, and the component's Java type defines the form of the value. A component
 * of type {@code Optional} is an optional key. A key that is not optional and has no default is required.
 *
 * <p>A default and an example have the form of the file, but a text has no quotes.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.RECORD_COMPONENT)
public @interface Key {
    /** The default; empty for none. */
    String value() default "";

    /** The meaning, for the documentation and for the message about a missing key. */
    String doc();

    /** A value that a file could have. */
    String example();

    /** The name that the release before had for it, which is accepted with a warning; empty for none. */
    String former() default "";

    /** The lowest value of a whole number. */
    int least() default 0;

    /** The highest value of a whole number. */
    int most() default Integer.MAX_VALUE;
}
