# torchrun listens on every interface; the nodes of this machine need the loopback one alone.
TORCHRUN_LOOPBACK='
import socket
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous as rendezvous
from torch.distributed.run import main

open_store = rendezvous.TCPStore

def open_on_loopback(host, port, size, is_master, *more, **options):
    if is_master:
        options["master_listen_fd"] = socket.create_server((host, port)).detach()
    return open_store(host, port, size, is_master, *more, **options)

rendezvous.TCPStore = open_on_loopback
main()
'
