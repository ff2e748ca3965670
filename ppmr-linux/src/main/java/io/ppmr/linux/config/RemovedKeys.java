package io.ppmr.linux.config;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Names the keys that a section had in the release before and no longer has. A file may still have them: they
 * have no effect, and the log has a warning. docs/internals/versions.md defines when a name is removed from here.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface RemovedKeys {
    String[] value();
}
