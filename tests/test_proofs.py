"""The proofs stay true of the code that they are about: each page names functions, and digests their syntax.

A row of a proof's table of code names ``module:function`` (or a constant, or a method) of the package. Its digest is of
the syntax tree, without docstrings: comments and layout may change freely. After a change to such a function, read the
proof again, and correct it where it no longer argues for the code. Then ``python tests/test_proofs.py PAGE`` writes the
digests of that page.
"""

import ast
import hashlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PROOFS = ROOT / "docs" / "proofs"
PACKAGE = ROOT / "opendp_timeseries"

ROW = re.compile(r"\| `(?P<module>[\w.]+):(?P<name>[\w.]+)` \| ?(?P<digest>\w*) ?\|")
#: Fields that differ between versions of Python, or say nothing of what runs.
IGNORED = {"type_comment", "type_params", "kind", "ctx"}
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


class Row(NamedTuple):
    """A row of a proof's table of code."""

    proof: str
    module: str
    name: str
    digest: str


def canonical(node):
    """A syntax tree as plain tuples, without docstrings, positions and empty fields."""
    if isinstance(node, list):
        return tuple(map(canonical, node))
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if name not in IGNORED}
    if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return (type(node).__name__, *((n, canonical(v)) for n, v in fields.items() if v not in (None, [])))


def digest(node):
    return hashlib.sha256(repr(canonical(node)).encode()).hexdigest()[:12]


def definitions(node):
    """Every statement under a node that defines a name, but not what stands inside of functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
            if not isinstance(child, DEFINITIONS):
                yield from definitions(child)


def defined(statement):
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def find(root, module, name):
    """Return the tree of a function, method, nested function or constant; None if there is none."""
    path = root / "opendp_timeseries" / (module.replace(".", "/") + ".py")
    if not path.is_file():
        return None
    node = ast.parse(path.read_text("utf-8"))
    for part in name.split("."):
        found = [statement for statement in definitions(node) if part in defined(statement)]
        if len(found) != 1:
            return None
        node = found[0]
    return node


def proof_rows(root):
    """Return the rows of the tables of code in all proofs under a root."""
    return [
        Row(path.name, *match.group("module", "name", "digest"))
        for path in sorted((root / "docs" / "proofs").glob("*.md"))
        for match in map(ROW.fullmatch, path.read_text("utf-8").splitlines())
        if match
    ]


def problems(root):
    """Return what is wrong between the code and the proofs' tables, as sentences."""
    wrong = []
    for row in proof_rows(root):
        node = find(root, row.module, row.name)
        if node is None:
            wrong.append(f"{row.proof}: there is no {row.module}:{row.name}")
        elif digest(node) != row.digest:
            wrong.append(
                f"{row.proof}: {row.module}:{row.name} changed since the proof was read; read it again, correct it,"
                f" then run `python tests/test_proofs.py {row.proof}`"
            )
    return wrong


def test_proofs_are_about_the_code_as_it_is():
    found = problems(ROOT)
    assert not found, "\n" + "\n".join(found)


# --- What must have a proof ---


