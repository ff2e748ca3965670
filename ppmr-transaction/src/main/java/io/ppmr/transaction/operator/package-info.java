/** What operators are told of a migration whose ranks are held, what they may decide, and what they are answered. */
package io.ppmr.transaction.operator;
