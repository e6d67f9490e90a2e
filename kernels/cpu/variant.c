/* Which instruction sets this processor and this system have, and the variants that need them. */
#include <string.h>

#include "kernels/base/status.h"
#include "kernels/cpu/cpu.h"

static bool has_nothing(void)
{
    return true;
}

/* Best first. */
static const struct {
    const struct cpu_variant *variant;
    bool (*available)(void);
} variants[] = {
    {&cpu_variant_scalar, has_nothing},
};

const struct cpu_variant *cpu_variant_find(const char *name, struct error *error)
{
    bool any = strcmp(name, "auto") == 0, known = false;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        bool named = strcmp(name, variants[i].variant->name) == 0;
        if ((any || named) && variants[i].available())
            return variants[i].variant;
        known = known || named;
    }
    if (known)
        error_field(error, STATUS_UNSUPPORTED, "cpu", "this processor does not have what the %s kernels need", name);
    else
        error_field(error, STATUS_INVALID, "cpu", "cpu is \"%.32s\"; it must be auto, scalar, avx2 or avx512", name);
    return NULL;
}
