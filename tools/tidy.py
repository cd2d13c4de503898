#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail when the tree breaks a rule of STYLE.md that a machine can check.

usage: tidy.py [root]      prints "file:line: [rule] message" and exits 1 on any finding.

A finding may be allowed by a line of tools/tidy-allow.txt: "rule path[:name] reason".
A line there that allows nothing is a finding too, so the list stays true.
"""
import bisect
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

# ---- the rules as data --------------------------------------------------------------------------

# layer -> layers whose door (<layer>/<layer>.h) it may include; base/ is open to all, and kernel/
# to all but base/.
BELOW_API = {"platform", "transport", "codec", "aggregate", "tune", "schedule", "negotiate",
             "control", "sync", "sim", "launch", "mesh", "observe", "plugin"}
MAY_INCLUDE = {
    "base": set(),
    "kernel": set(),
    "platform": set(),
    "observe": set(),
    "codec": set(),
    "tune": set(),
    "negotiate": set(),
    "plugin": set(),
    "transport": {"platform"},
    "launch": set(),
    "mesh": {"launch", "transport"},
    "aggregate": {"platform", "codec", "tune"},
    "schedule": {"tune"},
    "model": {"schedule", "tune"},
    "control": {"schedule", "negotiate", "aggregate", "platform", "tune"},
    "sync": {"control", "negotiate", "schedule", "aggregate", "codec", "platform"},
    "sim": (BELOW_API - {"sim"}) | {"model"},
    "api": BELOW_API,
    "cli": BELOW_API | {"api", "cli", "model"},
}
# Files that may include layers that their own may not: (layer, file name, layers).
MAY_ALSO_INCLUDE = [
    ("platform", r"real\w*\.[ch]", {"transport"}),  # the driver under the seam
]
SEES_REGISTRIES = {"api", "sim", "cli"}  # and every test: may include <layer>/registry.h

PURE_LAYERS = {"control", "negotiate", "schedule", "aggregate", "sync", "codec",
               "model"}
PHASED_LAYERS = {"control", "aggregate", "negotiate", "schedule"}
PURE_FILES = {"src/platform/platform.h"}
PURE_HEADERS = {"stdbool.h", "stddef.h", "stdint.h", "stdarg.h", "string.h", "limits.h", "math.h",
                "stdalign.h", "float.h", "immintrin.h"}
PURE_BANNED = ("malloc calloc realloc free aligned_alloc posix_memalign strdup strndup printf "
               "fprintf dprintf puts perror time clock clock_gettime gettimeofday nanosleep usleep "
               "sleep random srandom drand48 getenv exit abort signal syscall").split()
BANNED = "strcpy strcat sprintf vsprintf strtok gets alloca rand".split()
GETENV = ["getenv", "secure_getenv"]
GETENV_HOMES = ("src/base/config.c", "src/launch/")

FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5
FILE_LINES_MAX = {".c": 800, ".h": 300, ".py": 800}
COLUMNS_MAX = 100
ROOM_FILES_MAX = 35
ROOM_FOLDERS = ("src", "cli")
SHARED_NAMES = {"registry.c", "registry.h"}
README_LINES_MAX = 60
README_HEADS = ("Purpose", "Rules", "Add one", "Files")

CODE_FOLDERS = ("src", "include", "cli", "tests", "bench", "examples", "plugins")
SKIPPED_FOLDERS = {".git", ".cache", "__pycache__", "corpus", "golden"}
SPDX_SUFFIXES = {".c", ".h", ".py", ".sh", ".cmake", ".map"}
TEXT_SUFFIXES = SPDX_SUFFIXES | {".md", ".txt", ".json", ".in", ".cff", ".toml", ".cfg", ""}
TEMPLATE = "No include guard: a template"  # in the first comment of a header that is included bare
MARKERS = re.compile(r"\b(?:FIX" r"ME|XX" r"X|TO" r"DO)\b")
# Paths and hosts of one machine are meaningless on another.
FORBIDDEN = re.compile(r"(?<![\w.])/(?:work|farm|root|home/\w+)/|bash_" r"jobs"
                       r"|\b(?:deb\.debian|pypi)\.org\b")

# ---- a little C ---------------------------------------------------------------------------------

LITERALS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)


def blank(match):
    """The same number of lines and columns, blank except for the quotes of literals."""
    text = match.group(0)
    inner = re.sub(r"[^\n]", " ", text)
    return text[0] + inner[1:-1] + text[-1] if text[0] in "\"'" else inner


class Source:
    """A C file, its comments and literals blanked, and its top level cut into declarations."""

    def __init__(self, path, name):
        self.name = name
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.lines = self.text.split("\n")
        self.code = LITERALS.sub(blank, self.text)
        self.is_template = TEMPLATE in self.text.split("*/")[0]
        self.starts = [0] + [m.end() for m in re.finditer("\n", self.text)]
        self.functions = []  # (head, line of the head, body, offset of the body)
        self.objects = []  # (declaration without initializer, line)
        self._cut(DIRECTIVE.sub(blank, self.code))

    def line_at(self, offset):
        return bisect.bisect_right(self.starts, offset)

    def _cut(self, code):
        depth, start, brace, pending = 0, 0, 0, ""
        for token in re.finditer(r"[{};]", code):
            at = token.start()
            if token.group() == "{":
                if depth == 0:
                    pending += code[start:at]
                    brace = at
                    if re.fullmatch(r'\s*extern\s+"\s*"\s*', pending):  # C++ guard: no level
                        pending, start = "", at + 1
                        continue
                depth += 1
            elif token.group() == "}":
                if depth == 0:  # closes an extern "C"
                    pending, start = "", at + 1
                    continue
                depth -= 1
                if depth == 0:
                    start = at + 1
                    if pending.rstrip().endswith(")") and "=" not in pending:
                        head = pending.strip()
                        line = self.line_at(brace - len(pending) + pending.find(head))
                        self.functions.append((head, line, code[brace:at + 1], brace))
                        pending = ""
                    else:
                        pending += "{}"
            elif depth == 0:
                pending += code[start:at]
                self._declare(pending, self.line_at(at))
                pending, start = "", at + 1

    def _declare(self, text, line):
        declaration = object_declaration(text)
        if declaration:
            self.objects.append((declaration, line))

    def static_locals(self):
        for _, _, body, offset in self.functions:
            for match in re.finditer(r"\bstatic\b[^;{(=]*", body):
                yield match.group(0).strip(), self.line_at(offset + match.start())


def object_declaration(text):
    """The declaration of an object without its initializer; None if it declares something else."""
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)|_Alignas\s*\([^)]*\)", " ", text, flags=re.S)
    text = text.replace("__extension__", " ")
    text = " ".join(text.split("=")[0].split())
    function_pointer = re.match(r"[^(]*\(\s*\*[^)]*\)\s*\(", text)
    if not text or re.match(r"(typedef|extern|_Static_assert)\b", text):
        return None
    if "(" in text and not function_pointer:
        return None
    if re.fullmatch(r"(?:static |const )*(?:struct|union|enum)(?: \w+)?(?: ?\{\})?", text):
        return None
    return text


def is_constant(declaration):
    if "_Thread_local" in declaration:
        return True
    function_pointer = re.search(r"\(\s*\*\s*(\w*)", declaration)
    if function_pointer:
        return function_pointer.group(1) == "const"
    return "const" in re.findall(r"\w+", declaration.rsplit("*", 1)[-1])


def declared_name(declaration):
    function_pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", declaration)
    if function_pointer:
        return function_pointer.group(1)
    names = re.findall(r"\w+", re.sub(r"\[.*", "", declaration))
    return names[-1] if names else ""


def function_name(head):
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    match = re.search(r"(\w+)\s*\(", head)
    return match.group(1) if match else ""


def parameter_count(head):
    text = head[head.index("(", head.index(function_name(head))) + 1:head.rindex(")")]
    while re.search(r"\([^()]*\)", text):
        text = re.sub(r"\([^()]*\)", "", text)
    return 0 if text.strip() in ("", "void") else text.count(",") + 1


def calls(names):
    """Calls of these functions, not of members or longer names that end like them."""
    return re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")


CALL_BANNED, CALL_PURE, CALL_GETENV = calls(BANNED), calls(PURE_BANNED), calls(GETENV)

# ---- checks: each yields (line, rule, name, message) --------------------------------------------


def layer_of(name):
    parts = name.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return "cli" if parts[0] == "cli" else None


def is_test(name):
    return name.startswith("tests/") or name.endswith("_test.c")


def is_pure(name):
    return name in PURE_FILES or (layer_of(name) in PURE_LAYERS and not is_test(name))


def include_problem(name, target):
    layer = layer_of(name)
    if layer not in MAY_INCLUDE:
        return f"layer {layer} is unknown; give it a line in MAY_INCLUDE of tools/tidy.py"
    folder, _, header = target.rpartition("/")
    folder = folder.split("/")[0]
    if folder in (layer, "base", "tutti", "") or (folder == "kernel" and layer != "base"):
        return None
    if is_test(name) and folder in ("platform", "support"):  # drivers and tests/support
        return None
    allowed = set(MAY_INCLUDE[layer])
    for also_layer, pattern, layers in MAY_ALSO_INCLUDE:
        if layer == also_layer and re.fullmatch(pattern, name.rsplit("/", 1)[-1]):
            allowed |= layers
    if folder not in allowed:
        return f"layer {layer} may not include layer {folder}"
    registry = header == "registry.h" and (layer in SEES_REGISTRIES or is_test(name))
    if target == f"{folder}/{folder}.h" or registry:
        return None
    return f"{target} is private to {folder}; include {folder}/{folder}.h"


def check_includes(source):
    if layer_of(source.name) is None:
        return
    for number, line in enumerate(source.lines, 1):
        own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        problem = own and include_problem(source.name, own.group(1))
        if problem:
            yield number, "include", own.group(1), problem
        system = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
        if system and is_pure(source.name) and system.group(1) not in PURE_HEADERS:
            yield (number, "pure", system.group(1),
                   f"<{system.group(1)}> above the platform seam; ask platform.h instead")


def check_calls(source):
    test = is_test(source.name)
    rules = [] if test else [(CALL_BANNED, "banned-call", "banned function {}")]
    if is_pure(source.name):
        rules.append((CALL_PURE, "pure", "{} above the platform seam; ask platform.h instead"))
    if layer_of(source.name) and not test and not source.name.startswith(GETENV_HOMES):
        rules.append((CALL_GETENV, "getenv", "{} outside base/config.c and launch/"))
    for pattern, rule, text in rules:
        for match in pattern.finditer(source.code):
            yield source.line_at(match.start()), rule, match.group(1), text.format(match.group(1))


def check_state(source):
    if layer_of(source.name) is None or is_test(source.name):
        return
    found = source.objects + list(source.static_locals())
    for declaration, line in found:
        if not is_constant(declaration):
            name = declared_name(declaration)
            yield (line, "mutable-state", name,
                   f"{name} is mutable state outside a context: make it const or pass it in")


def check_phases(source):
    """A machine's phase changes in one function, which asserts that the change is allowed."""
    if layer_of(source.name) not in PHASED_LAYERS or is_test(source.name):
        return
    for head, _, body, offset in source.functions:
        if not function_name(head).endswith("_set_phase"):
            for match in re.finditer(r"(?:->|\.)phase\s*=[^=]", body):
                if not re.search(r"\(\w+\)\s*\{[^{}]*$", body[:match.start()]):
                    yield (source.line_at(offset + match.start()), "phase", "",
                           "a phase is changed by ..._set_phase alone")


