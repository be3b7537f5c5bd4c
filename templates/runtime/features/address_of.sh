address_of() {    # address_of INTERFACE: this node's address there, by IPv6 if it has no other
    local family line
    for family in -4 -6; do
        line=$(PATH=$PATH:/usr/sbin:/sbin ip -o "$family" addr show dev "$1" scope global) || :
        if [[ $line =~ inet6?\ ([0-9a-f.:]+) ]]; then echo "${BASH_REMATCH[1]}" && return; fi
    done
    die "$(uname -n) has no interface $1 with an address"
}
