"""What a prediction misses by, told apart, over every round and configuration.

A sample is one run of one configuration:
  total      predicted / measured - 1, the prediction from its round's recording;
  structure  the run's own recorded prices through the replayer / measured - 1: what the replayer gets wrong;
  pace       the fixed unit's time in the recording / in the run - 1: a machine that has become slower predicts low;
  price      what is left of the total: prices of units and transfers that differ beyond the pace;
  spread     the middle half of the measured steps as a share of their median: what one step more could move.
Gated is the structure; the others stand beside it. Figures pool all samples: no median hides a bad round.
"""

import statistics

RECORDED_MEAN, RECORDED_WORST, CHANGED_WORST = 0.015, 0.03, 0.05
COLUMNS = ("total", "structure", "price", "pace", "spread")


def spread_of(steps_ns):
    first, median, third = statistics.quantiles(steps_ns, n=4)
    return (third - first) / median


def sample(predicted_ns, own_ns, steps_ns, recorded_pace_ns, pace_ns):
    """`own_ns`: what the run's own trace replays to, None where it was not recorded."""
    measured = statistics.median(steps_ns)
    total = predicted_ns / measured - 1
    pace = recorded_pace_ns / pace_ns - 1
    structure = None if own_ns is None else own_ns / measured - 1
    price = (1 + total) / ((1 + (structure or 0)) * (1 + pace)) - 1
    return {"total": total, "structure": structure, "price": price, "pace": pace, "spread": spread_of(steps_ns)}


def mean_and_worst(samples, column):
    """Of absolute values; None where nothing has the column."""
    values = [abs(each[column]) for each in samples if each[column] is not None]
    return (statistics.fmean(values), max(values)) if values else None


def describe(samples):
    """"total 2.1 % mean, 4.0 % worst; structure ...", of all columns."""
    parts = []
    for column in COLUMNS:
        found = mean_and_worst(samples, column)
        if found:
            parts.append(f"{column} {100 * found[0]:.1f} % mean, {100 * found[1]:.1f} % worst")
    return "; ".join(parts)


def missed(by_configuration, recorded):
    """Sentences on the gates that are not met; `recorded` names the configuration that was recorded."""
    for name, samples in by_configuration.items():
        found = mean_and_worst(samples, "structure")
        if found is None:
            continue
        mean, worst = found
        limit = RECORDED_WORST if name == recorded else CHANGED_WORST
        if worst > limit:
            yield f"{name}: structural error {100 * worst:.1f} % worst, limit {100 * limit:.0f} %"
        if name == recorded and mean > RECORDED_MEAN:
            yield f"{name}: structural error {100 * mean:.1f} % mean, limit {100 * RECORDED_MEAN:.1f} %"


def print_table(by_configuration, say=print):
    for name, samples in by_configuration.items():
        say(f"  {name:15} {describe(samples)}")
    say(f"  {'all, pooled':15} {describe([each for samples in by_configuration.values() for each in samples])}")