def check_functions(source):
    for head, line, body, offset in source.functions:
        name = function_name(head)
        length = source.line_at(offset + len(body) - 1) - source.line_at(offset)
        if length > FUNCTION_LINES_MAX:
            yield (line, "function-length", name,
                   f"{name} has {length} lines; at most {FUNCTION_LINES_MAX}")
        count = parameter_count(head)
        if count > PARAMETERS_MAX and not name.startswith("tutti_"):
            yield (line, "parameters", name,
                   f"{name} has {count} parameters; at most {PARAMETERS_MAX}")


def check_names(source):
    layer = layer_of(source.name)
    for match in re.finditer(r"\btypedef\b[^;{]*?(?:\{[^{}]*\}[^;{]*?)?\b(\w+_t)\s*;", source.code):
        yield (source.line_at(match.start(1)), "type-name", match.group(1),
               f"{match.group(1)}: POSIX reserves names that end in _t")
    if layer in (None, "cli") or is_test(source.name) or source.is_template:
        return
    prefixes = ("tt_", "tutti_") if layer == "api" else ("tt_",)
    exported = [(function_name(head), line) for head, line, _, _ in source.functions
                if not re.search(r"\bstatic\b|\bTT_[A-Z0-9_]+\b", head)]  # or a macro makes it
    exported += [(declared_name(text), line) for text, line in source.objects
                 if not re.search(r"\bstatic\b", text)]
    for name, line in exported:
        if not name.startswith(prefixes):
            yield (line, "prefix", name,
                   f"{name} leaves its file: begin with {' or '.join(prefixes)}, or make it static")


