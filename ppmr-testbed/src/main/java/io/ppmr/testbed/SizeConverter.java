package io.ppmr.testbed;

import io.ppmr.cli.config.BadValueException;
import io.ppmr.cli.config.CommonKeys;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Sizes on a command line, written as in the configuration. */
public final class SizeConverter implements ITypeConverter<Long> {
    @Override
    public Long convert(String text) {
        try {
            return CommonKeys.POOL_SIZE.type().parse(text, null);
        } catch (BadValueException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }
}
