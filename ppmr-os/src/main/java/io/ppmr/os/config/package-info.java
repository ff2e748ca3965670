/** The annotations by which a record of settings declares the keys of a configuration file. They read nothing. */
package io.ppmr.os.config;
