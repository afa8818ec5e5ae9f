"""Print pip constraints that pin each run-time dependency, of extras too, to the lowest version promised.

With names of extras, only theirs are pinned: `python .ci/lowest.py langchain`.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
tools = {"test"}  # what we work with is promised to nobody
named = sys.argv[1:]
core = [] if named else project["dependencies"]
promised = core + [line for name in named or extras if name not in tools for line in extras[name]]
for requirement in promised:
    found = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*(?:>=|==)\s*([\w.]+)", requirement)
    if found:
        print(f"{found[1]}=={found[2]}")
    elif not requirement.startswith(project["name"]):
        raise SystemExit(f"no lower bound: {requirement}")
