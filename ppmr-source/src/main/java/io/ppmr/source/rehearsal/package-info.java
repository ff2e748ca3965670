/** The warm-up of a source: it writes images through its own mount to a target that throws them away. */
package io.ppmr.source.rehearsal;
