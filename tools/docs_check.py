#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail where the documents contradict the tree.

usage: docs_check.py [root]      prints "file: [check] message" and exits 1 on any finding.

  protocol   frame kinds, flags, records and sizes of docs/protocol.md, as the headers have them
  settings   docs/settings.md has every setting with its default; no document names another
  clusters   docs/simulating.md has every field of a cluster with unit, default and meaning
  index      docs/README.md links to every document and every decision
  links      relative links lead to a file, and to a heading of it
  commands   `make X` and `tutti X` exist
  columns    at most 120, outside tables and code
  figures    tables and pictures are those of the results in bench/; performance.md stays short"""
import pathlib
import re
import subprocess
import sys

COLUMNS, WORDS, RESULT_FILES = 120, 1200, 24
# Not checked for columns: READMEs of the layers follow STYLE.md.
WIDE = ("src/",)
MISSPELT = {"TUTTI_TRANPORT"}  # an example of a misspelt one
UNUSED = {"CODEC", "CODEC_MIN", "RULES"}  # without an effect yet: pages leave them out
NO_COMMANDS = {"tutti order 1", "tutti job fingerprint"}  # a file's first line, a key
CTYPE_BYTES = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "double": 8, "char": 1}


class Findings:
    def __init__(self, root):
        self.root, self.count = root, 0

    def add(self, path, check, text):
        self.count += 1
        print(f"{path}: [{check}] {text}")


def read(root, path):
    return (root / path).read_text(encoding="utf-8")


def documents(root):
    """All Markdown files that git tracks, or does not ignore."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root,
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return sorted(path for path in listed.stdout.split() if (root / path).exists())
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.md")
                  if not str(path.relative_to(root)).startswith("build"))


# ---- the code -----------------------------------------------------------------------------------

def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def enum_values(text, prefix):
    """{name without prefix: value} of all enumerators of that prefix, counting on where unset."""
    found = {}
    for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", without_comments(text)):
        value = -1
        for item in body.split(","):
            match = re.fullmatch(r"\s*(\w+)\s*(?:=\s*(.+?))?\s*", item, flags=re.DOTALL)
            if not match:
                continue
            if match[2] is None:
                value += 1
            else:
                try:
                    value = int(eval(match[2], {"__builtins__": {}}))  # numbers, *, <<
                except (NameError, SyntaxError, TypeError):
                    continue  # computed from others
            if match[1].startswith(prefix):
                found[match[1][len(prefix):]] = value
    return found


def struct_fields(text, name, sizes=()):
    """[(offset, bytes, field)] of a struct without padding."""
    body = re.search(r"typedef struct " + name + r"\s*\{(.*?)\}", without_comments(text),
                     re.DOTALL)[1]
    fields, offset = [], 0
    for kind, names in re.findall(r"(\w+)\s+([^;]+);", body):
        for field in names.split(","):
            field, _, count = field.strip().partition("[")
            count = count.rstrip("]")
            size = CTYPE_BYTES[kind] * (1 if not count else int(dict(sizes).get(count, count)))
            fields.append((offset, size, field))
            offset += size
    return fields


# ---- protocol -----------------------------------------------------------------------------------

def section(text, title):
    match = re.search(r"^## [\d. ]*" + re.escape(title) + r"$(.*?)(?=^## |\Z)", text,
                      re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


def table_rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("|") and not line.startswith("|-")]


def compare(found, check, what, told, real):
    for name in sorted(real.keys() | told.keys()):
        if told.get(name) != real.get(name):
            found.add("docs/protocol.md", check, f"{what} {name}: the page has {told.get(name)}, "
                      f"the code {real.get(name)}")


def listed(text):
    """{name: number} of "1 TURN, 2 INVALID"."""
    return {name: int(number) for number, name in re.findall(r"\b(\d+) ([A-Z_]{3,})\b", text)}


def numbered(rows):
    return {row[1]: int(row[0]) for row in rows
            if len(row) > 1 and row[0].isdigit() and re.fullmatch(r"[A-Z_]+", row[1])}


