/** The warm-up of a target: images of a source in its own process are read through its own mount. */
package io.ppmr.target.rehearsal;