def check_header(source):
    layer = layer_of(source.name)
    if not source.name.endswith(".h") or layer in (None, "cli") or source.is_template:
        return
    guard = "TUTTI_" + re.sub(r"\W", "_", source.name[len("src/"):]).upper()
    if f"#ifndef {guard}\n#define {guard}\n" not in source.text:
        yield 1, "guard", guard, f"include guard must be {guard}"
    if source.name == f"src/{layer}/{layer}.h":
        top = source.text.split("*/")[0]
        for word in ("Layer:", "Threads:"):
            if word not in top:
                yield 1, "header-top", word, f"a layer's door says '{word}' in its first comment"


def check_shape(name, text):
    """Rules for every text file of the tree, in any language."""
    suffix = pathlib.PurePath(name).suffix
    lines = text.split("\n")
    is_template = suffix == ".h" and TEMPLATE in text.split("*/")[0]  # code, so long as code
    limit = FILE_LINES_MAX.get(".c" if is_template else suffix)
    count = text.count("\n")
    if limit and count > limit and not name.startswith("include/"):
        yield 1, "file-length", "", f"{count} lines; at most {limit}"
    is_code = suffix in SPDX_SUFFIXES or lines[0].startswith("#!")
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if is_code and "SPDX-License-Identifier: Apache-2.0" not in first:
        yield 1, "spdx", "", "first line must carry SPDX-License-Identifier: Apache-2.0"
    for number, line in enumerate(lines, 1):
        if is_code and len(line) > COLUMNS_MAX:
            yield number, "columns", "", f"{len(line)} columns; at most {COLUMNS_MAX}"
        if is_code and line != line.rstrip():
            yield number, "trailing-space", "", "space at the end of the line"
        marker = MARKERS.search(line)
        if marker:
            yield number, "marker", marker.group(0), f"leftover {marker.group(0)}: finish it"
        path = FORBIDDEN.search(line)
        if path:
            yield number, "forbidden", path.group(0), f"'{path.group(0)}' belongs to one machine"


