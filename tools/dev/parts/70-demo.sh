#!/usr/bin/env bash
# ./dev demo: the main job on real data, in a folder and on a Kafka, killed twice, its result compared with an independent computation
. "$(dirname "${BASH_SOURCE[0]}")/../part.sh"
run_simple demo ./dev demo
run_simple demo-kafka ./dev demo --kafka
