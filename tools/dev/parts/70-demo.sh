#!/usr/bin/env bash
# ./dev demo: the main job on real data, killed twice, its result compared with an independent computation
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
run_simple demo ./dev demo
