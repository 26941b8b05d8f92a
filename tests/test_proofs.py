"""The proofs stay true of the code that they are about: each page names functions, and one digest of what they do.

A page's section *Code* names functions (methods, constants) that state a bound, with one digest of what they do.
Comments, docstrings, annotations, decorators, the texts of exceptions, the names of local variables, of private helpers
and of the functions themselves may change freely, and so may the modules that they live in.

    python tests/test_proofs.py             # follow functions that moved; say which pages to read again, and why
    python tests/test_proofs.py filters.md  # the page has been read again, and argues for the code: write its digest
"""

import ast
import functools
import hashlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import opendp_timeseries as ts
import opendp_timeseries.koga2022

ROOT = Path(__file__).parent.parent
PROOFS = ROOT / "docs" / "proofs"
PACKAGE = ROOT / "opendp_timeseries"

DIGEST = re.compile(r"^Digest: `(\w+)`$", re.MULTILINE)
MODULE = re.compile(r"^\* `([\w.]+)`: (`[\w.]+`(?:, `[\w.]+`)*)$", re.MULTILINE)
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
#: Fields that say nothing of what is computed, or differ between versions of Python.
IGNORED = {"type_comment", "type_params", "kind", "ctx", "annotation", "returns", "decorator_list"}


# --- What a function computes ---


def bound_names(node):
    """Names that functions under a node bind: parameters, variables, nested functions."""
    for function in ast.walk(node):
        if isinstance(function, ast.FunctionDef):
            for inner in ast.walk(function):
                match inner:
                    case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                        yield name
                    case ast.Name(id=name, ctx=ast.Store()):
                        yield name
                    case ast.FunctionDef(name=name) if inner is not function:
                        yield name


def canonical(node):
    """What a syntax tree computes, as plain tuples: names that may change are numbered as they appear."""
    local, numbers = set(bound_names(node)), {}

    def renamed(name):
        private = name.startswith("_") and not name.endswith("__")
        return f"${numbers.setdefault(name, len(numbers))}" if private or name in local else name

    def of(part):
        match part:
            case list():
                return tuple(map(of, part))
            case ast.Raise(exc=ast.Call(func=kind)):
                return "Raise", of(kind)
            case ast.Name(id=name) | ast.arg(arg=name):
                return renamed(name)
            case ast.Attribute(value=value, attr=name):
                return "Attribute", of(value), renamed(name) if name.startswith("_") else name
            case ast.AST():
                fields = {name: value for name, value in ast.iter_fields(part) if name not in IGNORED}
                if isinstance(part, DEFINITIONS):
                    fields["name"] = "" if part is node else renamed(part.name)
                    if ast.get_docstring(part, clean=False) is not None:
                        fields["body"] = part.body[1:]
                return type(part).__name__, *((n, of(v)) for n, v in fields.items() if v not in (None, []))
        return repr(part)

    if isinstance(node, ast.Assign | ast.AnnAssign):  # a constant: its value
        return of(node.value)
    return of(node)


def digest(things):
    """The digest of several things, in any order."""
    each = sorted(hashlib.sha256(repr(canonical(thing)).encode()).hexdigest() for thing in things)
    return hashlib.sha256("".join(each).encode()).hexdigest()[:12]


# --- Where it is ---


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


@functools.cache
def modules(root):
    """The trees of all modules of the package under a root."""
    package = root / "opendp_timeseries"
    paths = sorted(package.rglob("*.py"))
    return {".".join(p.relative_to(package).with_suffix("").parts): ast.parse(p.read_text("utf-8")) for p in paths}


@functools.cache
def find(root, module, name):
    """Return the tree of a function, method, nested function or constant; None if there is none."""
    node = modules(root).get(module)
    for part in name.split("."):
        found = [statement for statement in definitions(node) if part in defined(statement)] if node else []
        node = found[0] if len(found) == 1 else None
    return node


class Page(NamedTuple):
    """A proof and the code that it is about."""

    path: Path
    text: str
    digest: str
    code: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path):
        text = path.read_text("utf-8")
        written = DIGEST.search(text)
        code = tuple((m[1], name) for m in MODULE.finditer(text) for name in re.findall(r"`([\w.]+)`", m[2]))
        return cls(path, text, written[1] if written else "", code)


def pages(root):
    """All pages but the index."""
    return [Page.read(path) for path in sorted((root / "docs" / "proofs").glob("*.md")) if path.stem != "index"]


