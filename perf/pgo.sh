#!/usr/bin/env bash
# Makes default.pgo, the profile that `make build` optimises for: the loads that a broker of applications has, each for some seconds, from the load
# generator of the binary itself. Run it by `make pgo` on a quiet machine after the hot path has changed.
set -euo pipefail
peregrine=$1
dir=$(mktemp -d)
"$peregrine" serve --store "$dir/store" --http 127.0.0.1:10928 bindAddress=127.0.0.1 brokerIP1=127.0.0.1 listenPort=10918 \
  peregrine.namesrvListen=127.0.0.1:9878 >"$dir/log" 2>&1 &
broker=$!
trap 'kill $broker 2>/dev/null || true; wait $broker || true; rm -rf "$dir"' EXIT
until curl -sf -o /dev/null http://127.0.0.1:10928/readyz; do sleep 0.1; done

load() { # load NAME bench-arguments
  "$peregrine" bench "${@:2}" --addr 127.0.0.1:10918 --warmup 1s --duration 7s >"$dir/$1.txt" &
  local generator=$!
  sleep 2
  curl -sf -o "$dir/$1.pprof" "http://127.0.0.1:10928/debug/pprof/profile?seconds=5"
  wait $generator
  grep -h 'rate:' "$dir/$1.txt" | sed "s/^/$1 /" || true
}
load binary send --encoding binary
load json send --encoding json
load keys send --encoding binary --connections 8 --inflight 64 --keys
load batch send --encoding binary --batch 32 --inflight 4
load pull pull --encoding binary
load e2e e2e --encoding json --rate 20000
# Where the binary lay is nobody's business; the name of the same length keeps the format.
path=$(realpath "$peregrine")
go tool pprof -proto "$dir"/*.pprof 2>/dev/null | gunzip | LC_ALL=C sed "s#$path#$(printf "%-${#path}s" peregrine)#g" | gzip -n >default.pgo
ls -l default.pgo
