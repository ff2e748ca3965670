package io.ppmr.cli.help;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The JSON that a command prints with {@code --json}, for its reference page. */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.METHOD})
public @interface JsonResult {
    /** The type of the value, or of each entry of the list. */
    Class<?> value();

    /** Is true if the value is a list. */
    boolean list() default false;
}
