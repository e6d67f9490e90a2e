/* API keys: who presents one, which namespace of the cache is theirs, and how much they may ask for.
 *
 *     keys_open -> from an option, from a file, or both
 *     keys_enter -> a request presents a key: its account, held until keys_leave
 *     keys_reload -> reads the same sources again; on an error the keys stay as they are
 *
 * Only SHA-256 digests are kept. A presented key is hashed first, and its digest is compared with every one there is,
 * in a time that depends on their number only. Every function may be called by any thread. */
#ifndef SERVER_NET_KEYS_H
#define SERVER_NET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define KEY_DIGEST_BYTES 32
#define KEY_NAME_BYTES_MAX 64
#define KEYS_MAX 1000

struct keys;
struct key;

/* What is known of a key besides its account. */
struct key_entry {
    uint8_t digest[KEY_DIGEST_BYTES];
    char name[KEY_NAME_BYTES_MAX + 1];  /* for the log and for messages; unique */
    char space[KEY_NAME_BYTES_MAX + 1]; /* its namespace: no cached prefix is shared with another one */
    uint32_t max_concurrent;            /* requests at once; 0: no limit */
    uint32_t requests_per_minute;       /* in a burst; they come back evenly over the minute; 0: no limit */
};

/* `single`: --api-key, NULL or "" for none, "@FILE" for the first line of FILE; its namespace is "". `path`:
 * --api-keys, NULL or "" for none. Both are borrowed while open. No key at all gives *out NULL. Errors name file and
 * line. */
enum status keys_open(const char *single, const char *path, struct keys **out, struct error *error);
void keys_close(struct keys *keys); /* NULL is allowed; nobody may hold an account */
enum status keys_reload(struct keys *keys, struct error *error);
size_t keys_count(struct keys *keys);

/* STATUS_INVALID, code invalid_api_key: no key is these bytes. STATUS_BUSY, code rate_limit_exceeded: it has used up
 * what it may; *retry_after_s says when to come again. */
enum status keys_enter(struct keys *keys, const char *secret, size_t size, uint64_t now_ns, struct key **out,
                       uint32_t *retry_after_s, struct error *error);
void keys_leave(struct keys *keys, struct key *key);
/* Constant while the account is held. */
const char *key_name(const struct key *key);
const char *key_space(const struct key *key);

/* ---- parts of it, for server/net ---- */

/* The digest of a key; false: the library refused. */
bool key_digest(const char *secret, size_t size, uint8_t digest[KEY_DIGEST_BYTES]);
/* Of no bytes at all: what a hash is that was made of a variable that was not set. Anybody would have that key. */
bool key_digest_is_empty(const uint8_t digest[KEY_DIGEST_BYTES]);
bool key_digest_equal(const uint8_t a[KEY_DIGEST_BYTES], const uint8_t b[KEY_DIGEST_BYTES]); /* constant time */
/* The digest of an option's key, or of the first line of the file behind "@". */
enum status key_option_digest(const char *value, const char *option, uint8_t digest[KEY_DIGEST_BYTES],
                              struct error *error);
/* Printable ASCII without blanks: what a header can carry. */
bool key_is_presentable(const char *secret);

/* Reads a YAML list of keys (keys_file.c; configs/keys.example.yaml says what it may hold) and appends its entries to
 * those there are; the caller frees. Of two equal names or keys the second is a mistake; so is a list without any. */
enum status keys_read_file(const char *path, struct key_entry **entries, size_t *count, struct error *error);

#endif
