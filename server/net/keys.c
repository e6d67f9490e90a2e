/* See keys.h. */
#include "server/net/keys.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/file.h"

#define KEY_BYTES_MAX 4096
#define MINUTE_NS (UINT64_C(60) * 1000000000)
#define RETRY_S_MAX 30 /* clients give up on a longer wait */

/* An account outlives its place in the table while requests hold it. Under keys->lock, except the entry's name and
 * space, which never change. */
struct key {
    struct key_entry entry;
    uint32_t in_flight;
    uint64_t used_until_ns; /* when all that was asked for is paid back */
    bool listed;
};

struct keys {
    const char *single;
    const char *path;
    pthread_mutex_t lock;
    struct key **keys; /* (count) */
    size_t count;
};

/* ---- digests ---- */

bool key_digest(const char *secret, size_t size, uint8_t digest[KEY_DIGEST_BYTES])
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, size, digest) == 0;
}

bool key_digest_is_empty(const uint8_t digest[KEY_DIGEST_BYTES])
{
    uint8_t empty[KEY_DIGEST_BYTES];
    return key_digest("", 0, empty) && key_digest_equal(digest, empty);
}

bool key_digest_equal(const uint8_t a[KEY_DIGEST_BYTES], const uint8_t b[KEY_DIGEST_BYTES])
{
    return gnutls_memcmp(a, b, KEY_DIGEST_BYTES) == 0;
}

bool key_is_presentable(const char *secret)
{
    if (*secret == '\0' || strlen(secret) > KEY_BYTES_MAX)
        return false;
    for (; *secret != '\0'; secret++)
        if (*secret <= ' ' || *secret > '~')
            return false;
    return true;
}

enum status key_option_digest(const char *value, const char *option, uint8_t digest[KEY_DIGEST_BYTES],
                              struct error *error)
{
    struct buffer line = {0};
    enum status status = STATUS_OK;
    if (*value == '@')
        status = file_read(value + 1, KEY_BYTES_MAX, &line, error);
    else
        buffer_text(&line, value);
    if (status == STATUS_OK && line.failed)
        status = error_no_memory(error, "a key");
    if (status == STATUS_OK && line.size > 0)
        line.data[strcspn(line.data, "\r\n")] = '\0';
    if (status == STATUS_OK && (line.size == 0 || !key_is_presentable(line.data)))
        status = error_field(error, STATUS_INVALID, option,
                             *value == '@' ? "the first line of %s is not a key: 1 to %d printable ASCII characters "
                                             "without blanks"
                                           : "--%s is not a key: 1 to %d printable ASCII characters without blanks",
                             *value == '@' ? value + 1 : option, KEY_BYTES_MAX);
    if (status == STATUS_OK && !key_digest(line.data, strlen(line.data), digest))
        status = error_set(error, STATUS_INTERNAL, "cannot hash a key");
    buffer_free(&line);
    return status;
}

/* ---- the table ---- */

static enum status read_single(const char *single, struct key_entry **entries, size_t *count, struct error *error)
{
    *entries = calloc(1, sizeof(**entries));
    if (*entries == NULL)
        return error_no_memory(error, "the API key");
    *count = 1;
    snprintf((*entries)->name, sizeof((*entries)->name), "--api-key");
    return key_option_digest(single, "api-key", (*entries)->digest, error);
}

static enum status read_sources(const struct keys *keys, struct key_entry **entries, size_t *count, struct error *error)
{
    enum status status = STATUS_OK;
    *entries = NULL;
    *count = 0;
    if (keys->single[0] != '\0')
        status = read_single(keys->single, entries, count, error);
    if (status == STATUS_OK && keys->path[0] != '\0')
        status = keys_read_file(keys->path, entries, count, error);
    if (status == STATUS_OK)
        return STATUS_OK;
    free(*entries);
    *entries = NULL;
    return status;
}

/* The account goes on where its name and namespace do: a new key or limit does not forget what runs. */
static struct key *take_over(struct keys *keys, const struct key_entry *entry)
{
    for (size_t i = 0; i < keys->count; i++) {
        struct key *key = keys->keys[i];
        if (strcmp(key->entry.name, entry->name) == 0 && strcmp(key->entry.space, entry->space) == 0)
            return key;
    }
    return calloc(1, sizeof(struct key));
}

static void enlist(struct key *key, const struct key_entry *entry)
{
    key->listed = true;
    if (key->entry.name[0] == '\0') {
        key->entry = *entry;
        return;
    }
    memcpy(key->entry.digest, entry->digest, sizeof(entry->digest));
    key->entry.max_concurrent = entry->max_concurrent;
    key->entry.requests_per_minute = entry->requests_per_minute;
}

static void drop_unlisted(struct key **table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (table[i] != NULL && !table[i]->listed && table[i]->in_flight == 0)
            free(table[i]);
    free(table);
}

