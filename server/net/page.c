/* The table of the server's own pages. */
#include "server/net/page.h"

#include <string.h>

#include "kernels/base/check.h"
#include "server/net/exposition.h"
#include "server/net/net_private.h"

static const struct page pages[] = {
    {"/health", "application/json", AUTH_NONE, health_write},
    {"/ping", "application/json", AUTH_NONE, health_write},
    {"/metrics", EXPOSITION_TYPE, AUTH_ADMIN, metrics_write},
};

const struct page *page_find(const char *path)
{
    const struct page *page = pages;
    while (page < pages + sizeof(pages) / sizeof(*pages) && strcmp(page->path, path) != 0)
        page++;
    CHECK(page < pages + sizeof(pages) / sizeof(*pages));
    return page;
}
