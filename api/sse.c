/* See sse.h. */
#include "api/sse.h"

void sse_begin(struct buffer *out)
{
    buffer_text(out, "data: ");
}

void sse_end(struct buffer *out)
{
    buffer_text(out, "\n\n");
}

void sse_done(struct buffer *out)
{
    buffer_text(out, "data: [DONE]\n\n");
}

void sse_comment(struct buffer *out)
{
    buffer_text(out, ": ping\n\n");
}
