#!/usr/bin/env python3
"""Makes the goldens of the tokenizer, and model/text/unicode_newer.h, from Hugging Face `tokenizers`.

    make_tokenizer.py MODEL.gguf        needs tokenizers, transformers, gguf, clang-format; Python 3.11 for its Unicode 14 tables

Everything is drawn from one seed. Written beside this file:
    tokenizer_text.txt      text, ids as plain text with pre-tokenizer smollm, gpt-2, llama-bpe ("=": as smollm)
    tokenizer_spans.txt     spans (T: trusted, U: not; size in bytes), text, ids with smollm
    special_tokens.txt      a set of tokens, then texts and what is found in each: offset,size,token
    unicode_classes.txt     every code point that smollm takes for a letter, number or space, as ranges
    detokenizer.txt         C (control tokens shown) or S (skipped), ids, the text they decode to

Fields are separated by tabs; in texts \\t \\n \\r \\\\ and \\xHH (other control characters) are escaped.

Two quirks of the oracle: transformers loses the digit split of "smollm" when it reads a GGUF file, so the pre-tokenizer
is put back; and the vocabulary has no token for 21 bytes, which `tokenizers` leaves out before merging.
"""
import hashlib
import json
import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import tokenizers  # noqa: E402
import transformers  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED = 20

SPACES = [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
LLAMA_BPE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")


def smollm_pre():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


def oracles(path):
    """Plain-text tokenizers by pre-tokenizer, and the one that finds special tokens."""
    loaded = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).backend_tokenizer
    text = loaded.to_str()

    def build(pre, plain=True, ignore_merges=False):
        state = json.loads(text)
        state["model"]["ignore_merges"] = ignore_merges
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.pre_tokenizer = pre
        tokenizer.encode_special_tokens = plain
        return tokenizer

    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    llama = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA_BPE), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    plain = {"smollm": build(smollm_pre()), "gpt-2": build(gpt2), "llama-bpe": build(llama, ignore_merges=True)}
    return plain, build(smollm_pre(), plain=False)


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def escape(text):
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
    return "".join(named.get(c) or (f"\\x{ord(c):02X}" if ord(c) < 32 or ord(c) == 127 else c) for c in text)


# ---- texts ----

