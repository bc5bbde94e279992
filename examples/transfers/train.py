"""Trains the two versions of `mule-risk`: which accounts will be confirmed as mules in the 45 days after a cut-off.

    cargo run --release -p sagehost-examples -- transfers target/examples/transfers
    python examples/transfers/train.py --data target/examples/transfers

Split by time and by account. Training sees the network as it was at days 45, 60, 75 and 90, and who of its accounts was
confirmed in the 45 days after each; other accounts at day 90 choose the epoch; all that training knows had happened by day
135. The test asks at day 135, with the transfers up to then only, about yet other accounts, and who is confirmed until day 180.

Writes, for version V: releases/mule-risk/V/{weights.safetensors, golden.json} and expected/V.json.
"""

import argparse
import csv
import json
import math
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn
from torch_geometric.nn import SAGEConv

HERE = Path(__file__).parent
START_S, DAY_S, HORIZON_DAYS = 1_735_689_600, 86_400, 45
TRAIN_DAYS, VALIDATION_DAY, TEST_DAY = (45, 60, 75, 90), 90, 135
FEATURES = ["age_days", "kyc_level", "country_risk", "device_count", "monthly_income"]
# What stands for a missing value: also `fill` in release.toml.
FILL = {"country_risk": 0.25, "device_count": 1.0, "monthly_income": 1800.0}
VERSIONS = {
    "1": {"seed": 1, "hidden": 32, "aggregator": "mean", "project": False, "epochs": 300},
    "2": {"seed": 2, "hidden": 24, "aggregator": "max", "project": True, "epochs": 300},
}


class Sage(nn.Module):
    """Two layers; each sums one convolution for each relation. The root term is in `received` only: one is enough."""

    def __init__(self, inputs, hidden, aggregator, project):
        super().__init__()
        self.layers = nn.ModuleList()
        for width in (inputs, hidden):
            self.layers.append(nn.ModuleDict({
                "received": SAGEConv(width, hidden, aggr=aggregator, project=project),
                "sent": SAGEConv(width, hidden, aggr=aggregator, project=project, root_weight=False),
            }))
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, edges, dropout=0.0):
        first, second = self.layers
        x = sum(conv(x, edges[relation]) for relation, conv in first.items()).relu()
        x = nn.functional.dropout(x, dropout, self.training)
        # No ReLU before the head: where it cuts all channels off, scores tie.
        return self.head(sum(conv(x, edges[relation]) for relation, conv in second.items())).squeeze(-1)


class Data:
    """The tables as tensors. Account `k` is row `k - 1`."""

    def __init__(self, folder):
        accounts = list(csv.DictReader(open(folder / "accounts.csv")))
        self.raw = np.array([[float(a[f]) if a[f] else math.nan for f in FEATURES] for a in accounts], np.float32)
        fill = np.array([FILL.get(f, math.nan) for f in FEATURES], np.float32)
        self.filled = torch.from_numpy(np.where(np.isnan(self.raw), fill, self.raw))
        assert self.filled.isfinite().all()
        rows = np.array([[float(v) for v in row] for row in list(csv.reader(open(folder / "transfers.csv")))[1:]])
        self.sender = torch.from_numpy(rows[:, 0].astype(np.int64) - 1)
        self.receiver = torch.from_numpy(rows[:, 1].astype(np.int64) - 1)
        self.time = torch.from_numpy(rows[:, 2].astype(np.int64))
        self.amount = rows[:, 3].astype(np.float32)
        labels = list(csv.DictReader(open(folder / "labels.csv")))
        self.confirmed = torch.tensor([int(row["confirmed"] or 2**40) for row in labels])
        self.split = np.array([row["split"] for row in labels])

    def edges(self, as_of):
        """What is visible at `as_of`, by relation. Messages flow from row 0 to row 1."""
        seen = self.time <= as_of
        forward = torch.stack([self.sender[seen], self.receiver[seen]])
        return {"received": forward, "sent": forward.flip(0)}

    def task(self, day, split):
        """Seeds of a cut-off and their labels: accounts not confirmed by then; 1 if confirmed within the horizon."""
        as_of = START_S + day * DAY_S
        seeds = ((self.confirmed > as_of) & torch.from_numpy(self.split == split)).nonzero().squeeze(-1)
        return as_of, seeds, (self.confirmed[seeds] <= as_of + HORIZON_DAYS * DAY_S).float()


def train(data, scaler, seed, hidden, aggregator, project, epochs):
    torch.manual_seed(seed)
    model = Sage(len(FEATURES), hidden, aggregator, project)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
    x = (data.filled - scaler["shift"]) * scaler["scale"]
    tasks = [(data.edges(as_of), seeds, y) for as_of, seeds, y in (data.task(day, "train") for day in TRAIN_DAYS)]
    as_of, held, held_y = data.task(VALIDATION_DAY, "validation")
    held_edges = data.edges(as_of)
    # Mules are rare: each counts for ten.
    loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(10.0))
    best, best_state = 0.0, None
    for epoch in range(1, epochs + 1):
        model.train()
        optimiser.zero_grad()
        loss = sum(loss_of(model(x, edges, 0.2)[seeds], y) for edges, seeds, y in tasks)
        loss.backward()
        optimiser.step()
        if epoch % 5 == 0:
            model.eval()
            with torch.no_grad():
                auc = roc_auc_score(held_y, model(x, held_edges)[held])
            if auc > best:
                best, best_state = auc, {k: v.clone() for k, v in model.state_dict().items()}
            if epoch % 50 == 0:
                print(f"  epoch {epoch}: loss {loss.item():.4f}, AUC at day {VALIDATION_DAY} {auc:.4f}")
    model.load_state_dict(best_state)
    return model.eval()


