# Runs the tests and judges what came of them. Sourced by the launcher, which gives say, fail, leave_out, PPMR_HOME, the
# functions of setup.sh and report.sh, and lock_tree.
# shellcheck shell=bash
# shellcheck disable=SC2154 # the launcher and setup.sh give PPMR_HOME, jdk17, jdk25

# A gate with more unstable tests than this is red: then it is no accident of timing.
most_unstable=2
unstable_file=${PPMR_UNSTABLE_FILE:-$PPMR_HOME/build-tools/unstable.txt}
seconds_file=$PPMR_HOME/build-tools/test-seconds.txt

# run_maven JDK LOG MAVEN-ARGUMENT...: builds and tests; the whole output goes to LOG, the progress to standard output.
# Failed tests do not end it: what they mean is judged by their reports.
run_maven() {
    local jdk=$1 log=$2
    shift 2
    mkdir -p "${log%/*}"
    find "$PPMR_HOME" -maxdepth 3 -type d \( -name surefire-reports -o -name failsafe-reports \) -path '*/target/*' \
        -exec rm -rf {} +
    # Three modules at a time, where none depends on the other: most tests wait more than they compute.
    (cd "$PPMR_HOME" && JAVA_HOME=$jdk17 mvn -B -T 3 -fae verify "-Djvm=$jdk/bin/java" -Dmaven.test.failure.ignore=true \
        -Dsurefire.failIfNoSpecifiedTests=false -Dfailsafe.failIfNoSpecifiedTests=false "$@") 2>&1 |
        tee "$log" | show_progress
}

# is_known_unstable CLASS.METHOD: true if the list of unstable tests has it.
is_known_unstable() {
    [ -f "$unstable_file" ] && awk -v test="$1" '!/^#/ && $1 == test { found = 1 } END { exit !found }' "$unstable_file"
}

# judge NAME STATUS LOG RUN-AGAIN...: decides whether a run was green, by its exit status, its log and its reports; 1 if
# it was not. A system test that only was too slow is run once more, by itself: RUN-AGAIN LOG MODULE CLASS METHOD. If it
# passes then it is unstable, and the run is green. Nothing is run again when the run is red already.
judge() {
    local name=$1 status=$2 log=$3 tests failures errors skips verdict module class method message lost line
    local red=0 late=()
    shift 3
    read -r tests failures errors skips <<<"$(count_tests)"
    while IFS= read -r line; do skipped+=("$name: $line"); done < <(reports | xargs -0r cat | list_skipped)
    while IFS= read -r lost; do
        broken+=("$name: ${lost##*.}: its JVM crashed, or was killed at its deadline; see $log")
        red=1
    done < <(without_report "$log")
    while IFS=$'\t' read -r verdict module class method message; do
        if [ "$verdict" = late ] && is_known_unstable "${class##*.}.$method"; then
            verdict=wrong
            message="too slow again, and known as unstable since before (${unstable_file##*/}): $message"
        fi
        if [ "$verdict" = late ]; then
            late+=("$module"$'\t'"$class"$'\t'"$method"$'\t'"$message")
        else
            broken+=("$name: ${class##*.}.$method: $message")
            red=1
        fi
    done < <(list_broken)
    if [ "${#late[@]}" -gt "$most_unstable" ]; then red=1; fi
    for line in "${late[@]}"; do
        IFS=$'\t' read -r module class method message <<<"$line"
        if [ "$red" -ne 0 ]; then
            broken+=("$name: ${class##*.}.$method, too slow: $message")
        elif judge_again "$name" "$module" "$class" "$method" "$message" "$@"; then
            continue
        else
            red=1
        fi
    done
    local outcome=passed
    if [ "$red" -ne 0 ]; then
        outcome=FAILED
    elif [ "$status" -ne 0 ]; then
        outcome="FAILED in the build, not in a test"
        red=1
        # A program that the build calls says what is wrong in lines of its own, which the progress leaves out.
        printf '%s: the build failed; what it said beside its progress:\n' "$name"
        sed '/Reactor Summary/,$d' "$log" | grep -vE '^(\[INFO\]|\[ERROR\]|Audit done|$)' | tail -n 40 || true
    elif [ "$tests" -eq 0 ]; then
        outcome="FAILED, for no test ran"
        red=1
    fi
    summaries+=("$name: $outcome: $tests tests, $failures failed, $errors in error, $skips skipped")
    return "$red"
}

