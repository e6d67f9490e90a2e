/* See auth.h. */
#include "server/net/auth.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/net/keys.h"
#include "server/net/origin.h"

struct auth {
    struct origin_rules rules;
    struct keys *keys; /* NULL: none is asked for */
    bool has_admin;
    uint8_t admin_digest[KEY_DIGEST_BYTES];
};

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

enum status auth_open(const struct auth_args *args, struct auth **out, struct error *error)
{
    *out = NULL;
    struct auth *auth = calloc(1, sizeof(*auth));
    if (auth == NULL)
        return error_no_memory(error, "the API keys");
    const char *admin_key = or_empty(args->admin_key);
    auth->rules = (struct origin_rules){
        .origins = or_empty(args->cors_origins),
        .hosts = or_empty(args->allowed_hosts),
        .own_host = args->host,
    };
    enum status status = origin_check_rules(&auth->rules, error);
    if (status == STATUS_OK)
        status = keys_open(args->api_key, args->api_keys, &auth->keys, error);
    if (status == STATUS_OK && *admin_key != '\0') {
        status = key_option_digest(admin_key, "admin-key", auth->admin_digest, error);
        auth->has_admin = true;
    }
    if (status != STATUS_OK) {
        auth_close(auth);
        return status;
    }
    auth->rules.restricted = args->loopback && auth->keys == NULL;
    *out = auth;
    return STATUS_OK;
}

void auth_close(struct auth *auth)
{
    if (auth != NULL)
        keys_close(auth->keys);
    free(auth);
}

enum status auth_reload(struct auth *auth, struct error *error)
{
    return auth->keys == NULL ? STATUS_OK : keys_reload(auth->keys, error);
}

/* ---- a request ---- */

/* Where clients put their keys, without the blanks around. */
struct presented {
    const char *secret;
    size_t size;
};

static struct presented trim(const char *value)
{
    value += strspn(value, " \t");
    size_t size = strlen(value);
    while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
        size--;
    return (struct presented){value, size};
}

/* An empty key is none. */
static struct presented bearer(const char *authorization)
{
    static const char scheme[] = "Bearer";
    size_t size = sizeof(scheme) - 1;
    if (authorization == NULL || strncasecmp(authorization, scheme, size) != 0 ||
        (authorization[size] != ' ' && authorization[size] != '\t'))
        return trim("");
    return trim(authorization + size);
}

static enum status refuse_key(struct error *error, const char *what)
{
    error_set(error, STATUS_INVALID,
              "%s is missing or wrong; send it as `Authorization: Bearer KEY` or `x-api-key: KEY`", what);
    return error_code(error, "invalid_api_key");
}

static enum status judge_admin(const struct auth *auth, const struct presented presented[2], struct error *error)
{
    bool found = false;
    for (int i = 0; i < 2; i++) {
        uint8_t digest[KEY_DIGEST_BYTES];
        bool hashed = key_digest(presented[i].secret, presented[i].size, digest);
        found |= hashed && key_digest_equal(digest, auth->admin_digest);
    }
    return found ? STATUS_OK : refuse_key(error, "the admin key");
}

static enum status judge_key(struct auth *auth, const struct presented presented[2], uint64_t now_ns,
                             struct auth_grant *grant, struct error *error)
{
    enum status status = STATUS_INVALID;
    for (int i = 0; i < 2 && status == STATUS_INVALID; i++)
        status = keys_enter(auth->keys, presented[i].secret, presented[i].size, now_ns, &grant->key,
                            &grant->retry_after_s, error);
    if (status == STATUS_OK)
        grant->space = key_space(grant->key);
    return status == STATUS_INVALID ? refuse_key(error, "the API key") : status;
}

enum status auth_judge(struct auth *auth, const struct auth_request *request, uint64_t now_ns, struct auth_grant *grant,
                       struct error *error)
{
    *grant = (struct auth_grant){.space = ""};
    enum status status = origin_judge(&auth->rules, request->host, request->origin, error);
    if (status != STATUS_OK || request->need == AUTH_NONE)
        return status;
    struct presented presented[2] = {bearer(request->authorization), trim(or_empty(request->api_key))};
    if (request->need == AUTH_ADMIN && auth->has_admin)
        return judge_admin(auth, presented, error);
    return auth->keys == NULL ? STATUS_OK : judge_key(auth, presented, now_ns, grant, error);
}

void auth_end(struct auth *auth, struct auth_grant *grant)
{
    if (grant->key != NULL)
        keys_leave(auth->keys, grant->key);
    grant->key = NULL;
}

bool auth_is_cors_origin(const struct auth *auth, const char *origin)
{
    return origin_is_listed(&auth->rules, origin);
}

/* ---- for people ---- */

bool auth_is_open(const struct auth *auth)
{
    return auth->keys == NULL && !auth->rules.restricted;
}

void auth_describe(const struct auth *auth, struct buffer *out)
{
    if (auth->keys != NULL) {
        size_t count = keys_count(auth->keys);
        buffer_printf(out, "%zu API key%s", count, count == 1 ? "" : "s");
    } else if (auth->rules.restricted) {
        buffer_text(out, "no API key; programs and pages of this machine only");
    } else {
        buffer_text(out, "WARNING: no API key, so anybody who reaches this address may ask; --api-key asks for one");
    }
    if (auth->has_admin)
        buffer_text(out, "; an admin key for /metrics");
}
