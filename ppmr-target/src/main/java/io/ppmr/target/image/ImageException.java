package io.ppmr.target.image;

/** An image that cannot be served, which fails its migration. The message names file, cause and remedy. */
public final class ImageException extends Exception {
    private static final long serialVersionUID = 1L;

    public ImageException(String message) {
        super(message);
    }
}
