/* JSON text to chat values, for tests: strict enough for the files of tests/golden, and numbers keep their text. */
#ifndef TESTS_SUPPORT_CHAT_JSON_H
#define TESTS_SUPPORT_CHAT_JSON_H

#include "kernels/base/arena.h"
#include "model/text/chat.h"

/* NULL when the text is not JSON. */
struct chat_value *chat_json_parse(struct arena *arena, const char *text, size_t size);
/* The file at `path` (from the repository's root) as JSON; ends the test program when it cannot be read. */
struct chat_value *chat_json_file(struct arena *arena, const char *path);
/* Gives every value below a message its index and field, and marks role names as trusted, as an endpoint does. */
void chat_json_mark(struct arena *arena, struct chat_value *messages);

#endif