HAND = [
    "", " ", "  ", "\n", "\r\n", "\t", "\r", "\0", "a", "Hello, world!", "it's we're they've I'm you'll he'd don't",
    "IT'S WE'RE THEY'VE I'M YOU'LL HE'D DON'T", "'s't're've'm'll'd", "'\u017F 'S\u017F", "caf\u00e9 cafe\u0301 \u00c5 A\u030a \u212b",
    "\u1e69 s\u0323\u0307 s\u0307\u0323", "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034dA\u036b\u0357\u0334\u0362\u0335\u031c\u0330\u0354L",
    "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\U0001F3F3\uFE0F\u200D\U0001F308 \U0001F44D\U0001F3FD \U0001F1E9\U0001F1EA", "\u2764\uFE0F\u200D\U0001F525",
    "1234567890", "3.14159e-10", "1,234,567.89", "0x1F 0b1010 0o17", "2\u00b2 \u00bd \u2167 \u0664\u0662 \u096a\u0968 \uff14\uff12 \U0001D7D9", "a1b2c3", " 1 2  3   4",
    "1st 2nd 3rd 4th", "x=1;y =2; z= 3", "tel:+49 (0)30 1234-567", "\u180e a\u180eb \u180e \u180e1", "a\u0085b \u0085", "\u00a0a \u00a0 a\u00a0",
    "\u2003\u2003x", "\u3000\u4f60\u597d\u3000", "\u200b\u200c\u200d\u2060\ufeff", "\ufeffBOM", "a\u00adb soft", "\u202eright to left\u202c", "\u2028\u2029 x\u2028",
    "line one\r\nline two\r\n\r\nline four", "a\n\n\nb", "a \n b\n  c\n\td", "   \n   \n", "\n \n  \n   x", "trailing   ", "   leading",
    "tabs\t\tand\t spaces \t", " \t \t ", "a\u000bb\u000cc", "\x1b[31mred\x1b[0m", "nul\0nul", "\x01\x02\x03\x04\x05\x06\x07\x08",
    "a\x04b", "th\x13e", "\x04\x06\x13\x14\x16\x1d", "\U00040000\U00090000x\U000C0000", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u662f2024\u5e745\u67081\u65e5\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u30bb\u30ab\u30a4\uff01\uff76\uff9e", "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab\u1100\u1173\u11af", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u061b \u0661\u0662\u0663", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0421\u044a\u0435\u0448\u044c \u0435\u0449\u0451", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0",
    "\U00020000\U0002A6D6\u3402", "\u2200x\u2208\u211d: \u2308x\u2309 \u2264 \u222b\u2080^\u221e e^{-x\u00b2}dx", "\U0001D4D7\U0001D4EE\U0001D4F5\U0001D4F5\U0001D4F8", "\u2554\u2550\u2557\u2551\u2591\u2592\u2593", "\u2460\u2461\u2462 \u32bf",
    '{"name": "x", "values": [1, 2.5, -3e7, null, true], "nested": {"a\\n": "\\u00e9"}}', '{"a":{"b":[{"c":1}]}}\n', "[[], {}, \"\"]",
    "def f(x):\n    \"\"\"Doc.\"\"\"\n    return [i ** 2 for i in range(x) if i % 2 == 0]\n", "#include <stdio.h>\nint main(void)\n{\n\tprintf(\"%d\\n\", 42);\n\treturn 0;\n}\n",
    "<div class=\"a b\">\n  <p>Hi &amp; bye</p>\n</div>", "SELECT * FROM t WHERE a = 'x''y' AND b >= 10;", "for (let i=0;i<n;++i){a[i]+=b[i]>>>1;}",
    "fn main() -> Result<(), Box<dyn Error>> { let x: &'static str = \"\"; Ok(()) }", "https://example.com/a/b?c=d&e=%20f#g", "user.name+tag@example.co.uk", "C:\\Users\\me\\file.txt",
    "/usr/local/bin:/usr/bin", "$ git commit -m 'fix: a b' && echo \"done\"", "| a | b |\n|---|---|\n| 1 | 2 |", "# Title\n\n- one\n- two\n\n```c\nint x;\n```\n", "**bold** _it_ ~~no~~ `code`",
    "!!!???...---___===+++", "....................................................", "-" * 80, "=" * 33, "#" * 64, "a" * 32, "a" * 33, "a" * 100, "ab" * 40, " " * 40, " " * 100 + "x", "\n" * 20,
    "\t" * 17 + "x", "\r\n" * 9, "Donaudampfschifffahrtselektrizit\u00e4tenhauptbetriebswerkbauunterbeamtengesellschaft", "CamelCaseIdentifierWithManyParts", "snake_case_identifier_with_parts",
    "SCREAMING_CASE", "aAbBcC", "I\u0307 \u0130 \u0131 \u1e9e \u00df \ufb01", "\u01c4\u01c5\u01c6", "\u02b0\u02b1 \u02bc'", "\u2018s \u2019s it\u2019s \u201cquoted\u201d", "a\u0300\u0301\u0302\u0303", "\u0301 leading mark", " \u0301x",
    "x\u20dd", "\u0e33\u0e33", "\U000E0041\U000E007F", "\ufffd\ufffd", "\uffff\ufffe\U0010FFFF", "\ue000\uf8ff\U000F0000", "\ud7ff\ue000".replace("\ud7ff", "\ud7a3"), "<", "<|", "|>", "<||>", "<s></s>", "<unk>", "[INST] [/INST]",
    "<|user|><|assistant|>", "<tool_call>{}</tool_call>", "<think>\n\n</think>\n",
]

WORDS = ("the of and to in is that for it was on as with his they at be this from have or by one had not but what all were "
         "when we there can an your which their said if do will each about how up out them then she many some so these "
         "would other into has more her two like him see time could no make than first been its who now people my made "
         "over did down only way find use may water long little very after words called just where most know").split()

SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x58F), (0x5D0, 0x5EA),
           (0x600, 0x6FF), (0x900, 0x97F), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F),
           (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0x300, 0x36F), (0x2000, 0x206F),
           (0x2190, 0x22FF), (0x30, 0x39), (0x20, 0x2F), (0x1D400, 0x1D7FF)]


