/** Help, reference pages and completion, made of the model of all commands. */
package io.ppmr.cli.help;
