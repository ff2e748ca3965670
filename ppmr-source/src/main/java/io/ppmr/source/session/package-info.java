/** One session at the source: its agent, and the outlet that sends an image. */
package io.ppmr.source.session;
