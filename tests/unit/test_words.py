"""Every path and module that prose names exists, and the map of the house names every room."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests import room_map
from tests.house import House

ROOT = Path(__file__).parents[2]
FLOORS = ("flows", "tasks", "schemas", "replication/src")
# History may name what is gone.
HISTORY = {"CHANGELOG.md"}
# Named before they were written.
PROMISED = {"docs/proofs/accounting.md"}
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
FILES = TRACKED or [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if ".venv" not in p.parts]
NAMES = {Path(file).name for file in FILES}

PATH = re.compile(r"(?<![\w/.*-])((?:flows|tasks|schemas|docs|tests|data|deploy|replication|src)/[\w./*-]*[\w*/])")
MODULE = re.compile(r"(?<![\w./])(?:causalveil\.)?((?:flows|tasks|schemas)(?:\.[A-Za-z_]\w*)+)")
SOURCE = re.compile(r"(?<![\w*/.-])([\w-]+\.py)\b")
LINK = re.compile(r"\]\(([^)#\s]+)")


def missing(file: str, text: str) -> list[str]:
    """What ``text`` names by path, dotted module, Python file or Markdown link, and the tree does not have."""
    found = []
    for path in PATH.findall(text):
        # A module may be named without its suffix.
        if not (any(ROOT.glob(path)) or (ROOT / f"{path}.py").exists()):
            found.append(path)
    for name in MODULE.findall(text):
        parts = name.split(".")
        known = max(n for n in range(1, len(parts) + 1) if n == 1 or _is_module(parts[:n]))
        # The rest are names in the module; two at most, a class and its method.
        if known == 1 or len(parts) - known > 2 or not _defines(parts[:known], parts[known:]):
            found.append(name)
    if file.endswith(".md"):
        found += [name for name in SOURCE.findall(text) if name not in NAMES]
        links = [link for link in LINK.findall(text) if "://" not in link]
        found += [link for link in links if not (ROOT / file).parent.joinpath(link).exists()]
    return [name for name in found if name not in PROMISED]


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _defines(module: list[str], names: list[str]) -> bool:
    path = ROOT.joinpath(*module)
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    return not names or re.search(rf"\b{names[0]}\b", source) is not None


def prose() -> list[str]:
    """Documents, and source files with their docstrings and comments."""
    return [f for f in FILES if f.endswith((".md", ".py", ".j2", ".toml", ".yaml")) and f not in HISTORY]


def test_what_is_named_exists() -> None:
    texts = {file: (ROOT / file).read_text() for file in prose() if file != "tests/unit/test_words.py"}
    found = {file: missing(file, text) for file, text in texts.items()}
    assert {file: names for file, names in found.items() if names} == {}
    assert len(texts) > 200, "every file was read"


@pytest.mark.parametrize(
    "text",
    [
        "see `tasks/rows.py`",
        "``tasks.normalise.normalise_stage``",
        "`causalveil.tasks.data.enclave.no_such_name`",
        "`docs/no-such-page.md`",
        "tests/unit/test_nothing_*.py",
        "[a page](no-such-page.md)",
        "`match_perturb.py`",
    ],
)
def test_what_does_not_exist_is_found(text: str) -> None:
    assert missing("README.md", text) != []


def test_the_map_names_every_room_as_it_names_itself() -> None:
    assert room_map.written() == room_map.rows(), "a room came, went or says otherwise: python tests/room_map.py"


def test_every_folder_of_modules_is_a_room() -> None:
    folders = {file.parent for floor in FLOORS for file in (ROOT / floor).rglob("*.py")}
    assert {folder.relative_to(ROOT).as_posix() for folder in folders} == set(room_map.rooms())
    assert all(room_map.rooms().values()), "each says in a line what it holds"


def test_the_glossary_has_each_word_once_in_order_and_names_classes_that_exist() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "GLOSSARY.md").read_text(), flags=re.MULTILINE)
    words = [word.lower() for word, _ in rows]
    assert words == sorted(set(words))
    named = {name for _, meaning in rows for name in re.findall(r"`([A-Z][a-z]\w+)`", meaning)}
    assert named
    assert named - House(ROOT).classes().keys() == set()


# A first line that begins so is no sentence.
NO_SENTENCE = (
    "What ",
    "Where ",
    "Whether ",
    "The same ",
    "By ",
    "How ",
    "Of ",
    "Who ",
    "Why ",
    "So ",
    "As far ",
    "Those ",
)


LONGEST = 90
# What a function does, in the imperative: the first word of its docstring. A new verb is added here.
VERBS = set(
    re.findall(
        r"\S+",
        """
        Accept Add Admit Allow Answer Apply Ask Begin Bound Bring Calibrate Call Cast Chain Check Choose Close
        Commit Compare Complete Compose Compute Copy Count Create Cross-fit Cut Decide Declare Delete Derive
        Describe Digest Distribute Divide Do Draft Draw Drop Emit Encode End Enter Estimate Fill Find Fit Flip
        Forecast Free Get Give Go Grant Hand Hash Have Hold Join Keep Lay Learn Leave Let Limit List Load Lock
        Look Make Map Mark Match Measure Minimise Move Name Normalise Note Offer Open Parse Plan Pool Print
        Put Raise Read Recognise Recompute Record Reduce Refuse Release Remember Remove Replace Report Reserve
        Return Round Run Say See Set Show Sign Spend Standardise Start State Step Stop Store Stream Sum
        Summarise Suppress Tag Take Tell Test Turn Use Validate Verify Void Wait Weigh Write Yield
        """,
    )
)
# The commands' own descriptions, which `--help` prints.
DESCRIPTIONS = {"options", "owner"}
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def of_functions() -> dict[str, tuple[str, str]]:
    """Return name and first line of each public function's docstring, but of properties, by file and line."""
    found = {}
    for file in FILES:
        if file.endswith(".py") and file.startswith(("flows/", "tasks/", "schemas/")):
            for node in ast.walk(ast.parse((ROOT / file).read_text())):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                    continue
                marks = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
                if not marks & {"property", "cached_property"} and (text := ast.get_docstring(node)):
                    found[f"{file}:{node.lineno}"] = (node.name, text.split("\n")[0])
    return found


