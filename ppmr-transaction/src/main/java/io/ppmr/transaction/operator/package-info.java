/** The operator's side of a migration whose ranks are held: explanations, decisions and answers. */
package io.ppmr.transaction.operator;
