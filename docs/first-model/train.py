"""Trains a two-layer GraphSAGE on accounts.csv and payments.csv; writes weights.safetensors and golden.json."""

import csv
import json

import torch
from safetensors.torch import save_file
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import k_hop_subgraph

COLUMNS = ["age_days", "income"]
FILL = [0.0, 2000.0]  # the same as in release.toml

torch.manual_seed(1)
accounts = list(csv.DictReader(open("accounts.csv")))
place = {row["account"]: i for i, row in enumerate(accounts)}
raw = torch.tensor([[float(row[c]) if row[c] else float("nan") for c in COLUMNS] for row in accounts])
filled = torch.where(raw.isnan(), torch.tensor(FILL), raw)
label = torch.tensor([float(row["fraud"]) for row in accounts])
# Edges in order of time, from payer to payee, as in graph.toml.
payments = sorted(csv.DictReader(open("payments.csv")), key=lambda row: int(row["time"]))
edges = torch.tensor([[place[row["payer"]], place[row["payee"]]] for row in payments]).t()

# Two of three accounts train, the third tests.
test = torch.arange(len(accounts)) % 3 == 0
shift, scale = filled[~test].mean(0), 1 / filled[~test].std(0)
x = (filled - shift) * scale

model = GraphSAGE(in_channels=2, hidden_channels=16, num_layers=2, out_channels=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=(label == 0).sum() / (label == 1).sum())
for _ in range(200):
    optimizer.zero_grad()
    loss_of(model(x, edges)[~test, 0], label[~test]).backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    logits = model(x, edges)[:, 0]
wins = (logits[test & (label == 1)][:, None] > logits[test & (label == 0)][None, :]).float()
print(f"AUC of the accounts that did not train: {wins.mean():.3f}")
print(f"account 2 has the score {logits[1].sigmoid():.4f}")

save_file({**model.state_dict(), "shift": shift, "scale": scale}, "weights.safetensors")

# Golden examples: a few accounts, the riskiest among them, with everything that two layers see of them, and what the rule
# makes of each.
REVIEW, DECLINE = 0.4, 0.8  # the same as in release.toml
decide = lambda score: "decline" if score >= DECLINE else "review" if score >= REVIEW else "approve"
seeds = [0, 1, 2, int(logits.argmax())]
nodes, _, _, kept = k_hop_subgraph(seeds, 2, edges, num_nodes=len(accounts))
value = lambda number: None if number.isnan() else number.item()
golden = {
    "format": 1,
    "graph": {
        "nodes": [{"key": int(accounts[i]["account"]), "features": [value(v) for v in raw[i]]} for i in nodes.tolist()],
        "edges": {
            "paid-by": [
                {"src": int(row["payer"]), "dst": int(row["payee"]), "time_ms": int(row["time"]) * 1000,
                 "columns": {"amount": float(row["amount"])}}
                for row, keep in zip(payments, kept.tolist()) if keep
            ]
        },
    },
    "examples": [
        {"node": int(accounts[i]["account"]), "logits": [logits[i].item()], "tolerance": 1e-4,
         "decision": decide(logits[i].sigmoid().item())}
        for i in seeds
    ],
}
with open("golden.json", "w") as file:
    json.dump(golden, file)
