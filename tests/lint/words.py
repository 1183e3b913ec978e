#!/usr/bin/env python3
"""The text of the project speaks of itself alone: no machine it was made on, no host that only
some networks have, no trace of tools used in making it, no page a reader does not have."""

import os
import re

import tree

# Hosts that stand for a document or for nobody. A new one needs a reason to be here.
# "[" is what is seen of an IPv6 address.
HOSTS = re.compile(r"^(…|\.\.\.|[a-z]|localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|\[|engine|docker|"
                   r"(.*\.)?example(\.(com|org|net))?|(.*\.)?(test|invalid|local)|evil\..*|"
                   r"www\.apache\.org|json-schema\.org|(.*\.)?modelcontextprotocol\.io|"
                   r"0\.0\.0\.0|10\.\d+\.\d+\.\d+|192\.0\.2\.\d+|198\.51\.100\.\d+|203\.0\.113\.\d+|"
                   r"169\.254\.169\.254|metadata|proxy|host|attacker|server)$")
URL = re.compile(r"(?:https?|wss?|ftp)://([^/\s\"'<>)\\,;:`$%{(|*]+)")
# A name service host of the usual shape, with or without a scheme.
ARCHIVE = re.compile(r"\b(registry|registry-\d|mirror|mirrors|index|files|deb|ftp|security|archive|packages|proxy|cdn)"
                     r"(\.[a-z0-9-]+)+\.(org|com|io|net|dev)\b", re.IGNORECASE)
PATHS = re.compile(r"(?<![\w.$}/-])/(work|root|home/[a-z]\w*|Users/\w+)/(?!\.\.\.)[\w.]")
# Split, so that this file does not find itself.
MAKING = [
    "co-authored" + "-by", "generated (by|with) (an? )?(ai|llm|assistant|language model)",
    "helper" + " agent", "as an" + " ai ", "lang" + "uage model wrote", "chat" + "gpt", "co" + "pilot wrote",
    "issue filed by a" + " session", "a" + " sub-?agent", "ENGINE" + "_READY",
]
MAKING_RE = re.compile("|".join(MAKING), re.IGNORECASE)
PAGE = re.compile(r"[\w./-]*[A-Z]\.md\b")
SKIP = re.compile(r"^(LICENSE|tests/fuzz/corpus/|tests/lint/words\.py)")
BINARY = re.compile(r"\.(png|jpe?g|gif|ico|gz|xz|zip|tar|bin|wasm)$")


def main():
    lint = tree.Lint()
    hosts, paths, making, pages = [], [], [], []
    names = tree.files()
    here = {os.path.basename(name) for name in names}
    for name in names:
        if SKIP.match(name) or BINARY.search(name):
            continue
        for number, line in enumerate(tree.read(name).split("\n"), 1):
            where = f"{name}:{number}"
            for match in URL.finditer(line):
                host = match.group(1).split("@")[-1]
                if not HOSTS.match(host):
                    hosts.append(f"{where}: host {host}")
            if ARCHIVE.search(line):
                hosts.append(f"{where}: {ARCHIVE.search(line).group(0)}")
            if PATHS.search(line):
                paths.append(f"{where}: {PATHS.search(line).group(0)}")
            # No page of ours has numbered sections.
            if "\u00a7" in line:
                pages.append(f"{where}: a section of a page that is not here")
            pages += [f"{where}: {page} is not here" for page in PAGE.findall(line)
                      if os.path.basename(page) not in here]
            if MAKING_RE.search(line):
                making.append(f"{where}: {MAKING_RE.search(line).group(0)}")
    lint.check("no host names of package archives or registries", hosts)
    lint.check("no paths of the machine it was made on", paths)
    lint.check("nothing about tools used in making it", making)
    lint.check("pages that are named exist", pages)
    lint.done()


if __name__ == "__main__":
    main()
