package io.ppmr.target.image;

/**
 * Says that an image does something that cannot be served, so that its migration fails; the message names file, cause
 * and remedy.
 */
public final class ImageException extends Exception {
    private static final long serialVersionUID = 1L;

    public ImageException(String message) {
        super(message);
    }
}