def profile_only(data, seeds, y):
    """AUC of models that see an account's own profile and nothing of whom it deals with."""
    day_seeds = [data.task(day, "train")[1:] for day in TRAIN_DAYS]
    rows, labels = torch.cat([s for s, _ in day_seeds]), torch.cat([y for _, y in day_seeds])
    scaled = (data.filled - data.filled.mean(0)) / data.filled.std(0)
    linear = LogisticRegression(class_weight="balanced").fit(scaled[rows], labels)
    trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0).fit(data.raw[rows], labels)
    return (roc_auc_score(y, linear.decision_function(scaled[seeds])),
            roc_auc_score(y, trees.predict_proba(data.raw[seeds])[:, 1]))


def golden(data, x, model, as_of, seeds):
    """Golden examples: a few seeds, the two-hop neighbourhood that their scores depend on, and their logits."""
    edges = data.edges(as_of)
    visible = (data.time <= as_of).numpy()
    sender, receiver = data.sender.numpy(), data.receiver.numpy()
    frontier, nodes, keep = set(seeds), set(seeds), np.zeros(len(visible), bool)
    for _ in range(2):
        inside = np.array(sorted(frontier))
        touching = visible & (np.isin(receiver, inside) | np.isin(sender, inside))
        keep |= touching
        frontier = set(sender[touching]) | set(receiver[touching])
        nodes |= frontier
    with torch.no_grad():
        logits = model(x, edges)
    rows = [{"key": int(n) + 1, "features": [None if math.isnan(v) else float(v) for v in data.raw[n]]} for n in sorted(nodes)]
    received = [{"src": int(sender[e]) + 1, "dst": int(receiver[e]) + 1, "time_ms": int(data.time[e]) * 1000,
                 "columns": {"amount": round(float(data.amount[e]), 2)}} for e in keep.nonzero()[0]]
    sent = [{**edge, "src": edge["dst"], "dst": edge["src"]} for edge in received]
    return {
        "format": 1,
        "graph": {"nodes": rows, "edges": {"received": received, "sent": sent}},
        "examples": [{"node": int(s) + 1, "as_of_ms": as_of * 1000, "logits": [float(logits[s])], "tolerance": 1e-4} for s in seeds],
    }


def golden_seeds(data, as_of, scores, seeds):
    """Likely and unlikely mules with small neighbourhoods, so that golden.json stays small; one with a missing value."""
    edges = data.edges(as_of)["received"]
    degree = torch.bincount(edges.flatten(), minlength=len(data.raw))
    reach = degree + torch.zeros_like(degree).scatter_add(0, edges[0], degree[edges[1]]).scatter_add(0, edges[1], degree[edges[0]])
    fit = seeds[(degree[seeds] >= 3) & (reach[seeds] < 150)]
    order = fit[scores[fit].argsort(descending=True)]
    gap = next(s for s in fit.tolist() if np.isnan(data.raw[s]).any())
    return [order[0].item(), order[1].item(), order[-1].item(), gap]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with accounts.csv, transfers.csv and labels.csv")
    parser.add_argument("--out", type=Path, default=HERE, help="where releases/ and expected/ are")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)

    data = Data(args.data)
    # Standardised on the training accounts, with missing values filled: the scaler ships with the weights.
    known = data.filled[data.split == "train"]
    scaler = {"shift": known.mean(0), "scale": 1.0 / known.std(0)}
    print("scaler: mean", [round(v, 6) for v in scaler["shift"].tolist()], "std", [round(v, 6) for v in (1 / scaler["scale"]).tolist()])
    x = (data.filled - scaler["shift"]) * scaler["scale"]
    as_of, seeds, y = data.task(TEST_DAY, "test")
    print(f"test: day {TEST_DAY}, as_of_ms {as_of * 1000}, {len(seeds)} accounts, {int(y.sum())} of them confirmed by day {TEST_DAY + HORIZON_DAYS}")
    linear, trees = profile_only(data, seeds, y)
    print(f"profile only: AUC {linear:.4f} (logistic regression), {trees:.4f} (boosted trees)")

    for version, settings in VERSIONS.items():
        print(f"version {version}: {settings}")
        model = train(data, scaler, **settings)
        with torch.no_grad():
            scores = model(x, data.edges(as_of)).sigmoid()
        auc = roc_auc_score(y, scores[seeds].double())
        print(f"version {version}: AUC {auc:.4f}")
        release = args.out / "releases" / "mule-risk" / version
        release.mkdir(parents=True, exist_ok=True)
        weights = {k: v.contiguous() for k, v in model.state_dict().items()}
        save_file({**weights, "scaler.shift": scaler["shift"], "scaler.scale": scaler["scale"]}, release / "weights.safetensors")
        chosen = golden_seeds(data, as_of, scores, seeds)
        (release / "golden.json").write_text(json.dumps(golden(data, x, model, as_of, chosen), separators=(",", ":")) + "\n")
        expected = {
            "format": 1, "model": "mule-risk", "version": version, "as_of_ms": as_of * 1000, "metric": "auc", "value": round(auc, 6),
            "nodes": (seeds + 1).tolist(), "labels": y.int().tolist(), "scores": [round(s, 6) for s in scores[seeds].tolist()],
        }
        (args.out / "expected").mkdir(exist_ok=True)
        (args.out / "expected" / f"{version}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
