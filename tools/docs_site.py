"""Publishes what the documents link to outside docs/ (a hook of mkdocs.yml).

A linked file of the repository becomes a file below source/ of the site: pages stay pages,
all else is text. A link to a folder becomes its name. Links to files that do not exist are
left as they are, and fail the build (`strict`).
"""

import os
import re

from mkdocs.structure.files import File

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def _site_path(path):
    """Where the file at `path`, from the repository's root, is in the site."""
    if path.startswith("docs/"):
        return path[len("docs/"):]
    folder, name = os.path.split(path)
    if not name.endswith(".md"):
        name = f"{name.lstrip('.')}.txt"
    return os.path.join("source", folder, name)


def _repository_path(page):
    """The file of the repository that a page of the site is, the inverse of _site_path."""
    return page[len("source/"):] if page.startswith("source/") else f"docs/{page}"


def _targets(page, text):
    """The files of the repository that the page at `page` links to."""
    for _, link, _ in LINK.findall(text):
        if "://" not in link:
            yield os.path.normpath(os.path.join(os.path.dirname(page), link))


def on_files(files, config):
    pending = [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    done = set()
    while pending:
        page = pending.pop()
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for target in _targets(page, text):
            if target in done or target.startswith("docs/") or not os.path.isfile(target):
                continue
            done.add(target)
            files.append(File.generated(config, _site_path(target), abs_src_path=os.path.abspath(target)))
            if target.endswith(".md"):
                pending.append(target)
    return files


def on_page_markdown(markdown, page, **_):
    here = _repository_path(page.file.src_uri)

    def moved(match):
        text, link, anchor = match.groups()
        if "://" in link:
            return match[0]
        target = os.path.normpath(os.path.join(os.path.dirname(here), link))
        if os.path.isdir(target):
            return text
        to = os.path.relpath(_site_path(target), os.path.dirname(page.file.src_uri) or ".")
        return f"[{text}]({to}{anchor or ''})"

    return LINK.sub(moved, markdown)
