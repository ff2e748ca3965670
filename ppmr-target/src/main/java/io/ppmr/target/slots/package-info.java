/** Where arriving bytes may go: the slots of pool and staging, and who gets which. */
package io.ppmr.target.slots;
