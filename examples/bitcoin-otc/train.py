"""Trains `trust-risk` 1: will a user be rated negatively on balance after a cut-off, from the ratings before it?

    cargo run --release -p sagehost-examples -- bitcoin-otc target/examples/bitcoin-otc
    python examples/bitcoin-otc/train.py --data target/examples/bitcoin-otc

Seeds of a cut-off: users who were rated before it and are rated after it; positive where the ratings after it sum to less than
0. Split by time: cut-offs up to June 2012 and what followed until December 2012 train, December 2012 to June 2013 chooses the
epoch; then cut-offs up to December 2012 and what followed until June 2013 train the final model for as many epochs. The test
cut-off is 1 June 2013: training knows no rating after it.

Writes releases/trust-risk/1/{weights.safetensors, golden.json} and expected/1.json.
"""

import argparse
import csv
import json
from datetime import datetime, timezone
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch import nn
from torch_geometric.nn import SAGEConv

HERE = Path(__file__).parent
SEED, HIDDEN, MAX_EPOCHS = 1, 16, 300
# The settings of the plugin `trust-weigher` in release.toml.
HALF_LIFE_DAYS, SCALE = 240.0, 10.0
CUT_OFFS = ["2011-03-01", "2011-06-01", "2011-09-01", "2011-12-01", "2012-03-01", "2012-06-01", "2012-09-01", "2012-12-01"]
VALIDATION, TEST = "2012-12-01", "2013-06-01"


def seconds(day):
    return int(datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp())


def coefficients(target, rating, age_s, nodes):
    """What the plugin `trust-weigher` gives: 0.5^(age / half-life) × rating / scale, over each destination's sum of absolutes."""
    rating = (rating.double() / SCALE).clamp(-1, 1)
    newest = torch.full((nodes,), torch.inf, dtype=torch.float64).scatter_reduce(0, target, age_s.double(), "amin")
    raw = rating * torch.exp2(-(age_s - newest[target]) / (HALF_LIFE_DAYS * 86_400))
    total = torch.zeros(nodes, dtype=torch.float64).scatter_add(0, target, raw.abs())[target]
    return torch.where(total > 0, raw / total, 0.0).float()


class WeigherConv(nn.Module):
    """SAGEConv with Σ coefficient · x for its aggregation: the linear aggregator that a plugin's coefficients make."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs)
        self.lin_r = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edges, coefficient):
        source, target = edges
        return self.lin_l(torch.zeros_like(x).index_add(0, target, x[source] * coefficient[:, None])) + self.lin_r(x)


class Sage(nn.Module):
    """Who rated the user, by trust; whom the user rated, by number (first layer) and on average (second)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.ModuleDict({"rated_by": WeigherConv(width, HIDDEN), "rates": SAGEConv(width, HIDDEN, aggr=aggr, root_weight=False)})
            for width, aggr in ((1, "sum"), (HIDDEN, "mean"))
        ])
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, graph, dropout=0.0):
        edges, coefficient, nodes = graph
        first, second = self.layers
        x = torch.ones(nodes, 1)
        x = (first["rated_by"](x, edges, coefficient) + first["rates"](x, edges.flip(0))).relu()
        x = nn.functional.dropout(x, dropout, self.training)
        # No ReLU before the head: where it cuts all channels off, scores tie.
        return self.head(second["rated_by"](x, edges, coefficient) + second["rates"](x, edges.flip(0))).squeeze(-1)


class Data:
    def __init__(self, folder):
        self.users = [int(row["user"]) for row in csv.DictReader(open(folder / "users.csv"))]
        place = {user: i for i, user in enumerate(self.users)}
        rows = [[int(v) for v in row] for row in list(csv.reader(open(folder / "ratings.csv")))[1:]]
        self.edges = torch.tensor([[place[row[0]] for row in rows], [place[row[1]] for row in rows]])
        self.rating = torch.tensor([float(row[2]) for row in rows])
        self.time = torch.tensor([row[3] for row in rows])

    def graph(self, day):
        """What is visible at a cut-off: edges from rater to ratee, the weigher's coefficients, and the number of users."""
        as_of = seconds(day)
        seen = self.time <= as_of
        edges = self.edges[:, seen]
        return edges, coefficients(edges[1], self.rating[seen], as_of - self.time[seen], len(self.users)), len(self.users)

    def sums(self, chosen):
        """Sum and number of the chosen ratings that each user received."""
        zeros, target = torch.zeros(len(self.users)), self.edges[1, chosen]
        return zeros.scatter_add(0, target, self.rating[chosen]), zeros.scatter_add(0, target, torch.ones(len(target)))

    def task(self, day, until):
        """Seeds of a cut-off and their labels, from the ratings after it and up to `until` seconds."""
        _, before = self.sums(self.time <= seconds(day))
        balance, after = self.sums((self.time > seconds(day)) & (self.time <= until))
        seeds = ((before > 0) & (after > 0)).nonzero().squeeze(-1)
        return seeds, (balance[seeds] < 0).float()


