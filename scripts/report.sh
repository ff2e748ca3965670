# What the tests said: progress while they run, one summary at the end. Sourced by the launcher.
# shellcheck shell=bash
# shellcheck disable=SC2154 # the launcher gives PPMR_HOME and left_out

summaries=()
skipped=()
broken=()
unstable=()

# The lines of Maven's output that tell how the tests stand, without the formatter's diffs; the rest is in the log.
show_progress() {
    grep --line-buffered -vE '^\[ERROR\] {9}[-+@ ·]' | grep --line-buffered -E \
        'Running io\.ppmr|Tests run:|Results:|BUILD (SUCCESS|FAILURE)|^\[ERROR\]|^ppmr .*: |Reactor Summary|(SUCCESS|FAILURE|SKIPPED) *(\[|$)' ||
        true
}

# reports: the XML reports of the tests that ran last, in a fixed order, separated by NUL.
reports() { find "$PPMR_HOME" -path '*/target/*-reports/TEST-*.xml' -type f -print0 2>/dev/null | LC_ALL=C sort -z; }

# count_tests: prints how many tests the reports hold, failed, were in error and were skipped.
count_tests() {
    reports | xargs -0r cat | awk '
        function number(key) {
            return match($0, " " key "=\"[0-9]+\"") ? substr($0, RSTART + length(key) + 3) + 0 : 0
        }
        /^[ \t]*<testsuite / {
            tests += number("tests"); failures += number("failures")
            errors += number("errors"); skips += number("skipped")
        }
        END { print tests + 0, failures + 0, errors + 0, skips + 0 }'
}

# without_report LOG: prints the test classes that the log of a run says were started and that left no report, as a
# test JVM does that crashed or was killed at its deadline.
without_report() {
    local class
    sed -n 's/^.*Running \(io\.ppmr\.[A-Za-z0-9_.$]*\)$/\1/p' "$1" | sort -u | while IFS= read -r class; do
        [ -n "$(find "$PPMR_HOME" -path "*/target/*-reports/TEST-$class.xml" -print -quit)" ] || printf '%s\n' "$class"
    done
}

# list_broken: prints a line for each failed test of the reports: VERDICT, MODULE, CLASS, METHOD (- for none), MESSAGE, by
# tabs. VERDICT is "late" if a system test failed by a time limit and nothing else, and "wrong" for every other failure.
# The limit of a test and of every wait of a system test ends with a TimeoutException. What a test's clean-up finds
# wrong, such as a service that crashed, is a suppressed exception of it.
list_broken() {
    reports | xargs -0r awk '
        function readable(text) {
            gsub(/&quot;/, "\"", text); gsub(/&apos;/, "\x27", text); gsub(/&lt;/, "<", text); gsub(/(&#10;[ \t]*)+/, " ", text)
            gsub(/&gt;/, ">", text); gsub(/&amp;/, "\\&", text); gsub(/\t/, " ", text)
            return substr(text, 1, 1000)
        }
        function value(key) {
            return match($0, " " key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4) : ""
        }
        function is_limit(type) { return type == "java.util.concurrent.TimeoutException" }
        FNR == 1 {
            parts = split(FILENAME, path, "/")
            system_test = path[parts - 1] == "failsafe-reports"
            module = path[parts - 3]
            inside = 0
        }
        /<testcase / { class = value("classname"); method = value("name"); sub(/[([{ ].*/, "", method) }
        /<(failure|error)[ >]/ {
            message = value("message"); type = value("type"); inside = 1
            late = system_test && is_limit(type)
            if (message == "") message = type
        }
        inside && /^[ \t]*Suppressed: / {
            sub(/^[ \t]*Suppressed: /, "")
            suppressed = $0; sub(/[: ].*/, "", suppressed)
            if (!is_limit(suppressed) && suppressed != "java.lang.InterruptedException") {
                late = 0
                message = message "; " $0
            }
        }
        inside && /^[ \t]*Caused by: / && causes < 8 {
            sub(/^[ \t]*/, ""); causes++
            message = message "; " $0
        }
        /<\/(failure|error)>/ || (inside && /<(failure|error)[^>]*\/>/) {
            printf "%s\t%s\t%s\t%s\t%s\n", late ? "late" : "wrong", module, class, method == "" ? "-" : method, readable(message)
            inside = 0; causes = 0
        }'
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
    for line in "${left_out[@]}"; do printf '  left out %s\n' "$line"; done
    for line in "${skipped[@]}"; do printf '  skipped  %s\n' "$line"; done
    for line in "${broken[@]}"; do printf '  failed   %s\n' "$line"; done
    for line in "${unstable[@]}"; do printf '  unstable %s\n' "$line"; done
}
