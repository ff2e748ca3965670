/**
 * The filesystem interface that both ends implement, its mount, and stale mounts. No other module uses jnr-fuse or
 * libfuse.
 */
package io.ppmr.fuse;
