package io.ppmr.testbed;

import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Sizes on a command line, written as in the configuration. */
public final class SizeConverter implements ITypeConverter<Long> {
    @Override
    public Long convert(String text) {
        try {
            return ValueType.SIZE.parse(text, null);
        } catch (BadValueException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }
}
