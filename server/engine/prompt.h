/* Conversation -> prompt text with spans -> ids: the one path that chat requests, /tokenize with messages, `incipit
 * render` and counting share. Needs no engine; any thread, each with its own arena and scratch. */
#ifndef SERVER_ENGINE_PROMPT_H
#define SERVER_ENGINE_PROMPT_H

#include "kernels/base/arena.h"
#include "kernels/base/status.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

/* Where the template raises, it is tried again with turns merged, then with system messages folded in too (chat.h):
 * many templates know nothing but user and assistant in turn. The error is that of the messages as they came. */
enum status prompt_render(const struct chat_template *chat_template, const struct chat *chat, struct arena *arena,
                          struct chat_prompt *out, struct error *error);
/* Appends the ids; control tokens only from trusted spans. BOS is put first if the model wants it and it is not
 * there. */
enum status prompt_tokenize(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                            const struct chat_prompt *prompt, struct tokenizer_ids *out, struct error *error);

#endif
