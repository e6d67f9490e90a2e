/* Request targets. libmicrohttpd hands them over as sent (its own decoding cuts at %00). */
#include <string.h>

#include "kernels/base/utf8.h"
#include "server/net/net_private.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "http://host:1/path" is "/path". */
static const char *skip_authority(const char *url)
{
    const char *scheme = strstr(url, "://");
    if (*url == '/' || scheme == NULL)
        return url;
    const char *path = scheme + 3 + strcspn(scheme + 3, "/?");
    return *path == '/' ? path : "/";
}

enum status url_path(const char *url, struct buffer *path, struct error *error)
{
    for (url = skip_authority(url); *url != '\0' && *url != '?'; url++) {
        if ((unsigned char)*url <= ' ' || *url == 0x7f)
            return error_set(error, STATUS_INVALID, "the path has a blank or a control byte; it must be escaped");
        if (*url != '%') {
            buffer_byte(path, *url);
            continue;
        }
        int high = hex_digit(url[1]);
        int low = high < 0 ? -1 : hex_digit(url[2]);
        if (low < 0 || high + low == 0)
            return error_set(error, STATUS_INVALID, "the path has an escape that is no character");
        buffer_byte(path, (char)(high * 16 + low));
        url += 2;
    }
    buffer_text(path, "");
    if (path->failed)
        return error_no_memory(error, "the path");
    if (utf8_invalid_at(path->data, path->size) != path->size) {
        buffer_clear(path);
        buffer_text(path, "");
        return error_set(error, STATUS_INVALID, "the path is not UTF-8");
    }
    return STATUS_OK;
}
