# torchrun's c10d rendezvous unpickles whatever arrives at its port, and unpickling can run any
# code. This one accepts only the classes that the rendezvous itself sends.
torchrun_c10d='
import io, pickle, types
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as rendezvous
from torch.distributed.run import main

OWN = {(rendezvous.__name__, name) for name in ("_RendezvousState", "_NodeDesc")}
OWN |= {("datetime", name) for name in ("datetime", "timedelta", "timezone")}

class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in OWN:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a rendezvous")
        return super().find_class(module, name)

rendezvous.pickle = types.SimpleNamespace(
    dumps=pickle.dumps,
    loads=lambda data: Unpickler(io.BytesIO(data)).load(),
    PickleError=pickle.PickleError,
)
main()
'
