# What the tests said: progress while they run, one summary at the end. Sourced by the launcher.
# shellcheck shell=bash
# shellcheck disable=SC2154 # the launcher gives PPMR_HOME and left_out

summaries=()
skipped=()
broken=()

# The lines of Maven's output that tell how the tests stand, without the formatter's diffs; the rest is in the log.
show_progress() {
    grep --line-buffered -vE '^\[ERROR\] {9}[-+@ ·]' | grep --line-buffered -E \
        'Running io\.ppmr|Tests run:|Results:|BUILD (SUCCESS|FAILURE)|^\[ERROR\]|^ppmr .*: |Reactor Summary|(SUCCESS|FAILURE|SKIPPED) *(\[|$)' ||
        true
}

# collect_report NAME STATUS LOG: counts what the reports of the run hold; 1 unless all that should run ran and passed.
collect_report() {
    local name=$1 status=$2 log=$3 counts tests failures errors skips line
    counts=$(find "$PPMR_HOME" -path '*/target/*-reports/TEST-*.xml' -type f -exec cat {} + 2>/dev/null |
        awk '
            function number(key) {
                return match($0, " " key "=\"[0-9]+\"") ? substr($0, RSTART + length(key) + 3) + 0 : 0
            }
            /^[ \t]*<testsuite / {
                tests += number("tests"); failures += number("failures")
                errors += number("errors"); skips += number("skipped")
            }
            END { print tests + 0, failures + 0, errors + 0, skips + 0 }')
    read -r tests failures errors skips <<<"$counts"
    while IFS= read -r line; do
        skipped+=("$name: $line")
    done < <(find "$PPMR_HOME" -path '*/target/*-reports/TEST-*.xml' -type f -exec cat {} + 2>/dev/null | list_skipped)
    while IFS= read -r line; do
        broken+=("$name: $line")
    done < <(find "$PPMR_HOME" -path '*/target/*-reports/TEST-*.xml' -type f -exec cat {} + 2>/dev/null | list_failed)
    local outcome=passed
    if [ "$((failures + errors))" -gt 0 ]; then
        outcome=FAILED
        status=1
    elif [ "$status" -ne 0 ]; then
        outcome="FAILED in the build, not in a test"
        # A program that the build calls says what is wrong in lines of its own, which the progress leaves out.
        printf '%s: the build failed; what it said beside its progress:\n' "$name"
        sed '/Reactor Summary/,$d' "$log" | grep -vE '^(\[INFO\]|\[ERROR\]|Audit done|$)' | tail -n 40 || true
    elif [ "$tests" -eq 0 ]; then
        outcome="FAILED, for no test ran"
        status=1
    fi
    summaries+=("$name: $outcome: $tests tests, $failures failed, $errors in error, $skips skipped")
    return "$status"
}

# Prints "Class.method: message" of each failed test in the reports given on standard input, and a line for each cause
# of it, since the first message often says only where the failure was noticed.
list_failed() {
    awk '
        function readable(text) {
            gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\x27", text); gsub(/&lt;/, "<", text); gsub(/&#10;.*/, "", text)
            gsub(/&gt;/, ">", text); gsub(/&amp;/, "\\&", text)
            return substr(text, 1, 400)
        }
        function value(key) {
            return match($0, " " key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4) : ""
        }
        /<testcase / { test = value("classname") "." value("name") }
        /<(failure|error)[ >]/ {
            message = value("message"); causes = 0; inside = 1
            print readable(test ": " (message == "" ? value("type") : message))
        }
        inside && causes < 8 && /^[ \t]*(Caused by|Suppressed): / { sub(/^[ \t]*/, ""); causes++; print readable("  " $0) }
        /<\/(failure|error)>/ { inside = 0 }'
}

# Prints "Class.method: reason" of each skipped test in the reports given on standard input.
list_skipped() {
    awk '
        function value(key) {
            return match($0, " " key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4) : ""
        }
        /<testcase / { test = value("classname") "." value("name") }
        /<skipped/ {
            reason = value("message")
            # A failed assumption gives its reason as the first line of a stack trace.
            if (reason == "" && sub(/.*<!\[CDATA\[/, "")) {
                sub(/^[A-Za-z0-9_.$]+: /, ""); sub(/^Assumption failed: /, ""); sub(/\]\]>.*/, ""); reason = $0
            }
            gsub(/&quot;/, "\"", reason); gsub(/&apos;/, "\x27", reason); gsub(/&lt;/, "<", reason)
            gsub(/&gt;/, ">", reason); gsub(/&amp;/, "\\&", reason)
            print test ": " (reason == "" ? "no reason given" : reason)
        }'
}

# print_summary FAILED SECONDS
print_summary() {
    local line
    printf '\nppmr test: %s after %d min %d s\n' "$([ "$1" -eq 0 ] && echo PASSED || echo FAILED)" "$(($2 / 60))" "$(($2 % 60))"
    for line in "${summaries[@]}"; do printf '  %s\n' "$line"; done
    for line in "${broken[@]}"; do printf '  failed   %s\n' "$line"; done
    for line in "${skipped[@]}"; do printf '  skipped  %s\n' "$line"; done
    for line in "${left_out[@]}"; do printf '  left out %s\n' "$line"; done
}
