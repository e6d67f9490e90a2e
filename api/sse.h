/* Server-sent events: one JSON document a frame, on one `data:` line, LF only. No `id:` and no `retry:` lines: clients'
 * decoders turn the blank line after them into an empty event. */
#ifndef API_SSE_H
#define API_SSE_H

#include "kernels/base/buffer.h"

/* The document goes between begin and end; JSON text has no line breaks of its own. */
void sse_begin(struct buffer *out);
void sse_end(struct buffer *out);
void sse_done(struct buffer *out);    /* data: [DONE] */
void sse_comment(struct buffer *out); /* ": ping" */

#endif
