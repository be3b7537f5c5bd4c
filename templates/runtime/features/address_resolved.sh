address_resolved() {    # address_resolved NAME: its first address that is not a loopback one
    local address
    address=$({ getent ahostsv4 "$1" || getent ahosts "$1"; } |
        awk '!/^(127\.|::1)/ && !seen++ { print $1 }') || :
    [[ -n $address ]] ||
        die "on $(uname -n), $1 leads to no address for others; set launch.interface"
    echo "$address"
}
