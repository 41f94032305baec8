#!/usr/bin/env python3
"""Tests the input, errors and scores of examples/smith_waterman.

Usage: smith_waterman.py PROGRAM FOLDER files|scores

The expected scores were computed with Biopython's PairwiseAligner.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

HBB = ("MVHLTPEEKSAVTALWGKVNVDEVGGEALGRLLVVYPWTQRFFESFGDLSTPDAVMGNPKVKAHGKKVLGAFSDGLAHLDNLKGTFATLSELHCDKLHVDPENFRLLGNVLVC"
       "VLAHHFGKEFTPPVQAAYQKVVAGVANALAHKYH")
MYG = ("MGLSDGEWQLVLNVWGKVEADIPGHGQEVLIRLFKGHPETLEKFDKFKHLKSEDEMKASEDLKKHGATVLTALGGILKKKGHHEAEIKPLAQSHATKHKIPVKYLEFISECIIQV"
       "LQSKHPGDFGADAQGAMNKALELFRKDMASNYKELGFQG")
ALL = "ARNDCQEGHILKMFPSTWYVBZX*VYWTSPFMKLIHGEQCDNRA" * 3

# By the costs of gaps: name -> score against the alpha chain of haemoglobin.
SCORES = {(10, 1): {"HBB": 291, "MYG": 126, "ALL": 21},
          (5, 2): {"HBB": 305, "MYG": 144, "ALL": 25}}

# Contents of invalid FASTA files, and a regular expression for the error message.
REFUSED = {
    "a digit among residues": (b">a\nMKV\nM1V\n", r":3: '1' is not the letter of a residue"),
    "a gap among residues": (b">a\nMK-V\n", r":2: '-' is not the letter of a residue"),
    "a control character": (b">a\r\nMKV\r\nM\x07V\r\n", r":3: byte 0x07 is not the letter of a residue"),
    "a letter that is no ASCII": (">a\nMÄV\n".encode(), r":2: byte 0xc3 is not the letter of a residue"),
    "residues before the first name": (b"\n\nMKV\n>a\nMKV\n", r":3: residues before the first '>'"),
    "a protein without residues in the middle": (b">a\nMKV\n>b\n\n>c\nMKV\n", r":3: 'b' has no residues"),
    "a protein without residues at the end": (b">a\nMKV\n>b", r":3: 'b' has no residues"),
    "a protein without a name": (b">a\nMKV\n> \nMKV\n", r":3: '>' without a name"),
    "nothing": (b"", r": has no protein"),
    "empty lines": (b"\n\r\n\n", r": has no protein"),
}

complaints = []


def expect(what, condition, details=""):
    print("ok:" if condition else "FAILED:", what, details if not condition else "")
    if not condition:
        complaints.append(what)


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def run(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=100)
        return done.returncode, done.stdout, done.stderr

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def packed(self, fasta):
        database = fasta.with_suffix(".db")
        status, _, errors = self.run("pack", fasta, database)
        expect(f"{fasta.name} is packed", status == 0, errors)
        return database

    def scores(self, what, database, *options):
        """Returns name -> score. The program also checks each run itself."""
        result = self.folder / "result.json"
        status, output, errors = self.run("search", "--top", 1000, "--json", result, *options, database)
        expect(f"{what}: all scores are right", status == 0, output + errors)
        return {hit["name"]: hit["score"] for hit in json.loads(result.read_text())["hits"]} if status == 0 else {}


def wrap(text, width, end="\n"):
    return "".join(text[n:n + width] + end for n in range(0, len(text), width))


def check_files(program):
    for what, (content, message) in REFUSED.items():
        fasta = program.write("refused.fasta", content)
        status, _, errors = program.run("pack", fasta, program.folder / "refused.db")
        expect(f"a FASTA file with {what} is refused", status == 2 and re.search(re.escape(str(fasta)) + message, errors),
               f"{status} {errors}")
    status, _, errors = program.run("pack", program.folder / "missing.fasta", program.folder / "missing.db")
    expect("a missing FASTA file is refused", status == 2 and "missing.fasta: No such file" in errors, errors)

    # The same proteins in different formats of the file.
    plain = f">HBB\n{HBB}\n>MYG\n{MYG}\n>ALL\n{ALL}\n"
    expected = SCORES[10, 1]
    for what, text in {
        "one line for each protein": plain,
        "CRLF, and lines of 60": "".join(f">{name}\r\n{wrap(residues, 60, chr(13) + chr(10))}"
                                          for name, residues in (("HBB", HBB), ("MYG", MYG), ("ALL", ALL))),
        "small letters": f">HBB\n{HBB.lower()}\n>MYG\n{MYG.lower()}\n>ALL\n{ALL.lower()}\n",
        "empty lines and blanks": f"\n>  HBB\n\n{wrap(HBB, 10, ' ')}\n\n\n>MYG\n\t{MYG}\t\n\n>ALL\n{ALL}\n\n",
        "no newline at the end": plain.rstrip("\n"),
        "J, O and U for X": plain.replace("X", "U").replace("ZU", "ZJ", 1).replace("ZU", "ZO", 1),
    }.items():
        database = program.packed(program.write("accepted.fasta", text.encode()))
        expect(f"FASTA with {what} is read", program.scores(what, database) == expected)

    database = program.packed(program.write("whole.fasta", plain.encode()))
    whole = database.read_bytes()
    for what, content, message in (
            ("a FASTA file", plain.encode(), "is not a packed database"),
            ("a database with its end missing", whole[:-1], "is not a whole packed database"),
            ("a database with a damaged index", whole[:55] + b"\xff" + whole[56:], "has a damaged index"),
            ("a database with a byte that is no residue", whole[:-1] + b"\xc8", f"byte {len(whole) - 1} is no residue")):
        status, _, errors = program.run("search", program.write("damaged.db", content))
        expect(f"{what} is not searched", status == 2 and f"damaged.db: {message}" in errors, f"{status} {errors}")

    two = program.write("two.fasta", b">a\nMKV\n>b\nMKV\n")
    for what, arguments, message in (
            ("a query of two proteins", ["--query", two], "has 2 proteins; the query is one"),
            ("a gap that costs less than its end", ["--open", "1", "--extend", "2"], "costs 1, less than"),
            ("a block of no bytes", ["--blocks", "4K,0"], "'0' is not a number of at least 1"),
            ("a host that is none", ["--host", "parallel"], "there is no host 'parallel'"),
            ("a cache that is neither", ["--cache", "hot"], "warm or cold, not 'hot'")):
        status, _, errors = program.run("search", *arguments, database)
        expect(f"{what} is refused", status == 2 and message in errors, f"{status} {errors}")


def check_scores(program):
    known = program.packed(program.write("known.fasta", f">HBB\n{HBB}\n>MYG\n{MYG}\n>ALL\n{ALL}\n".encode()))
    for (opening, extending), expected in SCORES.items():
        for lanes in (1, 16):
            found = program.scores(f"gaps {opening}/{extending}, {lanes} lanes", known, "--open", opening, "--extend",
                                   extending, "--lanes", lanes, "--blocks", "1,2,37,511,1M")
            expect(f"scores equal Biopython's, gaps {opening}/{extending}, {lanes} lanes", found == expected, str(found))

    fasta = program.folder / "random.fasta"
    for again in (1, 2):
        program.run("generate", "--residues", "40K", "--seed", "5", fasta)
        if again == 1:
            first = fasta.read_bytes()
    expect("the same seed gives the same proteins", first == fasta.read_bytes())
    database = program.packed(fasta)
    # Scores of more than 16 bits.
    long = program.write("long.fasta", b">long\n" + b"W" * 3100 + b"\n")
    for what, options in {
        "any size of chunks": ["--blocks", "100,511,4K,7777,4M"],
        "any size of chunks, one lane": ["--lanes", "1", "--blocks", "100,511,4K,7777,4M"],
        "one buffer": ["--buffers", "1", "--blocks", "511,4K"],
        "more buffers than chunks": ["--buffers", "16", "--blocks", "4K,16K"],
        "a long query": ["--query", str(long), "--blocks", "4K,511"],
        "a query of one residue": ["--query", str(program.write("one.fasta", b">w\nW")), "--blocks", "511,4K"],
        "a cold cache": ["--cache", "cold", "--blocks", "4K", "--rounds", "2"],
    }.items():
        program.scores(what, database, *options)
    wide = program.scores("16 lanes", database, "--lanes", "16")
    narrow = program.scores("1 lane", database, "--lanes", "1")
    expect("16 lanes and 1 give the same scores", wide == narrow and len(wide) > 100)


def main():
    program_path, folder, part = sys.argv[1:]
    folder = pathlib.Path(folder) / part
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    {"files": check_files, "scores": check_scores}[part](Program(program_path, folder))
    for complaint in complaints:
        print("FAILED:", complaint)
    sys.exit(1 if complaints else 0)


main()
