# Where a node's own name leads to its loopback address, as Debian's installer has it, gloo would
# tell the others that one: name it the interface that leads to another node.
name_interface() {
    local peer route
    peer=$(grep -vxF -m 1 -e "$node" "$attempt_dir/nodes" || :)
    if [[ -z $peer || ! $(getent ahosts "$node" || :) =~ ^(127\.|::1) ]]; then return; fi
    route=$(getent ahosts "$peer" | awk '{ print $1; exit }')
    route=$(PATH=$PATH:/usr/sbin:/sbin ip -o route get "$route") || :
    [[ $route =~ \ dev\ ([^ ]+) ]] ||
        die "the name of $node leads to a loopback address; set launch.interface"
    export GLOO_SOCKET_IFNAME=${BASH_REMATCH[1]}
    say "the name of $node leads to a loopback address, so gloo uses $GLOO_SOCKET_IFNAME"
}