def maps_and_constructors():
    """Every constructor, and every function in one that is a map or the function of a space."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for outer in definitions(ast.parse(path.read_text("utf-8"))):
            if isinstance(outer, ast.FunctionDef):
                for inner in definitions(outer):
                    if isinstance(inner, ast.FunctionDef) and inner.name in (
                        "function",
                        "privacy_map",
                        "stability_map",
                    ):
                        yield f"{module}:{outer.name}.{inner.name}"


def test_every_map_and_function_of_a_constructor_has_a_proof():
    cited = {f"{row.module}:{row.name}" for row in proof_rows(ROOT)}
    missing = [
        place
        for place in maps_and_constructors()
        if place not in cited and place.rpartition(".")[0] not in cited  # the whole of the outer function
    ]
    assert missing == []


# --- The tester, on broken examples ---

GOOD = '''
"""A module."""

LIMIT: int = 4


class Halver:
    """A class."""

    def half(self, x):
        """Return half."""
        y = x / 2  # exact

        def least():
            return 0

        return y if y >= 0 else least()
'''
PLACES = ("half:Halver.half", "half:Halver.half.least", "half:LIMIT")


def example(tmp_path, source, table):
    (tmp_path / "opendp_timeseries").mkdir(parents=True)
    (tmp_path / "docs" / "proofs").mkdir(parents=True)
    (tmp_path / "opendp_timeseries" / "half.py").write_text(source, "utf-8")
    (tmp_path / "docs" / "proofs" / "half.md").write_text(table, "utf-8")
    return problems(tmp_path)


def table(tmp_path, places=PLACES, source=GOOD):
    example(tmp_path / "sound", source, "")
    nodes = [find(tmp_path / "sound", *place.split(":")) for place in places]
    rows = [f"| `{place}` | {digest(node)} |\n" for place, node in zip(places, nodes, strict=True)]
    return "| code | digest |\n|---|---|\n" + "".join(rows)


BROKEN = {
    "a number changed": (("/ 2", "/ 3"), "Halver.half changed since"),
    "a default changed": (("def half(self, x)", "def half(self, x=1)"), "Halver.half changed since"),
    "a line was added": (("        return y", "        y += 1\n        return y"), "Halver.half changed since"),
    "a nested function changed": (("return 0", "return 1"), "half.least changed since"),
    "a constant changed": (("= 4", "= 5"), "LIMIT changed since"),
    "the function was renamed": (("def half", "def third"), "there is no half:Halver.half"),
    "the function is there twice": (("LIMIT: int = 4", "LIMIT = 4\nLIMIT = 5"), "there is no half:LIMIT"),
}


@pytest.mark.parametrize(("edit", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_examples_are_caught(tmp_path, edit, message):
    assert edit[0] in GOOD
    assert any(message in problem for problem in example(tmp_path, GOOD.replace(*edit), table(tmp_path)))


def test_a_row_without_a_digest_is_caught(tmp_path):
    assert example(tmp_path, GOOD, "| `half:LIMIT` | |\n")
    assert example(tmp_path / "elsewhere", GOOD, "| `other:LIMIT` | 012345678901 |\n")


def test_a_good_example_passes_whatever_its_comments_docstrings_and_spaces(tmp_path):
    rows = table(tmp_path)
    assert example(tmp_path / "same", GOOD, rows) == []
    respaced = GOOD.replace("        y = x / 2  # exact", "\n        # why\n        y  =  (x / 2)")
    assert example(tmp_path / "respaced", respaced.replace("Return half.", "Return the half."), rows) == []


# --- The pages themselves ---


def test_every_proof_is_in_the_index_and_every_constructor_has_one():
    index = (PROOFS / "index.md").read_text("utf-8")
    for path in PROOFS.glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, f"index.md does not list {path.name}"
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("make_"):
                assert f"`{node.name}`" in index, f"index.md does not say which proof {node.name} has"


def test_every_argument_cites_its_code():
    missing = []
    for path in PROOFS.glob("*.md"):
        lines = path.read_text("utf-8").splitlines()
        argument = "\n".join(line for line in lines if not ROW.fullmatch(line))
        for match in filter(None, map(ROW.fullmatch, lines)):
            last = match["name"].rpartition(".")[2]
            if not re.search(rf"`(?:\w+\.)*{last}`", argument):
                missing.append(f"{path.name}: {match['module']}:{match['name']}")
    assert missing == []


def test_references_from_the_code_exist():
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"docs/proofs/\w+\.md", path.read_text("utf-8")):
            assert (ROOT / name).is_file(), f"{path.name} refers to {name}"


def test_links_between_pages_exist():
    for page in [*PROOFS.glob("*.md"), ROOT / "docs" / "trust-model.md", ROOT / "docs" / "glossary.md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# --- Facts that proofs use, by routes of their own ---


def test_discrete_noise_is_continuous_noise_rounded_at_random():
    # subsampled_gaussian.md, the lemma, with s so small that θ = 1.4 % shows, by quadrature.
    scale, s = 1.3, 0.5
    theta = 2 * sum(np.exp(-2 * np.pi**2 * k**2 * s**2) for k in range(1, 9))
    integers = np.arange(-60, 61)
    x = np.linspace(-12, 12, 24_001)
    spread = np.exp(-((integers[:, None] - x) ** 2) / (2 * s**2))
    variance = scale**2 - s**2
    density = np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    rounded = np.sum(spread / spread.sum(axis=0) * density, axis=1) * (x[1] - x[0])
    discrete = np.exp(-(integers**2) / (2 * scale**2))
    ratio = rounded[55:66] / (discrete / discrete.sum())[55:66]
    assert np.all(ratio >= 1 / (1 + theta) - 1e-9)
    assert np.all(ratio <= (1 + theta) / (1 - theta) + 1e-9)
    assert np.ptp(ratio) > theta / 100  # not the same law: the lemma says something


def sorted_on_cycle(values, size):
    """Put values on a cycle in the order 0, 1, −1, 2, −2, …, and return that order too."""
    order = [(i // 2 if i % 2 == 0 else -(i // 2)) % size for i in range(1, size + 1)]
    out = np.zeros(size)
    out[order] = np.sort(values)[::-1]
    return out, order


@pytest.mark.parametrize("series", [1, 2])
def test_contiguous_blocks_are_the_worst(series):
    # magnitude_majorant.md, with real kernels and vectors, and its panels, against random opponents.
    rng = np.random.default_rng(20)
    for trial in range(400):
        size = int(rng.integers(1, 8))
        taps = np.sort(rng.random(size // 2 + 1))[::-1]
        matrix = np.array([[taps[min((i - j) % size, (j - i) % size)] for j in range(size)] for i in range(size)])
        majorant = np.sort(rng.random(size) * (rng.random(size) < 0.7))[::-1]
        v = np.zeros(series * size)
        v[rng.permutation(series * size)[:size]] = majorant * rng.choice([-1, 1], size)
        if trial % 2:  # a mixture is majorised too
            v = v * 0.4 + 0.6 * rng.permutation(v)
        worst, order = sorted_on_cycle(majorant, size)
        image = (matrix @ worst)[order]
        assert np.all(np.diff(image) <= 1e-12)
        outputs = np.sort(np.abs((v.reshape(series, size) @ matrix).ravel()))[::-1]
        bound = np.cumsum(np.concatenate([image, np.zeros((series - 1) * size)]))
        assert np.all(np.cumsum(outputs) <= bound + 1e-12)


def test_the_block_is_not_the_worst_for_other_kernels():
    # Broken variant: were the shape of the kernel not asked for, this would be claimed.
    matrix = np.array([[[1, 0, 0.5, 0.5, 0][(i - j) % 5] for j in range(5)] for i in range(5)])
    worst, _ = sorted_on_cycle(np.array([1, 1, 0, 0, 0]), 5)
    assert max((matrix @ np.array([1, 0, 0, 1, 0])) ** 2) > max((matrix @ worst) ** 2)


def renew(pages):
    """Write the digests of pages that have been read again, and say what is left."""
    for page in pages:
        path = PROOFS / Path(page).name

        def row(match):
            node = find(ROOT, match["module"], match["name"])
            return match[0] if node is None else f"| `{match['module']}:{match['name']}` | {digest(node)} |"

        lines = (ROW.sub(row, line) if ROW.fullmatch(line) else line for line in path.read_text("utf-8").splitlines())
        path.write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(problems(ROOT)) or "every proof is about the code as it is")


if __name__ == "__main__":
    renew(sys.argv[1:])
