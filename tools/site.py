#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gather the pages of the documents' site, and check the built site; `make docs` runs both.

usage: site.py pages FOLDER     write all pages, with mkdocs.yml beside them
       site.py check FOLDER     fail where a page of the built site would load from another host

Pages are the Markdown files of the tree at their own places, and one page for each public header,
made from its comments as they are. A link to a file that is not a page leads to a copy of it."""
import html
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ("tutti", "store", "sync", "schedule", "plugin")
LINK = re.compile(r"(\[[^\]]*\])\(([^)\s]+)\)")
NAVIGATION = (
    ("Start", (("Overview", "README.md"), ("Install", "docs/installing.md"),
               ("Run jobs", "docs/running.md"), ("Settings", "docs/settings.md"),
               ("Features", "docs/features.md"), ("Examples", "examples/README.md"),
               ("Changes", "CHANGELOG.md"))),
    ("Python", (("Python and PyTorch", "docs/python.md"),
                ("From Horovod and DDP", "docs/migrating.md"))),
    ("C interface", (("tutti.h", "api/tutti.md"), ("store.h", "api/store.md"),
                     ("sync.h", "api/sync.md"),
                     ("schedule.h", "api/schedule.md"), ("plugin.h", "api/plugin.md"),
                     ("Plugins", "docs/plugins.md"))),
    ("Topics", (("Named tensors", "docs/named.md"), ("Scheduling", "docs/scheduling.md"),
                ("Simulating", "docs/simulating.md"),
                ("Performance", "docs/performance.md"), ("Security", "SECURITY.md"),
                ("Glossary", "docs/glossary.md"))),
    ("Clusters", "docs/clusters"),
    ("Inside", (("Architecture", "ARCHITECTURE.md"), ("Wire protocol", "docs/protocol.md"),
                ("Control plane", "docs/control.md"),
                ("Handshake", "docs/security-protocol.md"))),
    ("Contribute", (("Contributing", "CONTRIBUTING.md"), ("Style", "STYLE.md"),
                    ("Conduct", "CODE_OF_CONDUCT.md"), ("Tests", "tests/README.md"),
                    ("Benchmarks", "bench/README.md"))),
    ("Lab notes", "docs/lab"),
    ("Decisions", "docs/decisions"),
    ("All documents", "docs/README.md"),
)


# ---- pages of the headers -----------------------------------------------------------------------

def comment_text(comment):
    """Lines of a comment without its frame."""
    lines = comment.strip()[2:-2].strip("\n").splitlines()
    return [re.sub(r"^ \* ?", "", line).rstrip() for line in lines]


def escaped(text):
    """Escape the text for Markdown, except code in backquotes."""
    parts = re.split(r"(`[^`]*`)", text)
    def plain(part):
        return re.sub(r"([*_#\[\]])", r"\\\1", html.escape(part, quote=False))
    return "".join(part if part.startswith("`") else plain(part) for part in parts)


def paragraphs(lines):
    """Markdown of a comment's lines: code that is indented, "Word.  text" with its hanging lines,
    and plain paragraphs."""
    out, text, is_code, is_hanging = [], [], False, False

    def end():
        if text:
            out.append(escaped(" ".join(text)).replace("\\*\\*", "**") + "\n")
            text.clear()
    for line in [line.rstrip() for line in lines] + [""]:
        if line.startswith("    ") and not text:
            out.append(("" if is_code else "```c\n") + line[4:])
            is_code = True
            continue
        if is_code:
            out.append("```\n")
            is_code = False
        # after one with its two spaces others may have one, as they stand at the margin
        named = re.match(r"([A-Z][a-z]+(?: [a-z]+)?\.)( +)(\S.*)", line)
        if not line:
            end()
            is_hanging = False
        elif named and (is_hanging or len(named[2]) > 1):
            end()
            text.append(f"**{named[1]}** {named[3]}")
            is_hanging = True
        else:
            text.append(line.strip())
    return "\n".join(out)


def pieces(header):
    """(comment or None, code) in order: a comment at the margin, and what follows up to a blank
    line or the next such comment."""
    body = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", header, flags=re.M | re.S)
    body = re.sub(r"^#if defined\(__GNUC__\).*?^#endif\n", "", body, flags=re.M | re.S)
    body = re.sub(r"^#(?:ifndef|define) TUTTI_\w+_H\n|^#include.*\n|^#endif.*\n", "", body,
                  flags=re.M)
    for block in re.split(r"\n\s*\n(?=\S)", body.strip()):
        comment = re.match(r"/\*.*?\*/", block, re.S)
        if comment and comment.end() < len(block) and block[comment.end()] != "\n":
            comment = None
        yield (comment[0] if comment else None), block[comment.end() if comment else 0:].strip()


def declared(code):
    """Names that a piece of code declares."""
    flat = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    names = re.findall(r"^typedef (?:struct|enum|union) (\w+)", flat, re.M)
    names += re.findall(r"^#define (\w+)", flat, re.M)
    names += re.findall(r"^typedef [^{;]*\(\*(\w+)\)", flat, re.M)
    names += re.findall(r"^(?:TUTTI_API|static inline)\b[^(;]*?(\w+)\(", flat, re.M)
    return list(dict.fromkeys(names))


def header_page(name):
    text = (ROOT / f"include/tutti/{name}.h").read_text(encoding="utf-8")
    first = re.match(r"/\*.*?\*/", text, re.S)
    lines = comment_text(first[0])
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith(f"{name}.h")):]
    title = lines[0].partition(" - ")[2]
    rest = lines[1:]
    while rest and rest[0]:  # the title's second line
        title += " " + rest.pop(0)
    out = [f"# {name}.h\n", escaped(title[0].upper() + title[1:]) + "\n", paragraphs(rest)]
    for comment, code in pieces(text[first.end():]):
        section = re.match(r"/\* -+ (.*?) -+ \*/$", comment or "")
        if section:
            out.append(f"## {section[1][0].upper() + section[1][1:]}\n")
            if not code:
                continue
            comment = None
        if code:
            names = declared(code)
            if names:
                out.append("### " + ", ".join(escaped(name) for name in names[:4])
                           + (", ..." if len(names) > 4 else "") + "\n")
            out.append("```c\n" + code.replace("TUTTI_API ", "") + "\n```\n")
        if comment:
            out.append(paragraphs(comment_text(comment)))
    return "\n".join(out)


# ---- all pages ----------------------------------------------------------------------------------

def documents():
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return sorted(path for path in done.stdout.split()
                  if (ROOT / path).exists() and not path.startswith(".github"))


def with_links(path, text, pages, copied):
    """Links to headers lead to their pages, to folders to their READMEs, to other files to copies;
    all others become plain text."""
    def change(match):
        target, hash_, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = (ROOT / path).parent.joinpath(target).resolve()
        if not file.is_relative_to(ROOT):
            return match[1][1:-1]
        name = str(file.relative_to(ROOT))
        up = "../" * path.count("/")
        if re.fullmatch(r"include/tutti/(\w+)\.h", name):
            return f"{match[1]}({up}api/{file.stem}.md)"
        if file.is_dir():
            page = f"{name}/README.md"
            return f"{match[1]}({up}{page})" if page in pages else match[1][1:-1]
        if name in pages or not file.exists():
            return match[0]
        copied.add(name)
        return f"{match[1]}({up}{name}{hash_}{anchor})"
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(change, part) for part in parts)


def title_of(path):
    line = (ROOT / path).read_text(encoding="utf-8").splitlines()[0]
    return line.lstrip("# ").replace("`", "")


def navigation(pages):
    """Lines of mkdocs.yml."""
    def entry(indent, title, path):
        quoted = title.replace('"', "'")
        return f'{indent}- "{quoted}": {path}'
    for title, items in NAVIGATION:
        if isinstance(items, tuple):
            yield f'  - "{title}":'
            yield from (entry("      ", name, path) for name, path in items)
        elif items.endswith(".md"):
            yield entry("  ", title, items)
        else:
            yield f'  - "{title}":'
            yield from (entry("      ", title_of(path), path) for path in pages
                        if path.startswith(items + "/"))


def write_pages(folder):
    shutil.rmtree(folder, ignore_errors=True)
    pages, copied = documents(), set()
    for path in pages:
        text = with_links(path, (ROOT / path).read_text(encoding="utf-8"), set(pages), copied)
        (folder / "pages" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "pages" / path).write_text(text, encoding="utf-8")
    for name in sorted(copied):
        (folder / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "pages" / name)
    (folder / "pages/api").mkdir()
    for name in HEADERS:
        (folder / f"pages/api/{name}.md").write_text(header_page(name), encoding="utf-8")
    (folder / "mkdocs.yml").write_text("\n".join([
        "site_name: Tutti", "site_description: Gradient communication for data-parallel training",
        "docs_dir: pages", "site_dir: ../site", "use_directory_urls: false",
        # highlight.js would come from another host
        "theme:", "  name: readthedocs", "  highlightjs: false", "  collapse_navigation: true",
        "  locale: en", "plugins:", "  - search",
        "markdown_extensions:", "  - toc:", "      permalink: false", "  - tables",
        "  - fenced_code", "  - sane_lists", "extra_css:", "  - site.css",
        "validation:", "  omitted_files: ignore", "  links:", "    anchors: warn",
        "    absolute_links: warn", "    unrecognized_links: warn",
        "nav:", *navigation(pages), ""]), encoding="utf-8")
    shutil.copy(ROOT / "tools/site.css", folder / "pages/site.css")


# ---- the built site -----------------------------------------------------------------------------

def check_site(folder):
    """Scripts, styles, fonts and pictures are the site's own."""
    count = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".html", ".css"):
            continue
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"<!--.*?-->|/\*.*?\*/", "", text, flags=re.S)
        found = re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?"
                           r"((?:https?:)?//[^\s\">]+)", text)
        found += re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", text)
        for address in found:
            print(f"{path.relative_to(folder)}: loads {address}")
            count += 1
    if not (folder / "search/search_index.json").exists():
        print("there is no search index")
        count += 1
    return 1 if count else 0


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("pages", "check"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "check":
        return check_site(folder)
    write_pages(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