def first_lines() -> dict[str, tuple[str, str]]:
    """Return name and first line of each docstring of a function or class, by file and line."""
    found = {}
    for file in FILES:
        if file.endswith(".py") and file.startswith(("flows/", "tasks/", "schemas/")):
            for node in ast.walk(ast.parse((ROOT / file).read_text())):
                if isinstance(node, Documented) and (text := ast.get_docstring(node)) is not None:
                    found[f"{file}:{node.lineno}"] = (node.name, text.split("\n")[0])
    return found


def test_docstrings_begin_with_a_sentence() -> None:
    lines = first_lines()
    assert len(lines) > 2_000
    odd = {where: line for where, (_, line) in lines.items() if line.startswith(NO_SENTENCE)}
    assert odd == {}, "begin with a verb (Return, Check, Write), of a class or a property with a noun"


def test_first_lines_of_public_docstrings_are_one_short_sentence() -> None:
    public = {where: line for where, (name, line) in first_lines().items() if not name.startswith("_")}
    assert {where: line for where, line in public.items() if len(line) > LONGEST} == {}
    assert {where: line for where, line in public.items() if not line.endswith((".", "?"))} == {}


def test_docstrings_of_public_functions_begin_with_a_verb() -> None:
    lines = of_functions()
    assert len(lines) > 1_500
    nouns = {
        where: line
        for where, (name, line) in lines.items()
        if name not in DESCRIPTIONS and line.split()[0].rstrip(",:") not in VERBS
    }
    assert nouns == {}


def test_first_lines_of_modules_are_short() -> None:
    files = [file for file in FILES if file.endswith(".py") and file.startswith(("flows/", "tasks/", "schemas/"))]
    first = {file: (ast.get_docstring(ast.parse((ROOT / file).read_text())) or "").split("\n")[0] for file in files}
    assert len(first) > 200
    assert {file: line for file, line in first.items() if len(line) > LONGEST} == {}


# Metaphors that the field has words for, and private terms that a rename retired, in what a person reads.
RETIRED = re.compile(
    r"\b(?:drown\w*|hardly|whoever|stands? out|told apart|very bytes|bent|leaning|made good)\b", re.IGNORECASE
)
# Words that templates use as names.
TAGS = re.compile(r"\{[%#].*?[%#]\}", re.DOTALL)


def test_metaphors_do_not_come_back_into_what_people_read() -> None:
    pages = [file for file in FILES if file.startswith("tasks/report/templates/") and file.endswith(".j2")]
    found = {file: RETIRED.findall(TAGS.sub("", (ROOT / file).read_text())) for file in pages}
    assert len(pages) > 15
    assert {file: words for file, words in found.items() if words} == {}


# Pronouns that stand for units, people of a trade, or nothing in particular: say which.
VAGUE = re.compile(r"\b(?:nobody|somebody|everybody|anybody|whoever|whomever)\b", re.IGNORECASE)
ROOMS = ("flows/", "tasks/", "schemas/")


def retired_words(text: str) -> list[str]:
    """Return the retired words of a text."""
    return [*VAGUE.findall(text), *RETIRED.findall(text)]


def test_documentation_and_data_have_the_words_of_the_field() -> None:
    """Each page of docs/, README, and text beside data: a contract, a study, where a table is from, what made it."""
    pages = [file for file in FILES if file.startswith("docs/") and file.endswith((".md", ".ipynb"))]
    pages += [file for file in FILES if file.startswith("data/") and file.endswith((".md", ".yaml", ".py"))]
    pages += ["README.md", "CONTRIBUTING.md", "GLOSSARY.md", "deploy/README.md"]
    found = {file: retired_words((ROOT / file).read_text()) for file in pages}
    assert len(pages) > 80
    assert {file: words for file, words in found.items() if words} == {}


# Modules whose docstrings are read outside the source: as reference pages, by `--help`, or in a console.
SHOWN = ("schemas/", "flows/cli/", "flows/api.py", "flows/plan/", "tasks/start/", "src/")


