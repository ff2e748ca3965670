# The commands for developers. Sourced by the launcher, which gives say, fail, PPMR_HOME, built, build, run_java and
# maven_quiet, and the functions of the other scripts.
# shellcheck shell=bash

# developer_command COMMAND ARGUMENT...: "--help" among the arguments shows the help and does nothing else.
developer_command() {
    local command=$1 argument
    shift
    if [ "$command" != guest ]; then
        for argument in "$@"; do
            case $argument in
            --) break ;;
            --help | -h) developer_help "$command" "$@" ;;
            esac
        done
    fi
    case $command in
    demo)
        set_up_demo
        build ppmr-testbed
        if [ "${1:-}" = --cluster ]; then
            shift
            run_java ppmr-testbed io.ppmr.cluster.testbed.ClusterDemo "$@"
        else
            run_java ppmr-testbed io.ppmr.testbed.demo.Demo "$@"
        fi
        ;;
    bench)
        set_up_bench
        build bench
        run_java bench io.ppmr.bench.Bench "$@"
        ;;
    test)
        test_command "$@"
        ;;
    build)
        [ $# -eq 0 ] || fail "build takes no argument: '$1'"
        build
        ;;
    setup)
        case "$*" in
        '') set_up_tests false ;;
        --all) set_up_tests true ;;
        *) fail "setup: unknown argument: $*. Remedy: ./ppmr setup [--all]" ;;
        esac
        if [ ${#left_out[@]} -eq 0 ]; then say "everything is here"; fi
        ;;
    package)
        [ $# -eq 0 ] || fail "package takes no argument: '$1'"
        make_packages
        ;;
    guest)
        guest "$@"
        ;;
    format)
        [ $# -eq 0 ] || fail "format takes no argument: '$1'"
        need_build_tools
        maven_quiet spotless:apply
        ;;
    clean)
        [ $# -eq 0 ] || fail "clean takes no argument: '$1'"
        need_build_tools
        maven_quiet clean
        ;;
    esac
}

# developer_help COMMAND [ARGUMENT...]: prints the help of a command and ends. It builds and installs nothing.
developer_help() {
    local command=$1
    shift
    case $command in
    demo)
        cat <<'TEXT'
Usage: ./ppmr demo [OPTIONS]
Moves three jobs, one of them an MPI job, between nodes made on this machine.
It installs what is missing and builds first. As root.

Examples:
  ./ppmr demo
  ./ppmr demo --checkpointer criu --processes 2
  ./ppmr demo --cluster                          the nodes of a cluster, of which one is lost
TEXT
        if built ppmr-testbed; then run_java ppmr-testbed io.ppmr.testbed.demo.Demo --help; fi
        printf '\nIts options are listed once it is built: ./ppmr demo\n'
        ;;
    bench)
        cat <<'TEXT'
Usage: ./ppmr bench COMMAND [OPTIONS]
Measures a stage or whole migrations, with the limits of this machine beside.
It installs what is missing and builds first.

Examples:
  ./ppmr bench transfer --bytes 1g
  ./ppmr bench migration
TEXT
        if built bench; then run_java bench io.ppmr.bench.Bench "${@:---help}"; fi
        printf '\nIts commands are listed once it is built: ./ppmr bench --help\n'
        ;;
    test)
        cat <<'TEXT'
Usage: ./ppmr test [--all [--from CLASS] | --jdk25 | --core] [MAVEN-ARGUMENT...]
Runs the tests on JDK 17; 10 to 17 minutes on two cores.
It installs what is missing and builds first.

  --all          every test: those tagged "soak", the core alone, JDK 25
  --from CLASS   with --all, start at that class of the system tests
  --jdk25        the tests on JDK 25 only
  --core         the core without its optional parts only

Examples:
  ./ppmr test
  ./ppmr test -Dppmr.patience=4      on a busy machine: wait four times longer
