#!/bin/bash
# Runs the demo and draws what it prints as a picture that plays: record-demo.sh [SVG [DEMO-OPTION...]]
#
# SVG is docs/img/demo.svg unless another is named. The text is the demo's own, and no line is left out.
# A pause between two lines is drawn as at most 0.7 s. Lines of more than 114 characters are folded.
# With DEMO_LOG=FILE the picture is drawn from a file of earlier lines ("SECONDS<tab>TEXT"), and nothing is run.
set -euo pipefail

home=$(dirname -- "$(readlink -f -- "$0")")/..
svg=${1:-$home/docs/img/demo.svg}
[ $# -eq 0 ] || shift
log=${DEMO_LOG:-}
if [ -z "$log" ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    "$home/ppmr" demo "$@" 2>&1 | while IFS= read -r line; do
        printf '%s\t%s\n' "$EPOCHREALTIME" "$line"
    done >"$log"
fi

# The lines move up behind a window, one step for each line.
awk -F '\t' -v command="./ppmr demo${*:+ $*}" '
function escaped(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); gsub(/"/, "\\&quot;", text)
    return text
}
function add(text, wait) { lines[++count] = escaped(text); waits[count] = wait }
BEGIN { columns = 114; rows = 24; height = 18; longest = 0.7; add("# " command, 0) }
{
    text = substr($0, index($0, FS) + 1)
    wait = NR == 1 ? 0.5 : $1 - before
    if (wait > longest) wait = longest
    if (wait < 0.02) wait = 0.02
    before = $1
    do {
        add(substr(text, 1, columns), wait)
        text = substr(text, columns + 1)
        wait = 0
    } while (text != "")
}
END {
    for (i = 1; i <= count; i++) total += waits[i]
    hold = 6
    width = 880; frame = rows * height + 24
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, frame
    printf "<title>Recording of %s</title>\n", escaped(command)
    print "<style>"
    print "rect{fill:#f6f8fa;stroke:#d0d7de}text{fill:#1f2328;font:12px ui-monospace,\"DejaVu Sans Mono\",monospace;white-space:pre}"
    print "@media (prefers-color-scheme:dark){rect{fill:#161b22;stroke:#30363d}text{fill:#e6edf3}}"
    bottom = count > rows ? -(count - rows) * height : 0
    printf "#lines{transform:translateY(%dpx)}\n", bottom
    printf "@media (prefers-reduced-motion:no-preference){#lines{animation:play %.1fs step-end infinite}}\n", total + hold
    print "@keyframes play{"
    at = 0
    for (i = 1; i <= count; i++) {
        at += waits[i]
        if (i < count && waits[i + 1] == 0) continue
        printf "%.3f%%{transform:translateY(%dpx)}\n", at * 100 / (total + hold), (rows - i) * height
    }
    print "}"
    print "</style>"
    printf "<clipPath id=\"window\"><rect x=\"8\" y=\"11\" width=\"%d\" height=\"%d\"/></clipPath>\n", width - 16, frame - 19
    printf "<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width - 1, frame - 1
    print "<g clip-path=\"url(#window)\"><g id=\"lines\">"
    for (i = 1; i <= count; i++)
        if (lines[i] != "") printf "<text x=\"16\" y=\"%d\">%s</text>\n", i * height + 6, lines[i]
    print "</g></g>"
    print "</svg>"
}' "$log" >"$svg"
