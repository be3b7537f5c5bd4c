address_by_name() {    # address_by_name NAME: as the site's profile forms it from a node's name
    getent ahosts "$1" >/dev/null ||
        die "$(uname -n) knows no host $1, as the site's profile calls a node; set launch.interface"
    echo "$1"
}
