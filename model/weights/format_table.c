/* The formats that weights can be read from, tried in this order. */
#include "model/weights/weights.h"

const struct weights_format *const weights_formats[] = {
    &weights_gguf,
    NULL,
};
