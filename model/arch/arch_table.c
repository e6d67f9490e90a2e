/* The architectures this program runs. */
#include "model/arch/arch.h"

const struct arch *const arch_table[] = {
    &arch_llama,
    NULL,
};
