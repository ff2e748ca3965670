/** One session at the source: its agent, and the outlet through which an image leaves. */
package io.ppmr.source.session;
