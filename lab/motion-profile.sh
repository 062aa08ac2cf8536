#!/usr/bin/env bash
# Times and profiles the motion kernels on a GPU: lab/motion-profile.sh [BUILD]
#
# Takes the build folder BUILD (build) as it is. Runs the benchmark's rows of motion, and then each
# launch of a read and a search under ncu, on pictures of 1080p and 2160p in 8 bits. The table has a
# column for each launch. Its rows decide what limits the launch:
#
#   issue, pipe_alu, pipe_fmaheavy   near 100 %: instructions
#   stalled_no_instruction           above 1: the code's length
#   stalled_long_scoreboard          above 5: latency of global memory; see warps_active
#   l1tex, lts, dram                 near 100 %: the bandwidth of L1, L2 or memory
#
# The clocks are left as they are, and the caches stay warm. The exit status says whether all ran.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

bench=${1:-$root/build}/bench/bench-kernels
[ -x "$bench" ] || die "no $bench: build it first"
for folder in /usr/local/cuda/bin /opt/nvidia/nsight-compute/*/; do PATH=$PATH:$folder; done
command -v ncu >/dev/null || die 'no ncu'

metrics=gpu__time_duration.sum,launch__grid_size,launch__block_size,launch__registers_per_thread
metrics+=,smsp__inst_executed.sum,sm__warps_active.avg.per_cycle_active
for pipe in alu fmaheavy lsu; do
  metrics+=,sm__inst_executed_pipe_$pipe.avg.pct_of_peak_sustained_active
done
metrics+=,smsp__issue_active.avg.pct_of_peak_sustained_active
for unit in l1tex lts dram; do metrics+=,${unit}__throughput.avg.pct_of_peak_sustained_elapsed; done
for reason in no_instruction long_scoreboard short_scoreboard wait barrier math_pipe_throttle lg_throttle \
  not_selected; do
  metrics+=,smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio
done
metrics+=,smsp__sass_inst_executed_op_local.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
metrics+=,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum

failed=0
"$bench" --filter motion || failed=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for row in '1080p u8' '2160p u8'; do
  printf '\n%s\n' "$row"
  # The first launches are those of the check. A read and a search take four launches at most.
  timeout 120 ncu --clock-control none --cache-control none --graph-profiling node --csv --print-units base \
    --kernel-name-base function --kernel-name 'regex:^(read|find_coarse|find_level)$' --launch-skip 8 \
    --launch-count 8 --metrics "$metrics" "$bench" --filter motion --match "$row" >"$work/csv" 2>"$work/errors" || failed=1
  python3 - "$work/csv" <<'END' || { failed=1; tail -n 5 "$work/csv" "$work/errors"; }
import csv, sys
lines = [line for line in open(sys.argv[1], errors="replace") if line.startswith('"')]
table, names = {}, {}
for r in csv.DictReader(lines):
    names[r["ID"]] = r["Kernel Name"].split("(")[0][-11:]
    table.setdefault(r["Metric Name"], {})[r["ID"]] = r["Metric Value"]
if not names:
    sys.exit("ncu gave no metrics")
print(f"{'':58}", *(f"{n:>11}" for n in names.values()))
for metric, of in sorted(table.items()):
    print(f"{metric[:58]:58}", *(f"{of.get(i, '-'):>11}" for i in names))
END
done
exit "$failed"
