"""One process of export_horovod_test.py: DIRECTORY of the artefact, or "" for no groups. Rank 0 prints one line of JSON."""

import json
import sys

import horovod.torch as hvd
import torch
from export_torch_worker import Model, state_of


def main():
    directory = sys.argv[1]
    hvd.init()
    torch.manual_seed(0)
    model = Model()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    groups = None
    if directory:
        sys.path.insert(0, directory)
        sys.dont_write_bytecode = True
        import reprise_horovod
        groups = reprise_horovod.groups(model)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.05), groups=groups,
                                         named_parameters=model.named_parameters())
    losses = []
    for step in range(3):
        torch.manual_seed(100 * step + hvd.rank())
        loss = model(torch.randn(4, 3, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if hvd.rank() == 0:
        print("told " + json.dumps({"losses": losses, "state": state_of(model)}), flush=True)
    hvd.shutdown()


main()