def check_protocol(found, root):
    page = read(root, "docs/protocol.md")
    frame, notice = (read(root, path) for path in ("src/aggregate/frame.h",
                                                   "src/negotiate/notice.h"))
    claim, mesh = (read(root, path) for path in ("src/control/claim.h", "src/mesh/mesh_wire.h"))
    platform = read(root, "src/platform/platform.h")
    compare(found, "protocol", "frame kind", numbered(table_rows(section(page, "Kinds"))),
            enum_values(frame, "TT_FRAME_"))
    head = section(page, "The head of a frame")
    rows = table_rows(head)
    compare(found, "protocol", "flag", numbered(rows), enum_values(frame, "TT_FLAG_"))
    told = {row[2]: (int(row[0]), int(row[1])) for row in rows
            if row[0].isdigit() and row[1].isdigit() and re.fullmatch(r"\w+", row[2])}
    real = {field: (offset, size) for offset, size, field in struct_fields(platform, "tt_head")}
    told_head = {field: told[field] for field in real if field in told}
    compare(found, "protocol", "head field (offset, bytes)", told_head, real)
    form = listed(re.search(r"Bits of `form`:(.*?)A shape is", head, re.DOTALL)[1])
    compare(found, "protocol", "bit of form", form, {
        name: value for name, value in enum_values(claim, "CLAIM_").items()
        if name != "FIXED_BYTES"})
    check_notices(found, section(page, "Notices"), notice)
    joining = section(page, "Joining")
    compare(found, "protocol", "message of joining", numbered(table_rows(joining)), {
        name: value for name, value in enum_values(mesh, "TT_MESH_").items()
        if name in ("RECORD", "TABLE", "READY", "GO", "FAILED")})
    compare(found, "protocol", "flag of a record", listed(
        re.search(r"flags: (.*?);", joining)[1]), {
        name: value for name, value in enum_values(mesh, "TT_MESH_").items()
        if name in ("SHARES_MEMORY", "HAS_AES", "SERVES")})
    check_sizes(found, root, page)


def check_notices(found, text, notice):
    rows = table_rows(text)
    compare(found, "protocol", "notice", numbered(rows), {
        name: value for name, value in enum_values(notice, "TT_NOTICE_").items()
        if not name.endswith("_MAX")})
    flags = {row[1]: listed(row[2]) for row in rows if len(row) > 2 and row[0].isdigit()}
    real = enum_values(notice, "TT_FLAG_")
    last = {"LAST": real.pop("LAST", None)}
    compare(found, "protocol", "flag of VECTOR", flags.get("VECTOR", {}), real)
    for name in ("REQUESTS", "ANSWERS"):
        compare(found, "protocol", f"flag of {name}", flags.get(name, {}), last)
    compare(found, "protocol", "flag of HAVE", flags.get("HAVE", {}),
            enum_values(notice, "TT_HAVE_"))
    records = {row[0]: listed(row[1]) for row in rows if row[0] in ("REQUESTS", "ANSWERS")}
    compare(found, "protocol", "request", records.get("REQUESTS", {}),
            enum_values(notice, "TT_REQUEST_"))
    compare(found, "protocol", "answer", records.get("ANSWERS", {}),
            enum_values(notice, "TT_ANSWER_"))