def followed(root, code):
    """The places of code, where what is not there any more is taken for the only function of its name elsewhere."""
    places = []
    for module, name in code:
        others = [other for other in modules(root) if find(root, other, name)]
        moved = find(root, module, name) is None and len(others) == 1
        places.append((others[0] if moved else module, name))
    return places


def problems(root):
    """Return what is wrong between the code and the proofs, as sentences."""
    wrong = []
    for page in pages(root):
        missing = [place for place in page.code if find(root, *place) is None]
        for module, name in missing:
            ((now, _),) = followed(root, [(module, name)])
            hint = f"`{now}` has one: the same?" if now != module else "name what replaces it"
            wrong.append(f"{page.path.name}: there is no `{name}` in `{module}`; {hint}")
        if not page.code:
            wrong.append(f"{page.path.name}: names no code")
        elif not missing and digest(find(root, *place) for place in page.code) != page.digest:
            wrong.append(
                f"{page.path.name}: its code changed since it was read; read it again, correct it,"
                f" then run `python tests/test_proofs.py {page.path.name}`"
            )
    return wrong


def renew(root, names):
    """Follow functions that moved as they are, and write the digests of pages that have been read again."""
    for page in pages(root):
        text, places = page.text, followed(root, page.code)
        found = [find(root, *place) for place in places]
        if page.path.name in names and places == list(page.code) and None not in found:
            text = DIGEST.sub(f"Digest: `{digest(found)}`", text)
        elif None not in found and digest(found) == page.digest:
            by_module = {module: [name for other, name in places if other == module] for module, _ in places}
            rows = [f"* `{module}`: " + ", ".join(f"`{name}`" for name in some) for module, some in by_module.items()]
            *_, last = first, *_ = list(MODULE.finditer(text))
            text = text[: first.start()] + "\n".join(rows) + text[last.end() :]
        if text != page.text:
            page.path.write_text(text, "utf-8")
    return problems(root)


def test_proofs_are_about_the_code_as_it_is():
    found = problems(ROOT)
    assert not found, "\n" + "\n".join(found)


# --- What must have a proof ---


#: OpenDP's, and what `plugin/` calls them by.
MAKERS = {
    "make_user_transformation",
    "make_user_measurement",
    "transformation",
    "count_transformation",
    "measurement_of",
}


def constructors():
    """Every function that makes a transformation or measurement of OpenDP, with its own map and function."""
    for module, tree in modules(ROOT).items():
        for outer in definitions(tree):
            calls = [node.func for node in ast.walk(outer) if isinstance(node, ast.Call)]
            called = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
            if isinstance(outer, ast.FunctionDef) and called & MAKERS and outer.name not in MAKERS:
                inner = {node.name for node in definitions(outer) if isinstance(node, ast.FunctionDef)}
                yield module, outer.name, inner & {"function", "privacy_map", "stability_map"}


def test_every_constructor_has_a_proof():
    cited = {place for page in pages(ROOT) for place in page.code}
    found = list(constructors())
    assert len(found) > 9
    for module, name, inner in found:
        parts = {(module, f"{name}.{part}") for part in inner}
        assert (module, name) in cited or (parts and parts <= cited), f"no proof cites {module}:{name}"


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

        if y < _few(x):
            raise ValueError("x is small")
        return y if y >= 0 else _most(least())
