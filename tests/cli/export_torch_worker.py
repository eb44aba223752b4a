"""One rank of export_torch_test.py: CASE DIRECTORY RANK STORE. Rank 0 prints one line of JSON."""

import contextlib
import json
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    """What the test's plan is of: 64 wide, with a submodule that reads its child's parameters itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.last = nn.Linear(64, 8)
        self.side = nn.Linear(64, 8)

    def forward(self, x):
        x = self.first(x)
        x = self.attention(x, x, x, need_weights=False)[0]
        return self.last(x) + self.side(x)


def trained(model, steps=4, pauses=()):
    """The loss of each step, and what was warned of. Steps in `pauses` reduce nothing."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            torch.manual_seed(100 * step + dist.get_rank())
            with model.no_sync() if step in pauses else contextlib.nullcontext():
                loss = model(torch.randn(4, 3, 64)).square().mean()
                loss.backward()
            if step not in pauses:
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    return losses, [str(each.message) for each in caught if "reprise" in str(each.message)]


def state_of(model):
    return [each.detach().double().sum().item() for each in model.parameters()]


def ddp(case):
    import reprise_ddp
    torch.manual_seed(0)
    module = Model()
    pauses = (1,) if case == "no_sync" else ()
    if case == "default":
        model = reprise_ddp.watch(DistributedDataParallel(module))
    elif case == "unused":
        model = reprise_ddp.wrap(module, find_unused_parameters=True)
    elif case == "hook":
        launched, reduce = [], dist.all_reduce
        dist.all_reduce = lambda tensor, *rest, **named: (launched.append(tensor.numel() * 4),
                                                          reduce(tensor, *rest, **named))[1]
        model = reprise_ddp.wrap(module, hook=True)
    else:
        model = reprise_ddp.wrap(module)
    losses, warned = trained(model, 24 if case == "unused" else 5, pauses)
    told = model._get_ddp_logging_data()
    found = {"losses": losses, "warned": warned, "check": reprise_ddp.check(model), "state": state_of(module),
             "rebuilt": told.get("rebuilt_bucket_sizes")}
    if case == "hook":
        found["launched"] = launched
    return found


def fsdp2(case):
    import reprise_fsdp2
    from torch.distributed.device_mesh import init_device_mesh
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    if case == "fsdp2_wrong":
        from torch.distributed.fsdp import fully_shard
        model = Model()
        fully_shard(model.first, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = reprise_fsdp2.apply(Model(), mesh=mesh)
    losses, _ = trained(model, 3)
    return {"losses": losses, "check": reprise_fsdp2.check(model), "groups": reprise_fsdp2.groups_of(model),
            "units": reprise_fsdp2.units(Model())}


def inductor(_):
    """What Inductor's own bucketing makes of one all-reduce a gradient, in ready order."""
    import reprise_inductor
    from torch._inductor import config
    from torch._inductor.fx_passes.bucketing import bucket_all_reduce_by_mb
    from torch.fx.experimental.proxy_tensor import make_fx
    reprise_inductor.apply()
    gradients = [torch.zeros(each.shape) for each in reversed(list(Model().parameters()))]
    group = dist.group.WORLD.group_name
    ops = torch.ops._c10d_functional

    def step(*tensors):
        begun = [ops.all_reduce(each, "sum", group) for each in tensors]
        return [ops.wait_tensor(each) for each in begun]

    graph = make_fx(step, tracing_mode="fake")(*gradients)
    determinator = config.bucket_all_reduces_fx_bucket_size_determinator
    buckets = bucket_all_reduce_by_mb(graph, determinator)
    return {"takes_list": reprise_inductor.takes_list(), "option": config.bucket_all_reduces_fx,
            "buckets": [[each.meta["val"].numel() * 4 for each in bucket] for bucket in buckets]}


def sharded():
    """The model with half of each parameter on each rank, gathered where it is read, as SimpleFSDP has it."""
    from torch.distributed._functional_collectives import all_gather_tensor_autograd
    from torch.nn.utils import parametrize

    class Gathered(nn.Module):
        def forward(self, shard):
            return all_gather_tensor_autograd(shard, 0, dist.group.WORLD)

    torch.manual_seed(0)
    model = Model()
    for name in [name for name, _ in model.named_parameters()]:
        path, leaf = name.rpartition(".")[::2]
        module = model.get_submodule(path)
        shard = getattr(module, leaf).detach().chunk(2)[dist.get_rank()].clone()
        setattr(module, leaf, nn.Parameter(shard))
        parametrize.register_parametrization(module, leaf, Gathered(), unsafe=True)
    return model


def fx_buckets(_):
    """What Inductor's manual_overlap_bucketing makes of the compiled forward and backward, and how they train."""
    import reprise_fx_buckets
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing
    plans, found = reprise_fx_buckets.module_bucket_plans(Model()), {}

    def collectives(graph):
        """(word, elements of the whole) of each, in order."""
        told = [(str(node.target), node.meta["val"].numel()) for node in graph.graph.nodes
                if str(node.target).startswith("_c10d_functional.")]
        return ([("all-gather", size) for target, size in told if "all_gather_into_tensor" in target] +
                [("reduce-scatter", 2 * size) for target, size in told if "reduce_scatter_tensor" in target])

    def compiler(which):
        def compiled(graph, _):
            before = collectives(graph)
            graph = manual_overlap_bucketing(graph, plans)
            found[which] = [before, collectives(graph)]
            return graph
        return compiled

    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    found["losses"], _ = trained(torch.compile(sharded(), backend=backend), 3)
    found["plain"], _ = trained(sharded(), 3)
    return found


def names(_):
    import reprise_fx_buckets
    import reprise_horovod
    model = Model()
    found = {id(each): name for name, each in model.named_parameters()}
    return {"fx": reprise_fx_buckets.module_bucket_plans(model),
            "horovod": [[found[id(each)] for each in group] for group in reprise_horovod.groups(model)]}


def main():
    case, directory, rank, store = sys.argv[1:]
    sys.path.insert(0, directory)
    sys.dont_write_bytecode = True
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    run = {"fsdp2": fsdp2, "fsdp2_wrong": fsdp2, "inductor": inductor, "fx_buckets": fx_buckets,
           "names": names}.get(case, ddp)
    found = run(case)
    if int(rank) == 0:
        print(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