def character(rng, low=0, high=0x10FFFF):
    while True:
        code = rng.randint(low, high)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def texts(rng, vocabulary, special, newer):
    out = list(HAND)
    for token in special:
        out += [token, f"a{token}b", f" {token} {token}", f"{token}\n", token[:-1] + " " + token[-1], token.upper(), token[1:]]
    for _ in range(450):  # what pre-tokenizers disagree about
        out.append("".join(rng.choice([" ", " ", "  ", "\n", "\r\n", "\t", "1", "23", "a", "bc", "'s", "'LL", "'", "!", "?\n", "\u00a0",
                                       "\u0085", "\u180e", "\u3000", "\u00e9", "\u0301", "\u4e2d", "\U0001F600", "\u0663", "\u00bd", "_"])
                           for _ in range(rng.randint(2, 14))))
    for _ in range(250):
        words = [rng.choice(WORDS) for _ in range(rng.randint(2, 9))]
        out.append("".join(rng.choice([w, w.capitalize(), w.upper()]) + rng.choice([" ", " ", " ", ", ", ". ", "\n", "'s ", "-", "  "]) for w in words))
    for _ in range(250):  # one script after the other
        text = ""
        for _ in range(rng.randint(1, 5)):
            low, high = rng.choice(SCRIPTS)
            text += "".join(character(rng, low, high) for _ in range(rng.randint(1, 6))) + rng.choice(["", " ", "\n"])
        out.append(text)
    for _ in range(300):  # all planes
        high = rng.choice([0xFF, 0x7FF, 0xFFFF, 0x1FFFF, 0x3FFFF, 0x10FFFF])
        out.append("".join(character(rng, 0, high) + rng.choice(["", "", " ", "a", "1"]) for _ in range(rng.randint(1, 8))))
    for _ in range(120):  # newer than Unicode 14
        out.append("".join(chr(rng.choice(newer)) + rng.choice(["", "", " ", "a", "1", "!"]) for _ in range(rng.randint(1, 5))))
    for _ in range(200):  # bytes that are not UTF-8
        out.append(bytes(rng.choice([rng.randint(0, 255), rng.randint(0x20, 0x7E), rng.randint(0xC0, 0xF7)])
                         for _ in range(rng.randint(1, 14))).decode("utf-8", "replace"))
    for _ in range(120):
        out.append("".join(chr(rng.randint(0, 0x9F)) for _ in range(rng.randint(1, 12))))
    for _ in range(300):  # tokens side by side
        out.append(b"".join(rng.choice(vocabulary) for _ in range(rng.randint(2, 6))).decode("utf-8", "replace"))
    for _ in range(120):  # long words
        alphabet = rng.choice(["a", "ab", "etaoin", "abcdefghijklmnopqrstuvwxyz", "=-", "\u00e4\u00f6\u00fc", "\u4e00\u4e8c\u4e09", "\u0431\u0432\u0433", "()[]{}"])
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randint(33, 90))))
    for _ in range(100):  # code and JSON
        key, value = rng.choice(WORDS), rng.choice([rng.randint(-10**6, 10**6), rng.random(), None, True, rng.choice(WORDS) + "\u00e9\n"])
        out.append(rng.choice([json.dumps({key: value, "n": [value]}, indent=rng.choice([None, 2, 4])), f"{key}_{value}();\n\t\t",
                               f"    if ({key} != {value}) {{\r\n        return;\r\n    }}\r\n", f"<{key} id=\"{value}\"/>"]))
    return list(dict.fromkeys(out))


# ---- spans ----

def matches(text, trusted, special):
    """What special_tokens.h promises, on bytes: the leftmost, longest special token inside one trusted stretch."""
    at, found = 0, []
    while at < len(text):
        best = max((t for t in special if text.startswith(t, at) and all(trusted[at:at + len(t)])), key=len, default=None)
        if best is None:
            at += 1
        else:
            found.append((at, best))
            at += len(best)
    return found


def span_case(rng, special, trust):
    parts = []
    for _ in range(rng.randint(1, 9)):
        token = rng.choice(special)
        cut = rng.randint(1, len(token) - 1)
        parts.append(rng.choice([token, token, token, token + token, token[:cut], token[cut:], rng.choice(WORDS), " ", "\n", "user\n", "\u00e9\u4e2d", "1 2",
                                 f"\n{rng.choice(WORDS)} {rng.choice(WORDS)}"]))
    text = "".join(parts).encode()
    spans, at = [], 0
    while at < len(text):
        size = min(rng.choice([0, 1, 3, 7, 12, 30, 60]), len(text) - at)
        spans.append((size, trust if trust is not None else rng.random() < 0.6))
        at += size
    return text, spans


