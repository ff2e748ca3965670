/**
 * The annotations by which a record of settings declares the keys of a configuration file. This package reads no file.
 */
package io.ppmr.linux.config;
