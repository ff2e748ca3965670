/** Makes the packages for Debian and for distributions with rpm out of a built tree. */
package io.ppmr.packages;
