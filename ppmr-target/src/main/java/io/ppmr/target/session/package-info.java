/** One session at the target: its agent, its transfer, and the watch over both. */
package io.ppmr.target.session;
