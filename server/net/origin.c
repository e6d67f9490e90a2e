/* See origin.h. */
#include "server/net/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"
#define NOT_IN_HOSTS "/\\?#@,; \t"

/* A part of a longer text. */
struct part {
    const char *text;
    size_t size;
};

static bool part_is(struct part part, const char *text)
{
    return strlen(text) == part.size && strncasecmp(part.text, text, part.size) == 0;
}

/* ---- lists ---- */

/* The next entry, *at moving past it; false: there is none. */
static bool next_entry(const char **at, struct part *entry)
{
    *at += strspn(*at, " \t,");
    entry->text = *at;
    entry->size = strcspn(*at, ",");
    *at += entry->size;
    while (entry->size > 0 && strchr(" \t", entry->text[entry->size - 1]) != NULL)
        entry->size--;
    return entry->size > 0;
}

static bool list_has(const char *list, struct part value)
{
    struct part entry;
    while (next_entry(&list, &entry))
        if (entry.size == value.size && strncasecmp(entry.text, value.text, value.size) == 0)
            return true;
    return false;
}

/* ---- hosts ---- */

/* "name:80" is "name", "[::1]:80" is "[::1]"; empty: not a host with at most a port. What other programs end a host at
 * ("evil.example/.localhost", "evil.example@a.localhost") is in none. */
static struct part host_part(const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : host + strcspn(host, ":" NOT_IN_HOSTS);
    struct part none = {host, 0};
    if (end == NULL)
        return none;
    end += *end == ']';
    if (*end != '\0' && (*end != ':' || end[1 + strspn(end + 1, DIGITS)] != '\0'))
        return none;
    struct part part = {host, (size_t)(end - host)};
    if (part.size > 1 && part.text[part.size - 1] == '.')
        part.size--; /* the root, spelled out */
    return part;
}

static bool is_loopback_name(struct part host)
{
    static const char ending[] = ".localhost";
    size_t size = sizeof(ending) - 1;
    return part_is(host, "localhost") ||
           (host.size > size && strncasecmp(host.text + host.size - size, ending, size) == 0);
}

/* Dotted numbers are never looked up as a name, whatever their count: "127.1" is 127.0.0.1. */
static bool is_loopback_address(struct part host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    struct in6_addr six;
    bool brackets = host.size > 2 && *host.text == '[';
    if (host.size >= sizeof(text))
        return false;
    snprintf(text, sizeof(text), "%.*s", (int)(host.size - (brackets ? 2 : 0)), host.text + (brackets ? 1 : 0));
    if (brackets)
        return inet_pton(AF_INET6, text, &six) == 1 &&
               (IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET));
    return text[strspn(text, DIGITS ".")] == '\0' && inet_aton(text, &four) != 0 &&
           ntohl(four.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

bool origin_host_is_loopback(const char *host)
{
    struct part part = host_part(host);
    return part.size > 0 && (is_loopback_name(part) || is_loopback_address(part));
}

/* ---- origins ---- */

/* What follows the scheme of a web page's origin; NULL: another scheme, or none. */
static const char *origin_host(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
        if (strncasecmp(origin, schemes[i], strlen(schemes[i])) == 0)
            return origin + strlen(schemes[i]);
    return NULL;
}

bool origin_is_loopback(const char *origin)
{
    const char *host = origin_host(origin);
    return host != NULL && origin_host_is_loopback(host);
}

bool origin_is_listed(const struct origin_rules *rules, const char *origin)
{
    return list_has(rules->origins, (struct part){"*", 1}) ||
           list_has(rules->origins, (struct part){origin, strlen(origin)});
}

/* ---- judging ---- */

static bool host_is_ours(const struct origin_rules *rules, const char *host)
{
    struct part part = host_part(host);
    return part.size > 0 && (origin_host_is_loopback(host) || list_has(rules->hosts, part) ||
                             (rules->own_host != NULL && part_is(part, rules->own_host)));
}

static enum status deny(struct error *error, const char *header, const char *value, const char *option)
{
    error_set(
        error, STATUS_INVALID,
        "the %s header is \"%.100s\", which is not this machine: without an API key only its own programs and pages "
        "are answered; --%s allows more, --api-key asks for a key instead",
        header, value, option);
    return error_code(error, "permission_denied");
}

/* A page that this server's own name serves is no stranger: its origin holds that name. */
enum status origin_judge(const struct origin_rules *rules, const char *host, const char *origin, struct error *error)
{
    if (!rules->restricted)
        return STATUS_OK;
    if (host != NULL && !host_is_ours(rules, host))
        return deny(error, "Host", host, "allowed-host");
    if (origin == NULL || origin_is_listed(rules, origin))
        return STATUS_OK;
    const char *page = origin_host(origin);
    return page != NULL && host_is_ours(rules, page) ? STATUS_OK : deny(error, "Origin", origin, "cors-origin");
}

/* ---- options ---- */

static bool origin_is_plausible(struct part entry)
{
    if (part_is(entry, "*") || part_is(entry, "null"))
        return true;
    const char *colon = memchr(entry.text, ':', entry.size);
    if (colon == NULL || strncmp(colon, "://", 3) != 0)
        return false;
    const char *host = colon + 3;
    const char *end = entry.text + entry.size;
    return host < end && memchr(host, '/', (size_t)(end - host)) == NULL;
}

static bool host_is_plausible(struct part entry)
{
    return *entry.text == '[' ? entry.text[entry.size - 1] == ']' : strcspn(entry.text, "/:*@ \t") >= entry.size;
}

enum status origin_check_rules(const struct origin_rules *rules, struct error *error)
{
    struct part entry;
    for (const char *at = rules->origins; next_entry(&at, &entry);)
        if (!origin_is_plausible(entry))
            return error_field(error, STATUS_INVALID, "cors-origin",
                               "--cors-origin has \"%.*s\"; an entry is * or as browsers send it: https://host or "
                               "http://host:port, with no path and no slash at the end",
                               (int)(entry.size < 100 ? entry.size : 100), entry.text);
    for (const char *at = rules->hosts; next_entry(&at, &entry);)
        if (!host_is_plausible(entry))
            return error_field(error, STATUS_INVALID, "allowed-host",
                               "--allowed-host has \"%.*s\"; an entry is a name or an address, with no scheme and no "
                               "port: llm.example.com",
                               (int)(entry.size < 100 ? entry.size : 100), entry.text);
    return STATUS_OK;
}
