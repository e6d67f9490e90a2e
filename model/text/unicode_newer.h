/* Made by tests/golden/make_tokenizer.py: letters and numbers that `tokenizers` 0.23.3 knows and Unicode 14, the version
 * of PCRE2 10.42, does not. Written as the inside of a character class. There are none the other way round, and a PCRE2
 * that knows them already takes no harm. Without them 9,405 code points would be cut differently. */
#ifndef MODEL_TEXT_UNICODE_NEWER_H
#define MODEL_TEXT_UNICODE_NEWER_H

#define UNICODE_NEWER_LETTERS                                                                                  \
    "\\x{1C89}-\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D65}"      \
    "\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}" \
    "\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}"  \
    "\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}"           \
    "\\x{16D40}-\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}"            \
    "\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"

#define UNICODE_NEWER_NUMBERS                                                                                   \
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}\\x{16130}-\\x{16139}" \
    "\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"

/* Numbers to the digit splitter of `tokenizers`, but not yet to its patterns. */
#define UNICODE_NEWEST_NUMBERS "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

#endif