'''
CODE = "* `half`: `Halver.half`, `LIMIT`\n"


def example(root, source, digest, code=CODE):
    (root / "opendp_timeseries").mkdir(parents=True)
    (root / "docs" / "proofs").mkdir(parents=True)
    (root / "opendp_timeseries" / "half.py").write_text(source, "utf-8")
    (root / "docs" / "proofs" / "half.md").write_text(f"# Half\n\nDigest: `{digest}`\n\n{code}\n", "utf-8")
    return problems(root)


@pytest.fixture
def sound(tmp_path):
    """The digest of the good example."""
    root = tmp_path / "sound"
    example(root, GOOD, "none")
    assert renew(root, ["half.md"]) == []
    return pages(root)[0].digest


BROKEN = {
    "a number changed": ("/ 2", "/ 3"),
    "a default changed": ("def half(self, x)", "def half(self, x=1)"),
    "a line was added": ("        return y", "        y += 1\n        return y"),
    "a nested function changed": ("return 0", "return 1"),
    "a constant changed": ("= 4", "= 5"),
    "another variable is used": ("y = x / 2", "y = self / 2"),
    "another helper is used": ("_most(", "_few("),
    "another exception": ("ValueError", "TypeError"),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=BROKEN)
def test_changes_are_caught(tmp_path, sound, edit):
    assert GOOD.count(edit[0]) == 1
    (problem,) = example(tmp_path / "broken", GOOD.replace(*edit), sound)
    assert "its code changed" in problem


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (("def half", "def third"), CODE),
        (("LIMIT: int = 4", "LIMIT = 4\nLIMIT = 5"), CODE),
        (("", ""), "* `other`: `TOP`\n"),
        (("", ""), ""),
    ],
)
def test_code_that_is_not_there_is_caught(tmp_path, sound, edit, code):
    (problem,) = example(tmp_path / "broken", GOOD.replace(*edit), sound, code)
    assert re.search("there is no|names no code", problem)


HARMLESS = {
    "a comment and spaces": ("        y = x / 2  # exact", "\n        # why\n        y  =  (x / 2)"),
    "a docstring": ("Return half.", "Return the half."),
    "an annotation": ("(self, x)", "(self, x: float) -> float"),
    "the text of an exception": ("x is small", "x must be larger"),
    "a nested function's name": ("least", "none"),
    "a helper's name": ("_most", "_largest"),
    "a parameter's name": ("x", "number"),
}


@pytest.mark.parametrize("edit", HARMLESS.values(), ids=HARMLESS)
def test_harmless_changes_pass(tmp_path, sound, edit):
    assert edit[0] in GOOD
    assert example(tmp_path / "harmless", GOOD.replace(*edit), sound) == []


def test_a_function_that_moved_is_followed_and_one_that_was_renamed_is_the_same(tmp_path, sound):
    root = tmp_path / "moved"
    (problem,) = example(root, "LIMIT = 4\n", sound, "* `half`: `LIMIT`\n* `old`: `Halver.half`\n")
    assert "there is no `Halver.half` in `old`; name" in problem
    for moved in (GOOD.replace("/ 2", "/ 3"), GOOD):
        (root / "opendp_timeseries" / "new.py").write_text(moved.replace("LIMIT: int = 4", ""), "utf-8")
        for cache in (modules, find):
            cache.cache_clear()
        (problem,) = problems(root)
        assert "there is no `Halver.half` in `old`; `new` has one" in problem
        assert renew(root, []) == ([] if moved is GOOD else [problem])
    assert "* `new`: `Halver.half`\n" in pages(root)[0].text
    renamed = GOOD.replace("def half", "def third")
    assert example(tmp_path / "renamed", renamed, sound, CODE.replace("Halver.half", "Halver.third")) == []


# --- The pages themselves ---


def test_every_proof_is_in_the_index_and_every_constructor_has_one():
    index = (PROOFS / "index.md").read_text("utf-8")
    for path in PROOFS.glob("*.md"):
        assert path.name == "index.md" or re.search(rf"\({path.name}[#)]", index), f"index.md does not list {path.name}"
    for name in (*ts.__all__, *opendp_timeseries.koga2022.__all__):
        assert not name.startswith("make_") or f"`{name}`" in index, f"index.md does not say which proof {name} has"


def test_every_argument_cites_its_code():
    missing = []
    for page in pages(ROOT):
        argument = MODULE.sub("", page.text)
        for module, name in page.code:
            if not re.search(rf"`(?:\w+\.)*{name.rpartition('.')[2]}`", argument):
                missing.append(f"{page.path.name}: {module}:{name}")
    assert missing == []


def test_references_from_the_code_exist():
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"docs/proofs/\w+\.md", path.read_text("utf-8")):
            assert (ROOT / name).is_file(), f"{path.name} refers to {name}"


def anchors(page):
    """What the headings of a page are linked by."""
    headings = re.findall(r"^#{1,3} (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_exist():
    for page in [*PROOFS.glob("*.md"), ROOT / "docs" / "trust-model.md", ROOT / "docs" / "glossary.md"]:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#?([^)]*)\)", page.read_text("utf-8")):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"


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


if __name__ == "__main__":
    left = renew(ROOT, [Path(name).name for name in sys.argv[1:]])
    print("\n".join(left) or "every proof is about the code as it is")
