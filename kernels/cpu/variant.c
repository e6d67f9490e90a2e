/* Which instruction sets this processor and this system have, and the variants that need them. */
#include <string.h>

#include "kernels/base/status.h"
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

/* XCR0 bits: the system saves these registers. */
#define STATE_AVX 0x06u
#define STATE_AVX512 0xe6u

#define LEAF1_ECX_FMA (1u << 12)
#define LEAF1_ECX_OSXSAVE (1u << 27)
#define LEAF1_ECX_F16C (1u << 29)
#define LEAF7_EBX_AVX2 (1u << 5)
#define LEAF7_EBX_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F, DQ, BW, VL */
#define LEAF7_ECX_VNNI (1u << 11)

struct cpu_features {
    bool avx2;
    bool avx512;
};

static uint32_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* AVX2 means AVX2, FMA and F16C; AVX-512 means F, BW, DQ, VL and VNNI on top of that. */
static struct cpu_features find_features(void)
{
    struct cpu_features features = {false, false};
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return features;
    uint32_t needed = LEAF1_ECX_FMA | LEAF1_ECX_OSXSAVE | LEAF1_ECX_F16C;
    if ((ecx & needed) != needed || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return features;
    uint32_t states = saved_states();
    features.avx2 = (ebx & LEAF7_EBX_AVX2) != 0 && (states & STATE_AVX) == STATE_AVX;
    features.avx512 = features.avx2 && (ebx & LEAF7_EBX_AVX512) == LEAF7_EBX_AVX512 && (ecx & LEAF7_ECX_VNNI) != 0 &&
                      (states & STATE_AVX512) == STATE_AVX512;
    return features;
}

static bool has_avx2(void)
{
    return find_features().avx2;
}

static bool has_avx512(void)
{
    return find_features().avx512;
}

#endif

static bool has_nothing(void)
{
    return true;
}

/* Best first. */
static const struct {
    const struct cpu_variant *variant;
    bool (*available)(void);
} variants[] = {
#if defined(__x86_64__)
    {&cpu_variant_avx512, has_avx512},
    {&cpu_variant_avx2, has_avx2},
#endif
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
