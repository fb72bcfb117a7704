#!/usr/bin/env bash
# What action.yml runs: the inputs, which arrive as variables, as options. Only OPTIONS is split
# into words; nothing that a request may hold is read as code.
set -euo pipefail

options=(--config "${BISECTORCH_CONFIG:-asv.conf.json}" -b "${BISECTORCH_BENCH:-.}")
options+=(--smallest-step "${BISECTORCH_SMALLEST_STEP:-5%}" --budget "${BISECTORCH_BUDGET:-30m}")
if [ "${BISECTORCH_REPORT_ONLY:-false}" = true ]; then
    options+=(--report-only)
fi
read -r -a more <<<"${BISECTORCH_OPTIONS:-}"
exec "${BISECTORCH:-bisectorch}" pull-request "${options[@]}" ${more[@]+"${more[@]}"}
