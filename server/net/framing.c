/* Whether a request's framing can be trusted. Two programs in a row that read one request differently are how requests
 * are smuggled, so what can be read in two ways is refused, and the connection ends.
 *
 * libmicrohttpd reads leniently and does not tell: it ends lines at a bare LF, cuts values at a NUL, and adds a folded
 * line to the header's *name*. But it parses in place: from the method on, its buffer holds the request line and the
 * headers as they came, with NULs over what it split at (blanks of the request line, the first colon of a line, both
 * bytes of CRLF). So the block can be walked once more, strictly. */
#include <string.h>
#include <strings.h>

#include "server/net/net_private.h"

#define LINE_END 2 /* bytes of CRLF */

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_value_byte(char c)
{
    return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

/* Behind the CRLF that stands at `at`; NULL: something else stands there. */
static const char *skip_line_end(const char *at, const char *end)
{
    return end - at >= LINE_END && at[0] == '\0' && at[1] == '\0' ? at + LINE_END : NULL;
}

/* Behind a header line; NULL: it is none. "Content-Length : 5" is a length for some readers, and for others a header
 * that they do not know; a line that begins with a blank goes on with the one before. */
static const char *skip_header(const char *at, const char *end)
{
    const char *name = at;
    while (at < end && is_name_byte(*at))
        at++;
    if (at == name || at == end || *at++ != '\0')
        return NULL;
    while (at < end && is_value_byte(*at))
        at++;
    return skip_line_end(at, end);
}

bool framing_block_is_clear(const char *block, size_t size, const char *version)
{
    const char *end = block + size;
    if (version < block || version >= end)
        return false;
    const char *at = skip_line_end(version + strnlen(version, (size_t)(end - version)), end);
    while (at != NULL && end - at > LINE_END)
        at = skip_header(at, end);
    return at != NULL && skip_line_end(at, end) == end;
}

struct framing {
    uint32_t hosts;
    uint32_t lengths;
    uint32_t encodings;
    bool chunked; /* the last of the encodings */
};

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct framing *framing = context;
    (void)kind;
    if (strcasecmp(name, "Host") == 0)
        framing->hosts++;
    else if (strcasecmp(name, "Content-Length") == 0)
        framing->lengths++;
    else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
        framing->chunked = value != NULL && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

static const char *problem(const struct framing *framing, bool is_http_1_0)
{
    if (framing->lengths + framing->encodings > 1)
        return "the body's length is given twice";
    if (framing->encodings == 1 && !framing->chunked)
        return "Transfer-Encoding must be chunked, and nothing else";
    if (framing->encodings == 1 && is_http_1_0)
        return "HTTP/1.0 has no Transfer-Encoding";
    if (framing->hosts > 1 || (framing->hosts == 0 && !is_http_1_0))
        return "a request has one Host header";
    return NULL;
}

bool framing_is_clear(struct exchange *exchange, const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct framing framing = {0};
    MHD_get_connection_values(exchange->mhd, MHD_HEADER_KIND, look_at_header, &framing);
    const char *reason = problem(&framing, strcmp(version, "HTTP/1.0") == 0);
    if (info == NULL || !framing_block_is_clear(method, info->header_size, version))
        reason = "the header block has a line that can be read in two ways: names have no blanks, values no control "
                 "bytes, no line goes on in the next, and each ends with CR LF";
    if (reason != NULL)
        exchange_refuse(exchange, STATUS_INVALID, "invalid_request", reason);
    return reason == NULL;
}
