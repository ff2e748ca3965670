/** The configuration files: every key, declared once, and how they become the modules' settings. */
package io.ppmr.daemon.config;