def train(data, days, until, epochs, check=None):
    """Trains on the cut-offs `days`; `check` is called with the model after every tenth epoch."""
    torch.manual_seed(SEED)
    model = Sage()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    tasks = [(data.graph(day), *data.task(day, until)) for day in days]
    loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    for epoch in range(1, epochs + 1):
        model.train()
        optimiser.zero_grad()
        loss = sum(loss_of(model(graph, 0.2)[seeds], y) for graph, seeds, y in tasks)
        loss.backward()
        optimiser.step()
        if check and epoch % 10 == 0:
            check(epoch, model.eval())
    return model.eval()


def choose_epochs(data):
    graph, (seeds, y) = data.graph(VALIDATION), data.task(VALIDATION, seconds(TEST))
    aucs = {}

    def check(epoch, model):
        with torch.no_grad():
            aucs[epoch] = roc_auc_score(y, model(graph)[seeds])

    train(data, [day for day in CUT_OFFS if day < "2012-09"], seconds(VALIDATION), MAX_EPOCHS, check)
    best = max(aucs, key=aucs.get)
    print(f"validation: AUC {aucs[best]:.4f} at epoch {best}")
    return best


def golden(model):
    """Golden examples on six made-up users: the data are other people's and are not committed."""
    day, as_of = 86_400, seconds(TEST)
    ratings = [(1, 2, 5, 400), (3, 2, -10, 30), (4, 2, 2, 10), (2, 3, 1, 20), (2, 4, 8, 90), (4, 3, -3, 5), (3, 4, 10, 700), (5, 1, 1, 1)]
    edges = torch.tensor([[a - 1 for a, *_ in ratings], [b - 1 for _, b, *_ in ratings]])
    rating = torch.tensor([float(r) for _, _, r, _ in ratings])
    age = torch.tensor([days * day for *_, days in ratings])
    with torch.no_grad():
        logits = model((edges, coefficients(edges[1], rating, age, 6), 6))
    rated_by = [{"src": a, "dst": b, "time_ms": (as_of - days * day) * 1000, "columns": {"rating": r}} for a, b, r, days in ratings]
    rated_by.sort(key=lambda edge: edge["time_ms"])
    rates = [{**edge, "src": edge["dst"], "dst": edge["src"]} for edge in rated_by]
    return {
        "format": 1,
        "graph": {"nodes": [{"key": k, "features": [1.0]} for k in range(1, 7)], "edges": {"rated-by": rated_by, "rates": rates}},
        # User 5 was never rated; user 6 has no ratings at all.
        "examples": [{"node": k, "as_of_ms": as_of * 1000, "logits": [float(logits[k - 1])], "tolerance": 1e-4} for k in (2, 3, 5, 6)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with users.csv and ratings.csv")
    parser.add_argument("--out", type=Path, default=HERE, help="where releases/ and expected/ are")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)

    data = Data(args.data)
    model = train(data, CUT_OFFS, seconds(TEST), choose_epochs(data))
    seeds, y = data.task(TEST, 2**40)
    with torch.no_grad():
        scores = model(data.graph(TEST)).sigmoid()[seeds]
    auc = roc_auc_score(y, scores.double())
    balance, number = (v[seeds] for v in data.sums(data.time <= seconds(TEST)))
    _, negative = (v[seeds] for v in data.sums((data.time <= seconds(TEST)) & (data.rating < 0)))
    print(f"test: cut-off {TEST}, {len(seeds)} users, {int(y.sum())} of them negative on balance afterwards")
    print(f"baselines: AUC {roc_auc_score(y, -balance / number):.4f} by the mean rating so far, "
          f"{roc_auc_score(y, negative / number):.4f} by the part of negative ratings, {roc_auc_score(y, -number):.4f} by few ratings")
    print(f"GraphSAGE: AUC {auc:.4f}")
    print("score quantiles:", {q: round(scores.quantile(q).item(), 3) for q in (0.5, 0.8, 0.9, 0.95, 0.98)})

    release = args.out / "releases" / "trust-risk" / "1"
    release.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, release / "weights.safetensors")
    (release / "golden.json").write_text(json.dumps(golden(model), indent=1) + "\n")
    expected = {
        "format": 1, "model": "trust-risk", "version": "1", "as_of_ms": seconds(TEST) * 1000, "metric": "auc", "value": round(auc, 6),
        "nodes": [data.users[i] for i in seeds.tolist()], "labels": y.int().tolist(), "scores": [round(s, 6) for s in scores.tolist()],
    }
    (args.out / "expected").mkdir(exist_ok=True)
    (args.out / "expected" / "1.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
