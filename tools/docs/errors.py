#!/usr/bin/env python3
"""Writes what is made of sidecar/protocol/errors.json, the one table of protocol errors: errors.py [--check].

The table in docs/reference/protocol.md, the constants of the sidecar, and the catalogue of every SDK: what a code means and what to
do, shown with the message when the sidecar sends ERROR. tests/tidy says when one of them is not current.
"""
import json
import re
import sys
from pathlib import Path

SOURCE = "sidecar/protocol/errors.json"
HOW = "python3 tools/docs/errors.py"
NOTE = f"Written by tools/docs/errors.py from {SOURCE}; do not edit."
BEGIN, END = f"<!-- errors: {NOTE} -->", "<!-- end of errors -->"


def words_of(code):
    return re.findall("[A-Z][a-z]*", code)


def sentence(text):
    return text[0].upper() + text[1:]


def quoted(text):
    """A string literal of C++, Go, TypeScript, Java, Rust and Python alike: ASCII, double quotes."""
    if not text.isascii():
        raise ValueError(f"{SOURCE}: only ASCII, for all languages' literals: {text}")
    return json.dumps(text)


def page(table, current):
    """docs/reference/protocol.md: the part between the marks."""
    senders = {"S": "S", "W": "W", "both": "both"}
    rows = [f"| `{e['code']}` | {senders[e['from']]} | {'yes' if e['final'] else ''} | {sentence(e['cause'])} | {sentence(e['remedy'])} |" for e in table]
    block = [BEGIN, "", "| code | from | final | cause | what to do |", "|---|---|---|---|---|", *rows, "", END]
    begin, end = current.find(BEGIN), current.find(END)
    if begin < 0 or end < begin:
        return None
    return current[:begin] + "\n".join(block) + current[end + len(END):]


def cpp(table, _):
    lines = [
        "#ifndef MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_", "#define MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_", "",
        "#include <string_view>", "",
        f"// {NOTE}",
        "// The codes of ERROR frames, both directions. They are labels of metrics too, so the set is small and fixed; the",
        "// message of the frame carries everything else.",
        "// clang-format off",
        "namespace millstream::protocol {", "",
    ]
    lines += [f"inline constexpr char k{e['code']}[] = {quoted(e['code'])};" for e in table]
    lines += [
        "", "struct ErrorCode {", "  std::string_view code;", "  bool final;  // connecting again does not help", "  std::string_view cause, remedy;", "};", "",
        "inline constexpr ErrorCode kErrorCodes[] = {",
        *[f"    {{k{e['code']}, {str(e['final']).lower()},\n     {quoted(e['cause'])},\n     {quoted(e['remedy'])}}}," for e in table],
        "};", "",
        "// What there is to say about a code. One that is not known is taken as Internal, as the protocol has it.",
        "constexpr const ErrorCode& FindErrorCode(std::string_view code) {",
        "  const ErrorCode* internal = nullptr;",
        "  for (const ErrorCode& known : kErrorCodes) {",
        "    if (known.code == code) return known;",
        "    if (known.code == kInternal) internal = &known;",
        "  }",
        "  return *internal;",
        "}", "",
        "}  // namespace millstream::protocol",
        "// clang-format on", "",
        "#endif  // MILLSTREAM_SIDECAR_PROTOCOL_ERROR_CODES_H_", "",
    ]
    return "\n".join(lines)


def python(table, _):
    lines = [f'"""The codes of ERROR: what they mean and what to do. {NOTE}"""', "", "from __future__ import annotations", "",
             "from typing import Dict, Final, NamedTuple", "", "",
             "class ErrorCode(NamedTuple):", "    code: str", "    final: bool  # connecting again does not help", "    cause: str", "    remedy: str", "", "",
             "ERROR_CODES: Final[Dict[str, ErrorCode]] = {"]
    for e in table:
        lines += [f"    {quoted(e['code'])}: ErrorCode(", f"        {quoted(e['code'])}, {e['final']},", f"        {quoted(e['cause'])},",
                  f"        {quoted(e['remedy'])},", "    ),"]
    lines += ["}", "", "", "def find(code: str) -> ErrorCode:", '    """One that is not known is taken as Internal, as the protocol has it."""',
              '    return ERROR_CODES.get(code) or ERROR_CODES["Internal"]', ""]
    return "\n".join(lines)


def go(table, _):
    width = max(len(e["code"]) for e in table)
    lines = ["package millstream", "", f"// {NOTE}", "", "// The codes of ERROR frames: docs/reference/protocol.md.", "const ("]
    lines += [f"\tcode{e['code']:<{width}} = {quoted(e['code'])}" for e in table]
    lines += [")", "", "type errorCode struct {", "\tcode          string", "\tfinal         bool // connecting again does not help", "\tcause, remedy string",
              "}", "", "var errorCodes = []errorCode{"]
    for e in table:
        lines += [f"\t{{code{e['code']}, {str(e['final']).lower()},", f"\t\t{quoted(e['cause'])},", f"\t\t{quoted(e['remedy'])}}},"]
    lines += ["}", "", "// findErrorCode gives what there is to say about a code. One that is not known is taken as Internal, as the protocol",
              "// has it.", "func findErrorCode(code string) errorCode {", "\tvar internal errorCode", "\tfor _, known := range errorCodes {",
              "\t\tif known.code == code {", "\t\t\treturn known", "\t\t}", "\t\tif known.code == codeInternal {", "\t\t\tinternal = known", "\t\t}",
              "\t}", "\treturn internal", "}", ""]
    return "\n".join(lines)