TEXT
        ;;
    build)
        cat <<'TEXT'
Usage: ./ppmr build
Builds what has changed. It installs the build tools if they are missing.

Examples:
  ./ppmr build
  ./ppmr build && ./ppmr doctor
TEXT
        ;;
    setup)
        cat <<'TEXT'
Usage: ./ppmr setup [--all]
Installs what demo, test and bench need. As root.

  --all   JDK 25 and the tools of the benchmarks, too

Examples:
  ./ppmr setup
  ./ppmr setup --all
TEXT
        ;;
    package)
        cat <<'TEXT'
Usage: ./ppmr package
Builds, and makes the packages for Debian and for distributions with rpm: ppmr, and
ppmr-demo, which has what ppmr demo needs.
It installs the build tools if they are missing, and prints the files that it made.

Examples:
  ./ppmr package
  apt install ./ppmr-product/target/ppmr_*.deb
TEXT
        ;;
    guest)
        guest_usage
        exit 0
        ;;
    format)
        cat <<'TEXT'
Usage: ./ppmr format
Formats the sources as the tests require.

Examples:
  ./ppmr format
  ./ppmr format && git diff
TEXT
        ;;
    clean)
        cat <<'TEXT'
Usage: ./ppmr clean
Removes what was built. Downloads stay.

Examples:
  ./ppmr clean
  ./ppmr clean && ./ppmr build
TEXT
        ;;
    esac
    printf '\nExit codes: 0 done, 1 an error\n'
    exit 0
}

# make_packages: the packages of this commit, in both formats. SOURCE_DATE_EPOCH goes before the commit's time. The natives of
# the build have to be there, RDMA too: a package without it would be another one.
make_packages() {
    local seconds=${SOURCE_DATE_EPOCH:-} time module modules=()
    require_build_tools
    install_packages "${rdma_build_packages[@]}" || true
    [ -n "$seconds" ] || seconds=$(git -C "$PPMR_HOME" log -1 --format=%ct 2>/dev/null) ||
        fail "the time of the commit is unknown. Remedy: build in a clone of the repository, or set SOURCE_DATE_EPOCH"
    time=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ)
    lock_tree
    say "building the packages"
    # What an earlier build has left must not come into a package.
    umask 022
    for module in "$PPMR_HOME"/ppmr-*; do
        # They are not built for a package.
        case $module in */ppmr-system-tests) continue ;; esac
        rm -rf "$module"/target/{classes,lib,maven-status,native,native-test} "$module"/target/*.jar
        modules+=("$module/target/classes")
    done
    rm -rf "${PPMR_HOME:?}/ppmr-product/target/jars" "$PPMR_HOME"/ppmr-product/target/*.deb "$PPMR_HOME"/ppmr-product/target/*.rpm
    local options=(-pl ppmr-product -am -Dmaven.test.skip=true -Dspotless.check.skip=true -Dcheckstyle.skip=true
        "-Dproject.build.outputTimestamp=$time" -Dppmr.skipPackages=false
        "-Dppmr.commit=$(git -C "$PPMR_HOME" rev-parse --short=8 HEAD 2>/dev/null || true)")
    maven_quiet process-classes "${options[@]}"
    # A jar has the modes of the files in it, and resources those of the sources, which depend on who has cloned them.
    for module in "${modules[@]}"; do [ ! -d "$module" ] || chmod -R u=rwX,go=rX "$module"; done
    maven_quiet pre-integration-test -Dmaven.resources.skip=true "${options[@]}"
    unlock_tree
    [ -e "$PPMR_HOME/ppmr-transport-rdma/target/native/libdisni.so" ] ||
        leave_out "RDMA, because its headers are missing (apt-get install ${rdma_build_packages[*]}, ./ppmr clean, ./ppmr package)"
    ls "$PPMR_HOME"/ppmr-product/target/*.deb "$PPMR_HOME"/ppmr-product/target/*.rpm
}