def check_readme(text):
    count = text.count("\n")
    if count > README_LINES_MAX:
        yield 1, "readme", "", f"{count} lines; at most {README_LINES_MAX}"
    for head in README_HEADS:
        if not re.search(rf"^(?:#+\s*|\**){head}\b", text, re.M):
            yield 1, "readme", head, f"no head '{head}'"


def check_labels(root, name, text):
    """`make check` finds a slow test by its area: a label that tools/check-areas.txt knows."""
    head = "\n".join(text.split("\n")[:40])
    labels = {word for line in re.findall(r"^[ #*/]*Labels: *([a-z0-9_ -]+)", head, re.M)
              for word in line.split()}
    is_fuzz = re.fullmatch(r"tests/fuzz/\w+_fuzz\.c", name)
    areas = root / "tools/check-areas.txt"
    if not (is_fuzz or "check" in labels) or not areas.exists():
        return
    lines = [line.split("#")[0].split()[1:] for line in areas.read_text().split("\n")]
    known = {word for words in lines for word in words} - {"fuzz", "*", "-"}
    if not known & (labels | {name.split("/")[1]}):
        yield 1, "labels", "", "say in its first comment which area it is of: Labels: <area>"


# ---- the run ------------------------------------------------------------------------------------


def files_below(root):
    for folder, folders, names in os.walk(root):
        top = pathlib.Path(folder) == root
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS
                            and not (top and (f == "build" or f.startswith("build-"))))
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.suffix in TEXT_SUFFIXES and name != ".git" and not path.is_symlink():
                yield path, path.relative_to(root).as_posix()


