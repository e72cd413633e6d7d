#!/usr/bin/env python3
"""Says how right predictions are: counts over the table that `unstarve lab predict --table` writes.

    bench/truth/predictions.py TABLE
"""
import csv
import math
import sys

# What an interval is made for.
COVERED = 0.9
WAITS = {"wait-per-item", "wait-per-cpu", "longest", "p99"}
# A wait that falls to a hundredth is gone: a factor of what is left says nothing of the prediction.
GONE = 0.01


def number(text):
    return float(text) if text else None


def middle(values):
    values = sorted(values)
    return values[len(values) // 2] if values else math.nan


def percent(part, whole):
    return f"{100 * part / whole:.0f} % ({part} of {whole})" if whole else "-"


def left_out(rows):
    """How many intervals cover what came if the residual is learnt from the other scenarios: the 90th percentile of what would
    have covered theirs, counted up by one. `None` where there are too few."""
    covered, of = 0, 0
    for scenario in {row["scenario"] for row in rows}:
        others = sorted(float(row["residual"]) for row in rows if row["scenario"] != scenario)
        rank = math.ceil(COVERED * (len(others) + 1))
        if rank > len(others):
            continue
        own = [float(row["residual"]) for row in rows if row["scenario"] == scenario]
        covered += sum(residual <= others[rank - 1] for residual in own)
        of += len(own)
    return percent(covered, of)


def judged(rows, of):
    """Signs, errors in points of the recorded value and factors of what a column of the table says of waits."""
    signs, points, factors = 0, [], []
    for row in rows:
        recorded, said, came = number(row["recorded"]), of(row), number(row["actual"])
        signs += (said < recorded) == (came < recorded)
        points.append(abs(said - came) / recorded * 100)
        if max(said, came) > GONE * recorded:
            factors.append(abs(math.log(max(said, 1e-9) / max(came, 1e-9))))
    near = sum(factor <= math.log(2) for factor in factors)
    return (
        f"sign {percent(signs, len(rows))}, median error {middle(points):.1f} points, "
        f"within a factor of 2 {percent(near, len(factors))}"
    )


def main():
    with open(sys.argv[1], newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    remedies, answered = {}, set()
    for row in rows:
        key = tuple(row[name] for name in ("scenario", "kernel", "seed", "finding", "victim", "remedy"))
        remedies[key] = row
        if row["predicted"]:
            answered.add(key)
    known = [row for row in rows if row["predicted"] and row["actual"]]
    waits = [row for row in known if row["metric"] in WAITS]
    price = [row for row in known if row["metric"] not in WAITS]
    covered = lambda rows: sum(number(r["low"]) <= number(r["actual"]) <= number(r["high"]) for r in rows)
    starved = [(bool(row["starves"]), bool(row["starved"])) for key, row in remedies.items() if key in answered]
    print(f"remedies answered: {percent(len(answered), len(remedies))}")
    print(f"waits, predicted: {judged(waits, lambda row: number(row['predicted']))}")
    print(f"waits, intervals that cover what came: {percent(covered(waits), len(waits))}")
    print(f"price, intervals that cover what came: {percent(covered(price), len(price))}")
    if rows and "residual" in rows[0]:
        print(f"waits, residual learnt from the other scenarios covers: {left_out(waits)}")
        print(f"price, residual learnt from the other scenarios covers: {left_out(price)}")
    print(f"somebody else starved, said and came: {percent(sum(a == b for a, b in starved), len(starved))}")
    print(f"baseline, no change: {judged(waits, lambda row: number(row['recorded']))}")
    dropped = [row for row in waits if row["dropped"]]
    print(f"baseline, without the culprits' part: {judged(dropped, lambda row: number(row['dropped']))}")


if __name__ == "__main__":
    main()
