/**
 * A configuration file while it is read: sections, keys, types of values, and mistakes. It depends on no key of a
 * service.
 */
package io.ppmr.daemon.config.file;