def span_lines(rng, special, plain, trusting, encode_token):
    special_bytes = [t.encode() for t in special]
    lines = []
    for case in range(500):
        text, spans = span_case(rng, special, True if case < 150 else None)
        trusted = [t for size, t in spans for _ in range(size)]
        ids, done = [], 0
        for at, token in matches(text, trusted, special_bytes):
            ids += ids_of(plain, text[done:at].decode()) + [encode_token[token]]
            done = at + len(token)
        ids += ids_of(plain, text[done:].decode())
        if all(trusted):
            assert ids == ids_of(trusting, text.decode()), text
        shown = " ".join(f"{'T' if t else 'U'}{size}" for size, t in spans)
        lines.append(f"{shown}\t{escape(text.decode())}\t{' '.join(map(str, ids))}")
    return lines


# ---- overlapping special tokens ----

def special_lines(rng):
    sets = [["ab", "abc", "bcd", "b", "abcabc"], ["<a>", "<a><b>", "<b>", "<a><b><c>", "<"], ["aa", "aaa", "aaaaa"], ["x"], ["aba", "bab", "abab", "a"],
            ["<|x|>", "<|x", "|>", "<|xy|>", "x|><"]]
    lines = []
    for tokens in sets:
        tokenizer = Tokenizer(models.BPE(vocab={}, merges=[]))
        tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in tokens])
        alphabet = sorted(set("".join(tokens))) + [" ", "z"]
        lines.append("\t".join(["tokens"] + tokens))
        for _ in range(40):
            text = "".join(rng.choice([rng.choice(alphabet), rng.choice(tokens), rng.choice(tokens)[:-1]]) for _ in range(rng.randint(1, 10)))
            encoded = tokenizer.encode(text)
            found = [f"{a},{b - a},{i}" for i, (a, b) in zip(encoded.ids, encoded.offsets)]
            lines.append(f"text\t{text}\t{' '.join(found)}")
    return lines


# ---- decoding ----

def decode_lines(rng, tokenizer, pieces, special):
    """Ids that make broken and whole UTF-8; pieces: bytes by id."""
    high = [i for i, b in pieces.items() if len(b) == 1 and b[0] >= 0x80]
    lines = []
    for case in range(500):
        ids = [rng.choice([rng.choice(high), rng.choice(high), rng.choice(high), rng.choice(list(pieces)), rng.choice(list(special.values()))])
               for _ in range(rng.randint(1, 16))]
        if case % 4 == 0:
            ids = ids_of(tokenizer, "".join(character(rng, 0x80, 0x3FFFF) for _ in range(3)))[:rng.randint(1, 14)]
        shown = case % 2 == 0
        text = tokenizer.decode(ids, skip_special_tokens=not shown)
        names = {i: t.encode() for t, i in special.items()} if shown else {}
        assert text == b"".join(pieces.get(i) or names.get(i, b"") for i in ids).decode("utf-8", "replace")
        lines.append(f"{'C' if shown else 'S'}\t{' '.join(map(str, ids))}\t{escape(text)}")
    return lines


# ---- Unicode ----

def code_point_class(pre, code):
    def whole(text):
        return len(pre.pre_tokenize_str(text)) == 1
    c = chr(code)
    if whole("a" + c):
        return "letter"
    if whole("!" + c):
        return "other"
    if whole("1" + c) or not whole(" " + c):
        return "number"
    return "space"


def ranges(codes):
    out = []
    for code in codes:
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def class_macro(name, codes):
    parts = [f"\\\\x{{{a:X}}}" + (f"-\\\\x{{{b:X}}}" if b > a else "") for a, b in ranges(codes)]
    lines, line = [], ""
    for part in parts:
        if len(line) + len(part) > 105:
            lines.append(line)
            line = ""
        line += part
    lines.append(line)
    return f"#define {name} \\\n" + " \\\n".join(f'    "{line}"' for line in lines) + "\n"


