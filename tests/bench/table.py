# SPDX-License-Identifier: Apache-2.0
"""Tables of samples: seconds in, microseconds and ratios out."""


def percentile(values, percent):
    values = sorted(values)
    return values[(len(values) - 1) * percent // 100]


def added(samples, name, base):
    """What a row has more than another one, by their medians."""
    return percentile(samples[name], 50) - percentile(samples[base], 50)


def print_table(title, samples):
    """samples: name → seconds; the first row is what the ratios are to."""
    print(f"\n{title:52} {'min':>8} {'p10':>8} {'p50':>8} {'p99':>8} {'ratio':>7}")
    base = None
    for name, values in samples.items():
        low, p10, p50, p99 = (1e6 * percentile(values, p) for p in (0, 10, 50, 99))
        base = base or p50
        print(f"{name:52} {low:8.0f} {p10:8.0f} {p50:8.0f} {p99:8.0f} {p50 / base:7.2f}")