/* Under the lock. */
static enum status replace_table(struct keys *keys, const struct key_entry *entries, size_t count, struct error *error)
{
    struct key **table = calloc(count == 0 ? 1 : count, sizeof(*table));
    bool failed = table == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        table[i] = take_over(keys, &entries[i]);
        failed = table[i] == NULL;
    }
    if (failed) {
        if (table != NULL)
            drop_unlisted(table, count);
        return error_no_memory(error, "the API keys");
    }
    for (size_t i = 0; i < keys->count; i++)
        keys->keys[i]->listed = false;
    for (size_t i = 0; i < count; i++)
        enlist(table[i], &entries[i]);
    drop_unlisted(keys->keys, keys->count);
    keys->keys = table;
    keys->count = count;
    return STATUS_OK;
}

enum status keys_reload(struct keys *keys, struct error *error)
{
    struct key_entry *entries;
    size_t count;
    enum status status = read_sources(keys, &entries, &count, error);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&keys->lock);
    status = replace_table(keys, entries, count, error);
    pthread_mutex_unlock(&keys->lock);
    free(entries);
    return status;
}

enum status keys_open(const char *single, const char *path, struct keys **out, struct error *error)
{
    *out = NULL;
    struct keys *keys = calloc(1, sizeof(*keys));
    if (keys == NULL)
        return error_no_memory(error, "the API keys");
    keys->single = single == NULL ? "" : single;
    keys->path = path == NULL ? "" : path;
    pthread_mutex_init(&keys->lock, NULL);
    bool none = keys->single[0] == '\0' && keys->path[0] == '\0';
    enum status status = none ? STATUS_OK : keys_reload(keys, error);
    if (none || status != STATUS_OK)
        keys_close(keys);
    else
        *out = keys;
    return status;
}

void keys_close(struct keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < keys->count; i++) {
        CHECK(keys->keys[i]->in_flight == 0);
        free(keys->keys[i]);
    }
    free(keys->keys);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

size_t keys_count(struct keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    size_t count = keys->count;
    pthread_mutex_unlock(&keys->lock);
    return count;
}

/* ---- asking ---- */

/* All are looked at, also behind a match. */
static struct key *find(const struct keys *keys, const uint8_t digest[KEY_DIGEST_BYTES])
{
    struct key *found = NULL;
    for (size_t i = 0; i < keys->count; i++)
        if (key_digest_equal(keys->keys[i]->entry.digest, digest))
            found = keys->keys[i];
    return found;
}

/* The bucket as a date (GCRA): each request pushes `used_until_ns` on by its share of a minute, and may while that
 * stays within a minute from now. */
static enum status spend(struct key *key, uint64_t now_ns, uint32_t *retry_after_s, struct error *error)
{
    const struct key_entry *entry = &key->entry;
    if (entry->max_concurrent != 0 && key->in_flight >= entry->max_concurrent) {
        *retry_after_s = 1;
        error_set(error, STATUS_BUSY, "the API key \"%s\" may have %u requests at once, and has", entry->name,
                  entry->max_concurrent);
        return error_code(error, "rate_limit_exceeded");
    }
    if (entry->requests_per_minute == 0)
        return STATUS_OK;
    uint64_t share = MINUTE_NS / entry->requests_per_minute;
    uint64_t used = key->used_until_ns > now_ns ? key->used_until_ns - now_ns : 0;
    uint64_t allowed = share * (entry->requests_per_minute - 1);
    if (used <= allowed) {
        key->used_until_ns = now_ns + used + share;
        return STATUS_OK;
    }
    uint64_t wait_s = (used - allowed + 999999999) / 1000000000;
    *retry_after_s = wait_s < RETRY_S_MAX ? (uint32_t)wait_s : RETRY_S_MAX;
    error_set(error, STATUS_BUSY, "the API key \"%s\" may ask %u times a minute, and has", entry->name,
              entry->requests_per_minute);
    return error_code(error, "rate_limit_exceeded");
}

enum status keys_enter(struct keys *keys, const char *secret, size_t size, uint64_t now_ns, struct key **out,
                       uint32_t *retry_after_s, struct error *error)
{
    uint8_t digest[KEY_DIGEST_BYTES] = {0};
    bool hashed = key_digest(secret, size, digest);
    enum status status;
    pthread_mutex_lock(&keys->lock);
    struct key *key = find(keys, digest);
    if (!hashed || key == NULL) {
        error_set(error, STATUS_INVALID, "no such API key");
        status = error_code(error, "invalid_api_key");
    } else {
        status = spend(key, now_ns, retry_after_s, error);
    }
    if (status == STATUS_OK) {
        key->in_flight++;
        *out = key;
    }
    pthread_mutex_unlock(&keys->lock);
    return status;
}

void keys_leave(struct keys *keys, struct key *key)
{
    pthread_mutex_lock(&keys->lock);
    CHECK(key->in_flight > 0);
    bool last = --key->in_flight == 0 && !key->listed;
    pthread_mutex_unlock(&keys->lock);
    if (last)
        free(key);
}

const char *key_name(const struct key *key)
{
    return key->entry.name;
}

const char *key_space(const struct key *key)
{
    return key->entry.space;
}
