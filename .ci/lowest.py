"""Print pip constraints that pin each run-time dependency, of extras too, to the lowest version promised."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
tools = {"test"}  # what we work with is promised to nobody
promised = project["dependencies"] + [line for name in extras if name not in tools for line in extras[name]]
for requirement in promised:
    found = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*(?:>=|==)\s*([\w.]+)", requirement)
    if found:
        print(f"{found[1]}=={found[2]}")
    elif not requirement.startswith(project["name"]):
        raise SystemExit(f"no lower bound: {requirement}")