def docstrings(source: str) -> list[str]:
    """Return the docstrings of a module, and of its classes, functions and fields."""
    nodes = ast.walk(ast.parse(source))
    values = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return [one.value for one in values if isinstance(one.value, str)]


def test_docstrings_that_are_shown_have_the_words_of_the_field() -> None:
    shown = [file for file in FILES if file.endswith(".py") and file.startswith(SHOWN)]
    texts = {file: "\n".join(docstrings((ROOT / file).read_text())) for file in shown}
    assert len(shown) > 60
    assert {file: words for file, text in texts.items() if (words := retired_words(text))} == {}


def messages(source: str) -> list[tuple[int, str]]:
    """Return the texts of a Python file that are no docstrings, with their lines."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in alone
        # A name of a field or of a state, which a program reads.
        and " " in node.value
    ]


def test_messages_have_the_words_of_the_field() -> None:
    found = {}
    for file in FILES:
        if file.endswith(".py") and file.startswith(ROOMS):
            for line, text in messages((ROOT / file).read_text()):
                if VAGUE.search(text) or RETIRED.search(text):
                    found[f"{file}:{line}"] = text
        elif file.startswith("tasks/report/templates/") and VAGUE.search(TAGS.sub("", (ROOT / file).read_text())):
            found[file] = "a template"
    assert found == {}
    assert len([file for file in FILES if file.startswith(ROOMS)]) > 200


# What panel and report speak of, and which of these words stand in a textbook.
TERMS = (
    *("adjusted until X% of possible confounding is left", "possible confounding", "confounding prior"),
    *("half-width (of an interval)", "margin", "stand-in"),
)
TEXTBOOK = (
    *("AIPW", "balancing weights", "Bonferroni", "censored", "competing event", "confidence", "confounding"),
    *("consistency", "covariate", "coverage", "cumulative incidence", "delta", "differential privacy"),
    *("effect modification", "epsilon", "estimand", "forest plot", "hazard ratio", "heterogeneity"),
    *("independent censoring", "intercurrent event", "interval", "inverse probability weighting", "log-rank test"),
    *("Love plot", "matching", "negative control", "neighbours (tables)", "overlap", "p-value", "people at risk"),
    *("post-processing", "privacy loss distribution", "propensity score", "random effects", "regression adjustment"),
    *("restricted mean survival time", "sensitivity", "simultaneous interval", "standard error"),
    *("standardised difference", "survival curve", "unmeasured confounding"),
)


def test_the_glossary_defines_what_panel_and_report_speak_of() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "GLOSSARY.md").read_text(), flags=re.MULTILINE)
    meanings = dict(rows)
    assert {*TERMS, *TEXTBOOK} - meanings.keys() == set()
    assert [word for word in TEXTBOOK if not re.search(r"(?:19|20)\d\d", meanings[word])] == []


# A percent sign stands at its number, as in JAMA and DoubleML: 95%. Code in backticks may say what else is read.
APART = re.compile(r"[0-9]\s+%(?![\w%])")
CODE = re.compile(r"`[^`]*`")


def sentences_of(source: str) -> list[str]:
    """Return the texts of a Python file; what is put into one is a digit here."""
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(one.value) if isinstance(one, ast.Constant) else "0" for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def test_a_percent_sign_stands_at_its_number() -> None:
    pages = [file for file in FILES if file.endswith(".md") and file not in HISTORY]
    modules = [file for file in FILES if file.endswith(".py") and file.startswith(("flows/", "tasks/", "schemas/"))]
    texts = {file: [(ROOT / file).read_text()] for file in pages}
    texts |= {file: sentences_of((ROOT / file).read_text()) for file in modules}
    found = {file: [one for text in some for one in APART.findall(CODE.sub("", text))] for file, some in texts.items()}
    assert {file: some for file, some in found.items() if some} == {}
    assert APART.search(sentences_of('f"{100 * share:.3g} % is left"')[0])


# Authors of a work, two at least, and its year: "Bun and Steinke 2016", "Bun & Steinke (2016)".
NAME = r"[A-Z][\w’'-]+"
CITED = re.compile(rf"({NAME}(?:, {NAME})*),? (?:and|&) ({NAME}),? \(?((?:19|20)\d\d)\b")
# Who wrote several works that are cited.
SEVERAL = {"Abadie and Imbens": {"2006", "2016"}, "Hernán and Robins": {"2016", "2020"}}
SEVERAL |= {"Rosenbaum and Rubin": {"1983", "1985"}}


def test_a_work_has_one_year_and_its_authors_one_spelling() -> None:
    years: dict[str, set[str]] = {}
    for file in prose():
        for first, last, year in CITED.findall(" ".join((ROOT / file).read_text().split())):
            years.setdefault(f"{first} and {last}", set()).add(year)
    assert len(years) > 40
    assert {who: found for who, found in years.items() if len(found) > 1 and SEVERAL.get(who) != found} == {}
    plain = {who: who.encode("ascii", "ignore").decode() for who in years}
    ascii_ = {who.translate(str.maketrans("öáéü", "oaeu")) for who in years if plain[who] != who}
    assert ascii_ & years.keys() == set(), "write the name with its accents everywhere"
