"""PyTorch modules as JAX steps by torchax, through the door. See torchax_test.py. Prints a line a module and rank
count."""

import subprocess
import sys
import tempfile


def modules(torch):
    """name -> (module, shape of a row, classes): a row of integers below `classes` is text, one of floats an image."""
    nn = torch.nn

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
            self.table = nn.Embedding(20, 16)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = nn.Linear(16, 20)

        def forward(self, text):
            mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
            return self.out(self.layers(self.table(text), mask=mask, is_causal=True))

    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
            self.second, self.out = nn.Conv2d(8, 16, 3, stride=2), nn.Linear(16, 10)

        def forward(self, x):
            x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
            return self.out(nn.functional.gelu(self.second(x)).mean((2, 3)))

    return {"language": (Language(), None, 20), "images": (Images(), (3, 16, 16), 10)}


def step_of(name, ranks):
    """Data-parallel, as train_step of a user: torchax gives the loss, JAX the gradient, optax the update."""
    import jax.numpy as jnp
    import optax
    import torch
    from model_steps import trained
    from modern_steps import sequences
    from steps import labelled
    from torchax import interop

    torch.manual_seed(0)
    module, shape, classes = modules(torch)[name]

    def torch_loss(weights, x, y):
        scores = torch.func.functional_call(module, weights, x)
        return torch.nn.functional.cross_entropy(scores.reshape(-1, classes), y.reshape(-1))

    loss = interop.jax_view(torch_loss)

    def loss_of(weights, extra, x, y=None):
        x, y = (x[:, :-1], x[:, 1:]) if y is None else (x, y)
        return loss(weights, x, y), extra

    weights = {key: jnp.asarray(value.detach().numpy()) for key, value in module.named_parameters()}
    draw = labelled(4 * ranks, shape, classes) if shape else sequences(4 * ranks, 12, classes)
    return trained(ranks, weights, loss_of, optax.adamw(1e-3), draw)


def one(name, ranks):
    """In a process of its own: the number of devices is set once."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", ranks)
    import steps
    import train_cases

    import reprise.jax as rj

    step = step_of(name, ranks)
    with tempfile.TemporaryDirectory() as out:
        rj.export(step.step, *steps.arguments(step, 0), out=out, data=step.batch, steps=20)
        done = rj.verify(out, steps=20)
        is_planned = ranks == 1 or train_cases.runs_planned(name, lambda: step_of(name, ranks), ranks, out)
    print(f"jax {jax.__version__} {name} {ranks} ranks: {'equal' if done else 'NOT equal'}, {len(done.tensors)} "
          f"tensors, loss {done.loss[0]:.6g} and {done.loss[1]:.6g}{'' if is_planned else '; OTHER bits under the plan'}")
    if not done:
        print(done)
    return 0 if done and is_planned else 1


def main():
    if len(sys.argv) > 1:
        return one(sys.argv[1], int(sys.argv[2]))
    failed = 0
    for name in ("language", "images"):
        for ranks in (1, 2):
            failed += subprocess.run([sys.executable, __file__, name, str(ranks)], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
