"""Write the pages of docs/reference/ that come from the schemas and from `--help`: python deploy/site/reference.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
SCHEMAS = {
    "study.md": ("schemas/study-v1.schema.json", "study.yaml"),
    "dataset.md": ("schemas/dataset-v1.schema.json", "dataset.yaml"),
    "release.md": ("schemas/release-v1.schema.json", "release.json"),
}
COMMAND = "python deploy/site/reference.py"


def pages() -> dict[str, str]:
    """Return each page by its name."""
    found = {name: schema_page(ROOT / source, title) for name, (source, title) in SCHEMAS.items()}
    return {**found, "commands.md": commands_page()}


def commands_page() -> str:
    """Return every command with its options, as `--help` has them."""
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from causalveil.flows.cli import main

    command = get_command(main.app)
    context = command.make_context("causalveil", [], resilient_parsing=True)
    page = str(get_docs_for_click(obj=command, ctx=context, name="causalveil", title="Commands"))
    said = str(main.__doc__).partition("\n\n")[2].replace("\n\n", "\n")
    page = page.replace("\n\n**Usage**", f"\n\n{said}\n**Usage**", 1)
    return re.sub(r"\*\*Options\*\*:\n\n(?=\n)|\* `--help`: Show this message and exit\.\n", "", page).rstrip() + "\n"


def schema_page(path: Path, title: str) -> str:
    """Return every key of a file, from its JSON Schema."""
    import jsonschema2md

    lines = jsonschema2md.Parser(examples_as_yaml=True).parse_schema(json.loads(path.read_text()))
    # Markdown nests lists by four spaces; the parser writes two.
    body = re.sub(r"(?m)^ +", lambda match: 2 * match[0], short("".join(lines).partition("\n")[2]))
    source = (
        f"Every key, generated from `{path.relative_to(ROOT)}`, by which an editor completes and checks the file. Keys "
        "that are not named are refused."
    )
    return f"# {title}\n\n{source}\n\n{body.strip()}\n"


def short(body: str) -> str:
    """Return the list of keys with the choices of a value in its own line, and anchors at definitions alone."""
    body = re.sub(r'<a id="(?!%24defs/\w+")[^"]*"></a>(: )?', "", body)
    body = re.sub(r"Refer to \*(\[)#/\$defs/(\w+\]\([^)]*\))\*\.?", r"\1\2", body)
    choices = re.compile(r"(?m)^( *)(- .*)\n\1  - \*\*(?:Any|One) of\*\*\n((?:\1    - .*\n)+)(?!\1     )")

    def joined(match: re.Match[str]) -> str:
        indent, key, several = match.groups()
        each = [re.sub(r"^- \*(\w+)\*(:?)", r"\1\2", line.strip()).strip("-. ") for line in several.splitlines()]
        return f"{indent}{key} Is {' or '.join(each)}.\n"

    return re.sub(r" Cannot contain additional properties\.| \(\[Test\]\([^)]*\)\)", "", choices.sub(joined, body))


if __name__ == "__main__":
    for page, text in pages().items():
        (FOLDER / page).write_text(text)
