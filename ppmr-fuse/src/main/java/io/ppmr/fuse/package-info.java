/**
 * The file system interface that both ends implement, its mount, and stale mounts. No other module knows jnr-fuse or
 * libfuse.
 */
package io.ppmr.fuse;