def newer_than_unicode_14():
    """Letters and numbers that Unicode 14 lacks, numbers of the digit splitter only; and all code points by class."""
    assert unicodedata.unidata_version == "14.0.0", "use Python 3.11"
    regex = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    letters, numbers, newest = [], [], []
    classes = {"letter": [], "number": [], "space": [], "other": []}
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        known = {"L": "letter", "N": "number"}.get(unicodedata.category(chr(code))[0], "space" if code in SPACES else "other")
        found = code_point_class(regex, code)
        alone = len(digits.pre_tokenize_str("a" + chr(code))) == 2
        if found != known:
            assert known == "other" and found in ("letter", "number"), hex(code)
            (letters if found == "letter" else numbers).append(code)
        if alone and found != "number":
            assert found == "other", hex(code)
            newest.append(code)
        assert alone or found != "number", hex(code)
        classes["number" if alone else found].append(code)
    return letters, numbers, newest, classes


def write_header(letters, numbers, newest):
    text = f"""/* Made by tests/golden/make_tokenizer.py: letters and numbers that `tokenizers` {tokenizers.__version__} knows and Unicode 14, the version
 * of PCRE2 10.42, does not. Written as the inside of a character class. There are none the other way round, and a PCRE2
 * that knows them already takes no harm. Without them {len(letters) + len(numbers) + len(newest):,} code points would be cut differently. */
#ifndef MODEL_TEXT_UNICODE_NEWER_H
#define MODEL_TEXT_UNICODE_NEWER_H

{class_macro("UNICODE_NEWER_LETTERS", letters)}
{class_macro("UNICODE_NEWER_NUMBERS", numbers)}
/* Numbers to the digit splitter of `tokenizers`, but not yet to its patterns. */
{class_macro("UNICODE_NEWEST_NUMBERS", newest)}
#endif
"""
    path = ROOT / "model/text/unicode_newer.h"
    path.write_text(text)
    subprocess.run(["clang-format", "-i", path], check=True)


# ---- all of it ----

def byte_pieces(plain):
    """The bytes of every token that is not special, by id."""
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    moved = [b for b in range(256) if b not in printable]
    to_byte = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(moved)}
    special = {t.content for t in plain.get_added_tokens_decoder().values()}
    return {i: bytes(to_byte[c] for c in t) for t, i in sorted(plain.get_vocab().items(), key=lambda item: item[1]) if t not in special}


def main():
    path = Path(sys.argv[1])
    plain, trusting = oracles(path)
    special = {t.content: i for i, t in trusting.get_added_tokens_decoder().items()}
    letters, numbers, newest, classes = newer_than_unicode_14()
    write_header(letters, numbers, newest)

    note = (f"# make_tokenizer.py, seed {SEED}: tokenizers {tokenizers.__version__}, transformers {transformers.__version__}, "
            f"Python {sys.version.split()[0]}\n# {path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n")
    pieces = byte_pieces(plain["smollm"])
    lines = []
    for text in texts(random.Random(SEED), list(pieces.values()), list(special), letters + numbers + newest):
        columns = [" ".join(map(str, ids_of(t, text))) for t in plain.values()]
        lines.append("\t".join([escape(text), columns[0]] + ["=" if c == columns[0] else c for c in columns[1:]]))
    (HERE / "tokenizer_text.txt").write_text(note + "\n".join(lines) + "\n", newline="\n")
    spans = span_lines(random.Random(SEED + 1), list(special), plain["smollm"], trusting,
                       {t.encode(): i for t, i in special.items()})
    (HERE / "tokenizer_spans.txt").write_text(note + "\n".join(spans) + "\n", newline="\n")
    (HERE / "special_tokens.txt").write_text(note + "\n".join(special_lines(random.Random(SEED + 2))) + "\n", newline="\n")
    shown = [name + "".join(f"\t{a:X}-{b:X}" for a, b in ranges(classes[name])) for name in ("letter", "number", "space")]
    (HERE / "unicode_classes.txt").write_text(note + "\n".join(shown).replace("\t", "\n") + "\n", newline="\n")
    decoded = decode_lines(random.Random(SEED + 3), trusting, pieces, special)
    (HERE / "detokenizer.txt").write_text(note + "\n".join(decoded) + "\n", newline="\n")
    print(f"{len(lines)} texts, {len(spans)} spans")


if __name__ == "__main__":
    main()