# judge_again NAME MODULE CLASS METHOD MESSAGE RUN-AGAIN...: 0 if the test passes by itself.
judge_again() {
    local name=$1 module=$2 class=$3 method=$4 message=$5 log
    log=$PPMR_HOME/target/again-${class##*.}.${method#-}.log
    shift 5
    say "${class##*.}.$method was too slow; running it once more by itself; the whole output: $log"
    if "$@" "$log" "$module" "$class" "$method"; then
        unstable+=("$name: ${class##*.}.$method: $message; passed by itself: $log. Add it to ${unstable_file##*/} and mend it")
        return 0
    fi
    broken+=("$name: ${class##*.}.$method: too slow, then failed by itself: $message; see $log")
    return 1
}

# run_again JDK GROUPS LOG MODULE CLASS METHOD: runs one system test by itself; 0 if it ran and passed.
run_again() {
    local jdk=$1 groups=$2 log=$3 module=$4 class=$5 method=$6 pattern
    pattern=$class
    [ "$method" = - ] || pattern=$class#$method
    (cd "$PPMR_HOME" && JAVA_HOME=$jdk17 mvn -B verify -pl "$module" -am "-Djvm=$jdk/bin/java" "-Dppmr.excludedGroups=$groups" \
        -Dspotless.check.skip=true -Dcheckstyle.skip=true -Dtest=NONE "-Dit.test=$pattern" \
        -Dsurefire.failIfNoSpecifiedTests=false -Dfailsafe.failIfNoSpecifiedTests=false) >"$log" 2>&1 || return 1
    grep -qE 'Tests run: [1-9][0-9]*, Failures: 0, Errors: 0' "$log"
}

# test_on NAME JDK GROUPS MAVEN-ARGUMENT...: a run of tests on one JDK, without those tagged GROUPS; 0 if it was green.
test_on() {
    local name=$1 jdk=$2 groups=$3 status=0 log
    log=$PPMR_HOME/target/test-${1// /-}.log
    shift 3
    say "tests on $name ($jdk); the whole output: $log"
    run_maven "$jdk" "$log" "-Dppmr.excludedGroups=$groups" "$@" || status=1
    judge "$name" "$status" "$log" run_again "$jdk" "$groups"
}

# system_tests [FROM]: the names of the system tests' classes in the order in which --all runs them, FROM on.
system_tests() {
    find "$PPMR_HOME/ppmr-system-tests/src/test/java" "$PPMR_HOME"/ppmr-*/src/system-test/java -name '*IT.java' -printf '%f\n' | sed 's/\.java$//' | LC_ALL=C sort |
        awk -v from="${1:-}" '$0 >= from'
}

# seconds_of CLASS...: prints how long these classes took when that was measured, and how many have no figure.
seconds_of() {
    printf '%s\n' "$@" | awk -v file="$seconds_file" '
        BEGIN { while ((getline line < file) > 0) { split(line, field, " "); if (line !~ /^#/) seconds[field[1]] = field[2] } }
        { if ($0 in seconds) sum += seconds[$0]; else unknown++ }
        END { printf "%.0f min", sum / 60; if (unknown) printf " and %d classes that were not measured", unknown }'
}

# test_everything FROM MAVEN-ARGUMENT...: all tests on JDK 17, system tests one class after the other, then the gate on
# JDK 25 in the locale C. With FROM, what came before that class of the system tests is left out.
test_everything() {
    local from=$1 failed=0 classes=() units=()
    shift
    mapfile -t classes < <(system_tests "$from")
    [ ${#classes[@]} -gt 0 ] || fail "no system test is called $from or comes after it; the last is $(system_tests | tail -n 1)"
    mapfile -t units < <(find "$PPMR_HOME" -path '*/src/test/java/*' \( -name '*Test.java' -o -name '*IT.java' \) -printf '%f\n' |
        sed 's/\.java$//' | grep -vxF -f <(system_tests))
    say "how long the parts take, added up from $seconds_file (up to three classes run at a time):"
    [ -n "$from" ] || say "  1. unit, property and module tests, all groups: $(seconds_of "${units[@]}")"
    say "  2. system tests, ${classes[0]} to ${classes[-1]}: $(seconds_of "${classes[@]}")"
    say "  3. the core without its optional parts: about 5 min"
    say "  4. the gate on JDK 25: as long as ./ppmr test"
    say "to go on after an end: ./ppmr test --all --from CLASS, with the first class of part 2 that has not ended"
    if [ -z "$from" ]; then
        test_on "JDK 17 modules" "$jdk17" none -Dppmr.testJvmTimeoutSeconds=10800 -Dppmr.skipSystemTests=true "$@" || failed=1
    fi
    local list
    printf -v list '%s,' "${classes[@]}"
    test_on "JDK 17 system tests" "$jdk17" none -Dppmr.testJvmTimeoutSeconds=21600 -Dppmr.runOrder=alphabetical \
        -pl ppmr-system-tests -am -Dtest=NONE "-Dit.test=${list%,}" "$@" || failed=1
    test_core "$@" || failed=1
    test_gate_on_25 "$@" || failed=1
    return "$failed"
}

# test_core MAVEN-ARGUMENT...: builds a copy of the tree that has no optional part, and runs the unit and architecture tests
# of the core there. The system tests are compiled.
test_core() {
    local outside part status=0 without=() log=$PPMR_HOME/target/test-core.log
    for part in $(parts); do without+=("--exclude=./$part"); done
    outside=$(mktemp -d "${TMPDIR:-/tmp}/ppmr-core.XXXXXXXX")
    # As a tree is that users may look into.
    chmod 755 "$outside"
    say "the core without its optional parts, in $outside"
    # By its default an asterisk of tar's matches folders with all below, and so a package that is called target.
    tar -C "$PPMR_HOME" --no-wildcards-match-slash --exclude=./.git --exclude=./target --exclude='./*/target' "${without[@]}" -cf - . |
        tar -C "$outside" -xf - || status=1
    # The functions above and the build look for everything in PPMR_HOME.
    local PPMR_HOME=$outside
    test_on "core alone" "$jdk17" soak -Dppmr.skipSystemTests=true -DskipITs=true "$@" || status=1
    mkdir -p "${log%/*}" && cp "$outside/target/test-core-alone.log" "$log" || status=1
    [ "$status" -ne 0 ] || rm -rf "$outside"
    return "$status"
}

# Layout and style are the same whatever JDK runs the tests, and the soaks' inputs and schedules do not depend on it.
test_gate_on_25() {
    # Without JDK 25 the run has not shown what it was asked to show.
    [ -n "$jdk25" ] || return 1
    # So it shows as well that nothing depends on the locale.
    test_on "JDK 25" "$jdk25" soak -Dppmr.locale=C -Dspotless.check.skip=true -Dcheckstyle.skip=true "$@"
}

# test_command [--all [--from CLASS] | --jdk25 | --core] MAVEN-ARGUMENT...
test_command() {
    local which=gate from='' started=$SECONDS failed=0
    case ${1:-} in
    --all)
        which=all
        shift
        case ${1:-} in
        --from)
            from=${2:?--from wants the name of a class of the system tests}
            shift 2
            ;;
        esac
        ;;
    --jdk25)
        which=25
        shift
        ;;
    --core)
        which=core
        shift
        ;;
    --*) fail "ppmr test knows no option $1: --all [--from CLASS], --jdk25, --core, then arguments for Maven" ;;
    esac
    set_up_tests "$([ "$which" = gate ] || [ "$which" = core ] && echo false || echo true)"
    load_jvm_properties
    export PPMR_HOME PPMR_CRIU=${PPMR_CRIU:-} PPMR_PROMTOOL
    lock_tree
    # What the tests start must not hold the tree's lock.
    case $which in
    gate)
        test_on "JDK 17" "$jdk17" soak "$@" 9<&- || failed=1
        leave_out "JDK 25 and the tests tagged soak (./ppmr test --all runs them)"
        ;;
    25)
        test_gate_on_25 "$@" 9<&- || failed=1
        leave_out "JDK 17 and the tests tagged soak (./ppmr test --all runs them)"
        ;;
    core)
        test_core "$@" 9<&- || failed=1
        leave_out "every other test (./ppmr test --all runs them)"
        ;;
    all) test_everything "$from" "$@" 9<&- || failed=1 ;;
    esac
    unlock_tree
    print_summary "$failed" "$((SECONDS - started))"
    return "$failed"
}
