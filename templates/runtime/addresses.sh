address_by_name() {    # address_by_name NAME: the profile forms NAME from the node's
    getent ahosts "$1" >/dev/null ||
        die "$(uname -n) knows no host $1, as the site's profile calls a node; set launch.interface"
    echo "$1"
}
address_of() {    # address_of INTERFACE: this node's address; IPv6 only without IPv4
    local family line
    for family in -4 -6; do
        line=$(PATH=$PATH:/usr/sbin:/sbin ip -o "$family" addr show dev "$1" scope global) || :
        if [[ $line =~ inet6?\ ([0-9a-f.:]+) ]]; then echo "${BASH_REMATCH[1]}" && return; fi
    done
    die "$(uname -n) has no interface $1 with an address"
}
address_resolved() {    # address_resolved NAME: its first address beyond loopback
    local address
    address=$({ getent ahostsv4 "$1" || getent ahosts "$1"; } |
        awk '!/^(127\.|::1)/ && !seen++ { print $1 }') || :
    [[ -n $address ]] ||
        die "on $(uname -n), $1 leads to no address for others; set launch.interface"
    echo "$address"
}
bracket() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }    # for IPv6
