#!/usr/bin/env bash
# Two hosts on one machine: network namespaces of their own, joined by a cable. As root.
#
#   two_hosts.sh COMMAND...   runs the command as two ranks, one on each host, by mpirun
#                             over TCP; $LINK_DOWN_AFTER seconds later the cable is cut,
#                             where that is set; a cable that carries $LINK_RATE, such as
#                             1gbit; what went through it, as the host of rank 0 counts it,
#                             to the file $LINK_COUNTS: "bytes packets", those sent, and
#                             a line of those received
#
# mpirun starts the second rank by the command that orte's plm_rsh_agent names, here one
# that enters the other namespace instead of asking for a shell over the network.
set -euo pipefail
if [[ $(id -u) != 0 ]] || ! command -v ip > /dev/null || ! command -v mpirun > /dev/null; then
  echo "skipped: two hosts need root, ip (iproute2) and mpirun (openmpi-bin)" >&2
  exit 77
fi
here=stowage-a-$$ there=stowage-b-$$
folder=$(mktemp -d)
cleanup() {
  ip netns pids "$there" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
  ip netns pids "$here" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
  ip netns del "$here" 2> /dev/null || true
  ip netns del "$there" 2> /dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

ip netns add "$here"
ip netns add "$there"
ip link add cable-a-$$ netns "$here" type veth peer name cable-b-$$ netns "$there"
ip -n "$here" addr add 10.77.0.1/24 dev cable-a-$$
ip -n "$there" addr add 10.77.0.2/24 dev cable-b-$$
for end in "$here cable-a-$$" "$there cable-b-$$"; do
  read -r name cable <<< "$end"
  ip -n "$name" link set "$cable" up
  ip -n "$name" link set lo up
  if [[ -n ${LINK_RATE-} ]]; then
    ip netns exec "$name" tc qdisc add dev "$cable" root tbf rate "$LINK_RATE" \
      burst 128kb latency 100ms
  fi
done

# What mpirun takes for ssh: HOST COMMAND...
cat > "$folder/shell" << SHELL
#!/usr/bin/env bash
shift
exec ip netns exec $there unshare --uts bash -c "hostname host-b; \$*"
SHELL
chmod +x "$folder/shell"
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' > "$folder/hosts"

ip netns exec "$here" unshare --uts bash -c 'hostname 10.77.0.1; exec "$@"' host-a \
  mpirun --allow-run-as-root --hostfile "$folder/hosts" -n 2 --map-by node \
  --mca plm_rsh_agent "$folder/shell" --mca oob_tcp_if_include 10.77.0.0/24 \
  --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 "$@" &
mpirun=$!
if [[ -n ${LINK_DOWN_AFTER-} ]]; then
  sleep "$LINK_DOWN_AFTER"
  ip -n "$here" link set cable-a-$$ down
fi
code=0
wait $mpirun || code=$?
if [[ -n ${LINK_COUNTS-} ]]; then
  for way in tx rx; do
    for what in bytes packets; do
      ip netns exec "$here" cat "/sys/class/net/cable-a-$$/statistics/${way}_$what"
    done
  done | paste -d " " - - > "$LINK_COUNTS"
fi
exit $code