def check_sizes(found, root, page):
    """A sentence of the page, and the number that the code has for it."""
    def constant(path, name):
        text = without_comments(read(root, path))
        match = re.search(r"\b" + name + r"\b(?:\s*=\s*|\s+)([\d *<()U]+)", text)
        return int(eval(match[1].replace("U", ""), {"__builtins__": {}}))  # numbers, *, <<
    wanted = [
        (r"head of (\d+) bytes and up to 1 MiB", sum(size for _, size, _ in struct_fields(
            read(root, "src/platform/platform.h"), "tt_head"))),
        (r"A claim\s+has (\d+) bytes", claim_bytes(root)),
        (r"\| RECORD \| rank, rank 0 \| (\d+) bytes",
         constant("src/mesh/mesh_wire.h", "TT_MESH_RECORD_BYTES")),
        (r"printable ASCII, up to (\d+) bytes",
         constant("src/mesh/mesh_wire.h", "TT_MESH_TEXT_BYTES")),
        (r"more than (\d+) bytes of payload", constant("src/control/control.h", "TT_ERROR_BYTES")),
        (r"has\s+at most (\d+) KiB", constant(
            "src/negotiate/negotiate.h", "TT_NOTICE_BYTES_MAX") // 1024),
        (r"has at most (\d+) bytes \(groups", constant(
            "src/negotiate/negotiate.h", "TT_TICKET_CLAIM_BYTES_MAX")),
        (r"has credit: (\d+) frames", constant("src/aggregate/flow.h", "TT_CREDIT_FRAMES")),
        (r"QUEUED \| (\d+) earlier ops", constant("src/control/space/space.h", "OPS_AHEAD_MAX")),
        (r"counted per peer \((\d+) each\)", constant(
            "src/control/control_internal.h", "EARLY_VERDICTS_MAX")),
        (r"`TT_PROTOCOL_VERSION_MAX`, now\s+(\d+)", constant(
            "src/transport/secure/hello.h", "TT_PROTOCOL_VERSION_MAX")),
    ]
    for pattern, real in wanted:
        match = re.search(pattern, page)
        if match is None:
            found.add("docs/protocol.md", "protocol", f"no sentence '{pattern}' any more: it said "
                      f"{real}")
        elif int(match[1]) != real:
            words = " ".join(match[0].split())
            found.add("docs/protocol.md", "protocol", f"'{words}': the code has {real}")
    security = read(root, "docs/security-protocol.md")
    for name, pattern in (("OPENING", r"opening (\d+) \(clear\)"),
                          ("ANSWER", r"answer (\d+) \(clear\)")):
        real = constant("src/transport/secure/hello.h", f"TT_HELLO_{name}_BYTES")
        match = re.search(pattern, security)
        if match is None or int(match[1]) != real:
            found.add("docs/security-protocol.md", "protocol", f"'{pattern}': the code has {real}")


def claim_bytes(root):
    fields = struct_fields(read(root, "src/control/claim.h"), "tt_claim",
                           {"TT_SHAPE_BYTES": 32, "TT_NAME_BYTES": 256}.items())
    return next(offset for offset, _, field in fields if field == "name")


# ---- settings -----------------------------------------------------------------------------------

def config_entries(text):
    return {match[1]: match[2] for match in re.finditer(
        r'\{\.name = "(\w+)".*?\.fallback = "([^"]*)"', text, re.DOTALL)}


def check_settings(found, root, paths):
    settings = config_entries(read(root, "src/api/settings.c"))
    variables = config_entries(read(root, "src/launch/variables.c"))
    page = read(root, "docs/settings.md")
    told = {row[0].strip("`"): row[1] for row in table_rows(page) if row[0].startswith("`")}
    for name, fallback in {**settings, **variables}.items():
        if name in told and told[name] != fallback:
            found.add("docs/settings.md", "settings", f"the default of {name} is '{fallback}', "
                      f"not '{told[name]}'")
        elif name not in told and f"TUTTI_{name}" not in page and name not in UNUSED:
            found.add("docs/settings.md", "settings", f"TUTTI_{name} is missing")
    known = {f"TUTTI_{name}" for name in {**settings, **variables}} | MISSPELT
    for name in told.keys() - settings.keys() - variables.keys() - {""}:
        if name != "TUTTI_":
            found.add("docs/settings.md", "settings", f"no setting is called {name}")
    headers = "".join(path.read_text(encoding="utf-8") for path in (root / "include").rglob("*.h"))
    builds = read(root, "CMakeLists.txt") + "".join(
        path.read_text(encoding="utf-8") for path in (root / "cmake").iterdir())
    known |= set(re.findall(r"\bTUTTI_[A-Z0-9_]+", headers + builds))
    for path in paths:
        for name in sorted(set(re.findall(r"\bTUTTI_[A-Z0-9_]*[A-Z0-9]\b", read(root, path)))):
            if name not in known:
                found.add(path, "settings", f"{name} is no setting and in no header")


# ---- clusters -----------------------------------------------------------------------------------

def cluster_fields(root):
    """{name: [unit, default, meaning]} of all fields of a cluster."""
    text = without_comments(read(root, "src/sim/cluster_fields.c"))
    table = re.sub(r'"\s*\n\s*"', "", text[text.index("fields[] = {"):text.index("\n};")])
    fields = {}
    for body in re.findall(r"\{(\.name = .*?)\}", table, re.DOTALL):
        texts = dict(re.findall(r'\.(\w+) = "([^"]*)"', body))
        numbers = dict(re.findall(r"\.(\w+) = ([\d.e]+),", body))
        default = "none" if ".words" in body else numbers.get("fallback", "0")
        meaning = texts["help"] + (f"; 0: {texts['zero']}" if "zero" in texts else "")
        fields[texts["name"]] = [texts["unit"], default, meaning]
    return fields


def check_clusters(found, root, _):
    fields = cluster_fields(root)
    rows = table_rows(section(read(root, "docs/simulating.md"), "Fields"))
    told = {row[0].strip("`"): row[1:] for row in rows if row[0].startswith("`")}
    for name, real in fields.items():
        if told.get(name) != real:
            found.add("docs/simulating.md", "clusters", f"{name}: the row is to be | `{name}` | "
                      + " | ".join(real) + " |")
    for name in told.keys() - fields.keys():
        found.add("docs/simulating.md", "clusters", f"no field is called {name}")


# ---- index, links, commands, columns ------------------------------------------------------------

def heading_anchor(text):
    text = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", lambda match: match[1] or "", text.strip())
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def prose(text):
    """(number, line) outside fenced code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def links(text):
    plain = "\n".join(line for _, line in prose(text))
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "``", plain))


def check_index(found, root, paths):
    index = set()
    for target in links(read(root, "docs/README.md")):
        index.add((root / "docs" / target.partition("#")[0]).resolve())
    for path in paths:
        is_listed = (root / path).resolve() in index
        # pages of the lab are in its own README
        if path.startswith("docs/") and not path.startswith("docs/lab/") and not is_listed:
            if path != "docs/README.md":
                found.add("docs/README.md", "index", f"{path} is not in it")
    lab = {(root / "docs/lab" / target.partition("#")[0]).resolve()
           for target in links(read(root, "docs/lab/README.md"))}
    for path in paths:
        if path.startswith("docs/lab/") and (root / path).resolve() not in lab:
            if path != "docs/lab/README.md":
                found.add("docs/lab/README.md", "index", f"{path} is not in it")


def check_links(found, root, paths):
    anchors = {}
    for path in paths:
        for target in links(read(root, path)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (root / path).parent / name if name else root / path
            if not file.exists():
                found.add(path, "links", f"{target} leads nowhere")
            elif anchor and file.suffix == ".md":
                if file not in anchors:
                    anchors[file] = {heading_anchor(line.lstrip("#")) for _, line in
                                     prose(file.read_text(encoding="utf-8"))
                                     if line.startswith("#")}
                if anchor not in anchors[file]:
                    found.add(path, "links", f"{target}: no such heading")


def check_commands(found, root, paths):
    targets = set(re.findall(r"^([a-z-]+):", read(root, "Makefile"), re.MULTILINE))
    commands = set(re.findall(r"&tt_command_(\w+)", read(root, "cli/commands.c"))) | {"help"}
    for path in paths:
        if path.startswith(("docs/", "README", "CONTRIBUTING")):
            text = read(root, path)
            code = re.findall(r"```(?:sh|console)?\n(.*?)```", text, re.DOTALL)
            spans = re.findall(r"`([^`\n]+)`", text)
            lines = [line for block in code for line in block.splitlines()] + spans
            for line in (line for line in lines if line not in NO_COMMANDS):
                match = re.match(r"\s*(?:\$ )?(make|tutti) ([a-z][a-z-]*)(?=\s|$)", line)
                known = {"make": targets, "tutti": commands}.get(match[1]) if match else None
                if match and match[2] not in known and "=" not in match[2]:
                    found.add(path, "commands", f"there is no '{match[1]} {match[2]}'")


def check_columns(found, root, paths):
    for path in paths:
        if path.startswith(WIDE):
            continue
        for number, line in prose(read(root, path)):
            if len(line) > COLUMNS and not line.lstrip().startswith("|"):
                found.add(f"{path}:{number}", "columns", f"{len(line)} columns; at most {COLUMNS}")


def check_figures(found, root, _):
    text = re.sub(r"<!--.*?-->", "", read(root, "docs/performance.md"))
    words = len([word for word in text.split() if re.search(r"\w", word)])
    if words > WORDS:
        found.add("docs/performance.md", "figures", f"{words} words; at most {WORDS}")
    files = len(list(root.glob("bench/*/results/*")))
    if files > RESULT_FILES:
        found.add("bench", "figures", f"{files} files of results; at most {RESULT_FILES}")
    done = subprocess.run([sys.executable, str(root / "tools/figures.py"), "--check"],
                          capture_output=True, text=True, check=False)
    for line in (done.stdout + done.stderr).splitlines():
        found.add("make figures", "figures", line)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                        else pathlib.Path(__file__).parent.parent).resolve()
    found, paths = Findings(root), documents(root)
    check_protocol(found, root)
    for check in (check_settings, check_clusters, check_index, check_links, check_commands,
                  check_columns, check_figures):
        check(found, root, paths)
    print(f"docs: {len(paths)} documents, {found.count} findings", file=sys.stderr)
    return 1 if found.count else 0


if __name__ == "__main__":
    sys.exit(main())
