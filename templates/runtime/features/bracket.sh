bracket() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }    # as IPv6 wants before a port
