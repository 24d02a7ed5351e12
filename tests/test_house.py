"""The laws of the house held against the code: who imports whom, names, lengths, docs, registry.

The tables below are the law; a change of structure changes them first. A failure lists every
place that breaks the law, as file:line.
"""

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import pypto
from pypto.ir.op import REGISTRY, Family, Op

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "pypto"
FILES = sorted(SRC.rglob("*.py"))

# Which rooms of ours a room may import, besides itself; "room.module" grants that module alone.
BASE = {"errors", "knobs"}
STAGES = {"memory", "chips", "ir", "ops", "trace", "check", "interp", "cpu", "tile", "cost"}
ALLOWED = {
    "knobs": set(),
    "errors": {"knobs"},
    "loading": set(),
    "namesake": set(),
    "memory": BASE,
    "chips": {"errors"},
    "ir": BASE,
    "ops": {"errors", "ir"},
    "trace": BASE | {"ir", "ops.control"},
    "check": BASE | {"chips", "ir"},
    "interp": BASE | {"memory", "ir", "loading"},
    "cpu": BASE | {"memory", "ir", "loading"},
    "tile": {"errors", "chips", "ir"},
    "cost": {"chips", "ir"},
    "compile": BASE | STAGES,
    "signature": BASE | {"ir", "trace.source"},
    "call": BASE | {"compile", "ir", "loading", "memory", "signature"},
    "jit": BASE | {"call", "compile", "ir", "loading", "memory", "signature"},
    "gym": {"pypto"},  # the package itself, as a user would
}
ANY = {"tools"}  # may import anything
# Public names only, no logic: the one kind of file that may import upward.
FACES = {
    "pypto", "__main__", "error", "experimental", "frontend", "operation", "platform",
    "pypto_impl", "pytest", "runtime", "testing",
}  # fmt: skip


