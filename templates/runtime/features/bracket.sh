bracket() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }    # an IPv6 address
