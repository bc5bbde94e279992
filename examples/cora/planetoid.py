"""Makes nodes.csv and edges.csv of Planetoid's pickles `ind.cora.*`, all in the folder given, with the standard library alone.

What the pickles hold (NumPy arrays, SciPy CSR matrices) is rebuilt by stand-ins that keep the raw bytes: no other class of a
pickle is ever made, so that the files cannot run code.
"""

import array
import collections
import pickle
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
SIZES = {"i4": "i", "i8": "q", "f4": "f", "f8": "d"}


class Dtype:
    def __init__(self, code, *_):
        self.code = code if isinstance(code, str) else code.decode()

    def __setstate__(self, state):
        pass


class Array:
    """A NumPy array: its shape and its values, row by row."""

    def __setstate__(self, state):
        _, self.shape, dtype, column_major, data = state
        data = data if isinstance(data, bytes) else data.encode("latin-1")
        assert not column_major or len(self.shape) == 1 or 1 in self.shape, "column-major"
        self.values = array.array(SIZES[dtype.code.lstrip("<=|")], data)

    def rows(self):
        width = self.shape[1]
        return [self.values[i * width:(i + 1) * width] for i in range(self.shape[0])]


class Csr:
    """A SciPy CSR matrix: which columns of each row are set."""

    def __setstate__(self, state):
        self.__dict__.update({(k if isinstance(k, str) else k.decode()): v for k, v in state.items()})

    def rows(self):
        ends = self.indptr.values
        return [sorted(self.indices.values[a:b]) for a, b in zip(ends, ends[1:])]


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        stand_ins = {
            "_reconstruct": lambda *_: Array(),
            "dtype": Dtype,
            "ndarray": Array,
            "csr_matrix": Csr,
            "_reconstructor": lambda cls, *_: cls.__new__(cls),
            "object": object,
            "defaultdict": collections.defaultdict,
            "list": list,
            "encode": lambda text, _: text.encode("latin-1"),
        }
        if name not in stand_ins:
            raise pickle.UnpicklingError(f"{module}.{name} is not expected here")
        return stand_ins[name]


def load(part):
    with open(FOLDER / f"ind.cora.{part}", "rb") as file:
        return Reader(file, encoding="latin-1").load()


def main():
    order = [int(line) for line in (FOLDER / "ind.cora.test.index").read_text().split()]
    words = load("allx").rows() + load("tx").rows()
    labels = [list(row).index(1) for row in load("ally").rows() + load("ty").rows()]
    # The last rows are the test papers in the order of test.index: put each at its own id.
    first = len(words) - len(order)
    for rows in (words, labels):
        rows[first:] = [row for _, row in sorted(zip(order, rows[first:]), key=lambda pair: pair[0])]
    train = len(load("y").rows())

    def split(i):
        return "train" if i < train else "val" if i < train + 500 else "test" if i >= first else "none"

    lines = [f"{i},{labels[i]},{split(i)},{' '.join(map(str, words[i]))}" for i in range(len(words))]
    (FOLDER / "nodes.csv").write_text("\n".join(["id,label,split,words", *lines]) + "\n")
    edges = sorted({(min(u, v), max(u, v)) for u, row in load("graph").items() for v in row if u != v})
    (FOLDER / "edges.csv").write_text("\n".join(["u,v", *(f"{u},{v}" for u, v in edges)]) + "\n")


main()
