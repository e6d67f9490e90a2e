/* See test_facts.h. */
#include "tests/support/test_facts.h"

const struct api_facts test_facts = {
    .model_id = "tiny",
    .created_unix_s = 1700000000,
    .context = 4096,
    .context_trained = 8192,
    .vocabulary = 1000,
    .choices_max = 8,
    .fingerprint = "fp_0123",
    .version = "0.1",
    .eos_text = "<end>",
    .has_chat_template = true,
};
