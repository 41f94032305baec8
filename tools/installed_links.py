#!/usr/bin/env python3
"""Corrects the links of the installed documents. Meson runs it after the installation.

Usage: installed_links.py FOLDER        (relative to MESON_INSTALL_DESTDIR_PREFIX)

The pages of docs/ are installed without the folder docs/, and most of the files around docs/ are not installed. A link to an
installed file gets its new place. Another link becomes its text.
"""

import os
import pathlib
import re
import sys

from check_docs import FENCE, LINK


def corrected(page, root, text):
    def link(found):
        picture, label, target = found.groups()
        name, mark, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not name or (page.parent / name).exists():
            return found[0]
        # Seen from docs/, the target is outside of it.
        place = os.path.normpath(pathlib.Path("docs", page.parent.relative_to(root), name))
        if (root / place).is_file():
            return f"{picture}[{label}]({os.path.relpath(root / place, page.parent)}{mark}{anchor})"
        return label

    blocks = [(found.start(), found.end()) for found in FENCE.finditer(text)]
    return LINK.sub(lambda found: found[0] if any(a <= found.start() < b for a, b in blocks) else link(found), text)


def main():
    root = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], sys.argv[1])
    for page in root.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if (new := corrected(page, root, text)) != text:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