def typescript(table, _):
    lines = [f"// {NOTE}", "", "/** What a code of ERROR means and what to do about it. */", "export interface ErrorCode {", "  readonly code: string;",
             "  /** Connecting again does not help. */", "  readonly final: boolean;", "  readonly cause: string;", "  readonly remedy: string;", "}", "",
             "export const ERROR_CODES: readonly ErrorCode[] = ["]
    for e in table:
        lines += [f"  {{ code: {quoted(e['code'])}, final: {str(e['final']).lower()},", f"    cause: {quoted(e['cause'])},", f"    remedy: {quoted(e['remedy'])} }},"]
    lines += ["];", "", "/** One that is not known is taken as Internal, as the protocol has it. */", "export function findErrorCode(code: string): ErrorCode {",
              '  return ERROR_CODES.find((known) => known.code === code) ?? ERROR_CODES.find((known) => known.code === "Internal")!;', "}", ""]
    return "\n".join(lines)


def java(table, _):
    lines = ["package dev.millstream;", "", "import java.util.List;", "", "/**", " * A code of ERROR: what it means and what to do.", " *", f" * <p>{NOTE}", " */",
             "record ErrorCode(String code, boolean isFinal, String cause, String remedy) {", "  static final List<ErrorCode> ALL =", "      List.of("]
    lines += [f"          new ErrorCode({quoted(e['code'])}, {str(e['final']).lower()},\n              {quoted(e['cause'])},\n              {quoted(e['remedy'])})"
              + ("," if e is not table[-1] else ");") for e in table]
    lines += ["", "  /** One that is not known is taken as Internal, as the protocol has it. */", "  static ErrorCode find(String code) {",
              "    return ALL.stream().filter(known -> known.code.equals(code)).findFirst().orElseGet(() -> find(\"Internal\"));", "  }", "}", ""]
    return "\n".join(lines)


def rust(table, _):
    lines = [f"//! The codes of ERROR: what they mean and what to do. {NOTE}", "", "#[allow(dead_code)]", "pub(crate) struct ErrorCode {", "    pub code: &'static str,",
             "    /// Connecting again does not help.", "    pub is_final: bool,", "    pub cause: &'static str,", "    pub remedy: &'static str,", "}", "",
             "const ERROR_CODES: &[ErrorCode] = &["]
    lines += [f"    ErrorCode {{\n        code: {quoted(e['code'])},\n        is_final: {str(e['final']).lower()},\n        cause: {quoted(e['cause'])},\n"
              f"        remedy: {quoted(e['remedy'])},\n    }}," for e in table]
    lines += ["];", "", "/// One that is not known is taken as Internal, as the protocol has it.", "pub(crate) fn find(code: &str) -> &'static ErrorCode {",
              "    let named = |name: &str| ERROR_CODES.iter().find(|known| known.code == name);",
              "    named(code).or_else(|| named(\"Internal\")).expect(\"Internal is in the table\")", "}", ""]
    return "\n".join(lines)


# Path -> (table, its text today or "") -> its text; None: it has lost the marks that the text goes between.
WRITERS = {
    "docs/reference/protocol.md": page,
    "sidecar/protocol/error_codes.h": cpp,
    "sdk/python/src/millstream/error_codes.py": python,
    "sdk/go/error_codes.go": go,
    "sdk/typescript/src/error_codes.ts": typescript,
    "sdk/java/src/main/java/dev/millstream/ErrorCode.java": java,
    "sdk/rust/src/error_codes.rs": rust,
}


def problems_of(table):
    """What is wrong with the table itself."""
    seen = set()
    for e in table:
        if set(e) != {"code", "from", "final", "cause", "remedy"} or e["from"] not in ("S", "W", "both") or not isinstance(e["final"], bool):
            yield f"{e.get('code', e)}: has code, from (S, W or both), final (true or false), cause, remedy"
        elif "".join(words_of(e["code"])) != e["code"] or e["code"] in seen:
            yield f"{e['code']}: a code is words that begin with a capital, and comes once"
        elif not e["cause"] or not e["remedy"] or e["cause"].endswith(".") or e["remedy"].endswith("."):
            yield f"{e['code']}: cause and remedy are texts without a point at the end"
        seen.add(e.get("code"))
    if "Internal" not in seen:
        yield "Internal is missing: receivers take codes they do not know for it"


def stale(read):
    """[(path, what is wrong)]; `read(path)` gives a file's text or None."""
    table = json.loads(read(SOURCE))
    found = [(SOURCE, problem) for problem in problems_of(table)]
    if found:
        return found
    for path, writer in WRITERS.items():
        current = read(path)
        text = writer(table, current or "")
        if text is None:
            found.append((path, f"has no lines '{BEGIN}' and '{END}' for the table of {SOURCE} to stand between"))
        elif text != current:
            found.append((path, f"is not what {SOURCE} says: run  {HOW}"))
    return found


def main():
    root = Path(__file__).resolve().parents[2]

    def read(path):
        return (root / path).read_text(encoding="utf-8") if (root / path).exists() else None

    found = stale(read)
    if "--check" in sys.argv[1:]:
        for path, problem in found:
            print(f"{path} {problem}")
        return 1 if found else 0
    table = json.loads(read(SOURCE))
    for path, problem in found:
        writer = WRITERS.get(path)
        text = writer(table, read(path) or "") if writer else None
        if text is None:
            print(f"{path} {problem}")
            return 1
        (root / path).write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
