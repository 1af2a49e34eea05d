#!/bin/sh
# Runs the `sanitize` tests beside this script under each tool of compute-sanitizer, and prints
# one line a tool. Exit code 1 when a tool found something; its output is in sanitize-TOOL.log.
# Usage: sanitize.sh [path of the sanitize test binary]
here=$(dirname "$0")
tests=${1:-$here/sanitize}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
if ! "$sanitizer" --version >/dev/null 2>&1; then
    echo "no compute-sanitizer: looked for $sanitizer; install the CUDA toolkit or set COMPUTE_SANITIZER"
    exit 1
fi
export ROWLOOM_REQUIRE_GPU=1
# An allocation of its own for each tensor: a pool would hide overruns.
export ROWLOOM_POOL=off
status=0
for tool in memcheck racecheck initcheck synccheck; do
    log=sanitize-$tool.log
    start=$(date +%s)
    if "$sanitizer" --tool "$tool" --error-exitcode 1 "$tests" --test-threads=1 >"$log" 2>&1; then
        said=clean
    else
        said="FAILED, see $log"
        status=1
    fi
    echo "$tool: $said ($(($(date +%s) - start)) s; $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1 | sed 's/=* *//'))"
done
exit $status
