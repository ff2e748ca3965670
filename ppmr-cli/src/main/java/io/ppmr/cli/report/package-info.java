/** Reports for people: charts as SVG and pages of one HTML file. The only package that knows the charting library. */
package io.ppmr.cli.report;
