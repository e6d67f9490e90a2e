/* One strict, linear pass over a JSON text (RFC 8259) before cJSON sees it, for everything that cJSON lets through or
 * fails on without a reason: encoding, NUL, control characters, number syntax, trailing bytes, depth, size.
 *
 * A failure is STATUS_INVALID with code "invalid_json" and names the byte offset. Half surrogate pairs (browsers cut
 * strings in the middle of one) are no failure: their escape becomes \ufffd in place, which has the same length. */
#ifndef API_JSON_SCAN_H
#define API_JSON_SCAN_H

#include <stddef.h>

#include "kernels/base/status.h"

#define JSON_DEPTH_MAX 128
#define JSON_VALUES_MAX 2000000 /* cJSON spends 64 to 80 bytes on each */
#define JSON_NUMBER_MAX 60      /* characters; cJSON reads at most 63 of one */

/* `text` is (size) bytes and changed only as said above. */
enum status json_scan(char *text, size_t size, struct error *error);

/* The start of the next number at or after `at` that is not inside a string; NULL: none. The text passed json_scan, and
 * `at` is outside of strings. */
const char *json_scan_number(const char *at, const char *end);
/* How many characters the number at `at` has. */
size_t json_scan_number_size(const char *at, const char *end);

#endif