def module_name(path: Path) -> str:
    """`src/pypto/ir/graph.py` → `ir.graph`; the package's own file → `pypto`."""
    parts = list(path.relative_to(SRC).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or "pypto"


MODULES = {module_name(path): path for path in FILES}


def room_of(name: str) -> str:
    return name.partition(".")[0]


@dataclasses.dataclass(frozen=True)
class Import:
    source: str  # the importing module, e.g. "ir.graph"
    target: str  # what it imports, e.g. "errors"; "torch" for others' packages
    ours: bool
    where: str  # file:line
    in_function: bool
    for_types: bool  # under `if TYPE_CHECKING:`
    star: bool


def target_of(node: ast.ImportFrom, path: Path, name: str) -> tuple[str, bool]:
    """The module that one name of a from-import comes from, and whether it is one of ours."""
    base = node.module or ""
    if node.level:
        package = ["pypto", *path.relative_to(SRC).parts[:-1]]
        base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
    if base != "pypto" and not base.startswith("pypto."):
        return base, False
    inner = base.removeprefix("pypto").removeprefix(".")
    deeper = f"{inner}.{name}".removeprefix(".")
    return (deeper if deeper in MODULES else inner or "pypto"), True


def imports_of(path: Path) -> list[Import]:
    found: list[Import] = []

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            in_function = True
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for_types = True
        targets: set[tuple[str, bool]] = set()
        star = False
        if isinstance(node, ast.Import):
            for alias in node.names:
                ours = alias.name.split(".")[0] == "pypto"
                targets.add((alias.name.removeprefix("pypto.") if ours else alias.name, ours))
        elif isinstance(node, ast.ImportFrom):
            targets = {target_of(node, path, alias.name) for alias in node.names}
            star = any(alias.name == "*" for alias in node.names)
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for target, ours in sorted(targets):
            flags = (in_function, for_types, star)
            found.append(Import(module_name(path), target, ours, where, *flags))
        for child in ast.iter_child_nodes(node):
            walk(child, in_function, for_types)

    walk(ast.parse(path.read_text()), False, False)
    return found


IMPORTS = [one for path in FILES for one in imports_of(path)]


def may_import(source: str, target: str) -> bool:
    room = room_of(source)
    if room in FACES or room in ANY or room_of(target) == room:
        return True
    allowed = ALLOWED[room]
    return room_of(target) in allowed or target in allowed


def cycles(edges: set[tuple[str, str]]) -> set[str]:
    """The nodes that remain when those without an edge in or out are taken away, repeatedly."""
    left = {(a, b) for a, b in edges if a != b}
    while True:
        inner = {(a, b) for a, b in left if {a, b} <= {a for a, _ in left} & {b for _, b in left}}
        if inner == left:
            return {node for edge in left for node in edge}
        left = inner


def test_every_room_has_a_place_in_the_table():
    unknown = {room_of(name) for name in MODULES} - set(ALLOWED) - FACES - ANY
    assert not unknown


def test_rooms_import_only_what_the_table_allows():
    wrong = [
        f"{one.where}: {one.source} imports {one.target}"
        for one in IMPORTS
        if one.ours and not may_import(one.source, one.target)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_of_ours_is_imported_inside_a_function_or_with_a_star():
    wrong = [one.where for one in IMPORTS if one.star or (one.ours and one.in_function)]
    assert not wrong, "\n".join(wrong)


def test_no_circle_between_rooms():
    edges = {(room_of(one.source), room_of(one.target)) for one in IMPORTS if one.ours}
    assert cycles(edges) == set()


def test_no_circle_between_modules():
    edges = {(one.source, one.target) for one in IMPORTS if one.ours and not one.for_types}
    assert cycles(edges) == set()


def test_torch_is_imported_only_by_gym_and_tools():
    wrong = [
        one.where
        for one in IMPORTS
        if room_of(one.target) == "torch" and not one.ours and not one.for_types
        if room_of(one.source) not in {"gym", "tools"}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_import_reader_sees_every_form(tmp_path, monkeypatch):
    # The laws above hold only as far as this reader sees.
    path = SRC / "ir" / "graph.py"
    text = (
        "import pypto.jit\n"
        "from pypto.ops import control\n"
        "from ..trace import run\n"
        "from . import op\n"
        "def f():\n"
        "    from pypto.errors import Loc\n"
        "if TYPE_CHECKING:\n"
        "    import torch\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    seen = [(one.target, one.ours, one.in_function, one.for_types) for one in imports_of(path)]
    assert seen == [
        ("jit", True, False, False),
        ("ops.control", True, False, False),
        ("trace.run", True, False, False),
        ("ir.op", True, False, False),
        ("errors", True, True, False),
        ("torch", False, False, True),
    ]
    assert not may_import("ir.graph", "jit")
    assert may_import("trace.run", "ops.control")
    assert not may_import("trace.run", "ops.reduce")
    assert cycles({("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("a", "a")}) == {"b", "c"}


def test_every_module_has_a_docstring():
    bare = [name for name, path in MODULES.items() if not ast.get_docstring(_tree(path))]
    assert not bare


def test_files_stay_under_600_lines_or_say_why():
    long = []
    for path in [*FILES, *sorted((ROOT / "tests").glob("*.py"))]:
        lines = path.read_text().count("\n")
        if lines > 600 and "600 lines" not in (ast.get_docstring(_tree(path)) or ""):
            long.append(f"{path.relative_to(ROOT)}: {lines} lines, and no word why")
    assert not long, "\n".join(long)


EMPTY_WORDS = re.compile(r"(^|_)(utils?|helpers?|common|misc|manager)$|_(v\d+|new|old|legacy)$")


def test_names_say_something():
    wrong = []
    for path in [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        where = path.relative_to(ROOT)
        wrong += [str(where)] if any(EMPTY_WORDS.search(p.lower()) for p in _stems(path)) else []
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and re.search(
                r"(Utils?|Helpers?|Common|Misc|Manager|V\d|Old|New|Legacy)$", node.name
            ):
                wrong.append(f"{where}:{node.lineno}: class {node.name}")
            if isinstance(node, ast.FunctionDef) and re.search(
                r"_(utils?|v\d+|new|old|legacy)$", node.name
            ):
                wrong.append(f"{where}:{node.lineno}: {node.name}")
    assert not wrong, "\n".join(wrong)


def test_switches_are_read_in_one_place():
    wrong = []
    for path in FILES:
        if path == SRC / "knobs.py":
            continue
        for node in ast.walk(_tree(path)):
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if name in {"environ", "environb", "getenv", "getenvb"}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_layout_lists_every_file():
    listed = set(re.findall(r"^\| `([\w./]+)` \|", (ROOT / "docs/layout.md").read_text(), re.M))
    kinds = {".py", ".pyi", ".typed"}
    files = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*")
        if path.is_file() and (path.suffix in kinds or path.name == "py.typed")
    }
    assert {"missing": files - listed, "gone": listed - files} == {"missing": set(), "gone": set()}


def public_names() -> list[str]:
    return sorted(getattr(pypto, "__all__", [n for n in dir(pypto) if not n.startswith("_")]))


def test_every_public_name_is_documented():
    bare = []
    for name in public_names():
        value = getattr(pypto, name)
        if not (callable(value) or isinstance(value, ModuleType)):
            continue
        text = value.__doc__ or ""
        generated = dataclasses.is_dataclass(value) and text.startswith(f"{name}(")
        inherited = not (
            inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, ModuleType)
        ) and text == (type(value).__doc__ or "")
        if not text.strip() or generated or inherited:
            bare.append(name)
    assert not bare


# Fields of an op record without a default are mandatory; these kinds of record have no NumPy
# reference of their own: the interpreter runs them, since they are regions or memory.
MANDATORY = [
    field.name
    for field in dataclasses.fields(Op)
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
]
RUN_BY_THE_INTERPRETER = {Family.CONTROL, Family.WRITE}


def holes_of(record: Op) -> list[str]:
    """What the record leaves open, by field."""
    holes = [field for field in MANDATORY if getattr(record, field) in (None, "", frozenset())]
    if record.hidden and record.family in RUN_BY_THE_INTERPRETER:
        holes = [field for field in holes if field != "reference"]
    if record.sentence[:1].islower() or not record.sentence.endswith("."):
        holes.append("sentence: a whole one, with its full stop")
    if record.result is None and not any(arg.kind in TENSOR_KINDS for arg in record.args):
        holes += [] if record.family is Family.CONTROL else ["result: there is no first tensor"]
    names = {arg.name for arg in record.args}
    named = {"writes": {record.writes} - {None}, "dynamic": record.dynamic}
    named["index_args"] = record.index_args
    holes += [f"{field}: no such argument" for field, used in named.items() if not used <= names]
    if bool(record.index_args) != bool(record.index_accept):
        holes.append("index_args and index_accept go together")
    return holes


TENSOR_KINDS = {"tensor", "operand", "element", "tensors"}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_registry_has_no_holes(name):
    assert holes_of(REGISTRY[name]) == []


def test_a_hole_in_a_record_is_found():
    record = next(op for op in REGISTRY.values() if op.family is Family.MAP)
    assert MANDATORY[:3] == ["name", "family", "sentence"]
    assert holes_of(dataclasses.replace(record, reference=None)) == ["reference"]
    assert holes_of(dataclasses.replace(record, accept=frozenset())) == ["accept"]
    assert holes_of(dataclasses.replace(record, writes="nobody")) == ["writes: no such argument"]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _stems(path: Path) -> list[str]:
    return [part.removesuffix(".py") for part in path.relative_to(ROOT).parts]