def compiles_alone(root, name):
    """The first error of a file that includes only this header; None: it compiles."""
    command = [os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Isrc",
               "-Iinclude", "-Itests", "-I.", "-x", "c", "-"]
    run = subprocess.run(command, input=f'#include "{root / name}"\n', cwd=root, text=True,
                         stderr=subprocess.PIPE, check=False)
    if run.returncode == 0:
        return None
    complaints = [line for line in run.stderr.split("\n") if "error:" in line]
    return complaints[0].split("error:")[-1].strip() if complaints else run.stderr.strip()[:200]


def check_headers_alone(root, names):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for name, problem in zip(names, pool.map(lambda n: compiles_alone(root, n), names)):
            if problem:
                yield name, 1, "header-alone", "", f"does not compile alone: {problem}"


def check_layers(root):
    for folder in sorted((root / "src").glob("*/")) if (root / "src").is_dir() else []:
        name = folder.relative_to(root).as_posix()
        if folder.is_dir() and any(folder.rglob("*.[ch]")) and not (folder / "README.md").exists():
            yield name + "/README.md", 1, "readme", "", "missing"


def sources_of_rooms(root):
    for folder in ROOM_FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            yield path, path.relative_to(root).as_posix()


def check_twins(root):
    """A file is found by its base name: only tables of variants share it."""
    homes = {}
    for path, name in sources_of_rooms(root):
        first = homes.setdefault(path.name, name)
        if first != name and path.name not in SHARED_NAMES:
            yield name, 1, "twin", "", f"{first} has that base name, too"


def check_rooms(root):
    """A folder is read at a glance: one that holds more files is several folders."""
    counts = collections.Counter(name.rsplit("/", 1)[0] for _, name in sources_of_rooms(root))
    for folder, count in sorted(counts.items()):
        if count > ROOM_FILES_MAX:
            yield (folder, 1, "room", "",
                   f"{count} files; at most {ROOM_FILES_MAX}: give some a folder of their own")


def check_tree(root):
    headers = []
    yield from check_layers(root)
    yield from check_twins(root)
    yield from check_rooms(root)
    for path, name in files_below(root):
        text = path.read_text(encoding="utf-8", errors="replace")
        found = list(check_shape(name, text))
        if path.suffix in (".c", ".h") and name.split("/")[0] in CODE_FOLDERS:
            source = Source(path, name)
            for check in (check_includes, check_calls, check_state, check_phases, check_functions,
                          check_names, check_header):
                found += check(source)
            if path.suffix == ".h" and not source.is_template and not name.startswith("plugins/"):
                headers.append(name)
        if re.fullmatch(r"src/\w+/README\.md", name):
            found += check_readme(text)
        if re.fullmatch(r"tests/\w+/\w+_(?:test|fuzz)\.\w+", name):
            found += check_labels(root, name, text)
        for line, rule, what, message in found:
            yield name, line, rule, what, message
    yield from check_headers_alone(root, headers)


def read_allowed(root):
    """{(rule, path[:name]): line number}; a line without a reason allows nothing."""
    path = root / "tools/tidy-allow.txt"
    allowed = {}
    for number, line in enumerate(path.read_text().split("\n") if path.exists() else [], 1):
        words = line.split(None, 2)
        if line.startswith("#") or len(words) < 3:
            continue
        allowed[words[0], words[1]] = number
    return allowed


def main(arguments):
    root = pathlib.Path(arguments[1] if len(arguments) > 1 else ".").resolve()
    allowed = read_allowed(root)
    used = set()
    count = 0
    for name, line, rule, what, message in check_tree(root):
        keys = {(rule, name), (rule, f"{name}:{what}")} & allowed.keys()
        used |= keys
        if not keys:
            print(f"{name}:{line}: [{rule}] {message}")
            count += 1
    for key in sorted(allowed.keys() - used):
        print(f"tools/tidy-allow.txt:{allowed[key]}: [allow] '{' '.join(key)}' allows nothing")
        count += 1
    if count:
        print(f"tidy: {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
