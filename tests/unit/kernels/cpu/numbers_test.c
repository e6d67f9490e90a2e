/* Half precision and exp: the scalar definitions that every variant reproduces. */
#include <math.h>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/half.h"
#include "tests/unit/unit.h"

/* The value of a half by its definition. */
static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

START_TEST(all_halves_widen_to_their_value_and_come_back)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float wide = half_to_float((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            if ((h & 0x3ff) == 0)
                ck_assert(isinf(wide) && (wide < 0) == (h >> 15 == 1));
            else
                ck_assert(isnan(wide));
            ck_assert_uint_eq(float_to_half(wide), (h & 0x3ff) == 0 ? h : (h | 0x200));
            continue;
        }
        ck_assert((double)wide == half_value((uint16_t)h) && (signbit(wide) != 0) == (h >> 15 != 0));
        ck_assert_uint_eq(float_to_half(wide), h);
    }
}
END_TEST

/* Between two neighbouring halves: just below, at and just above the middle. */
START_TEST(narrowing_rounds_to_the_nearest_and_ties_to_even)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float middle = (float)((half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2);
        ck_assert_uint_eq(float_to_half(middle), h % 2 == 0 ? h : h + 1);
        ck_assert_uint_eq(float_to_half(nextafterf(middle, 0.0f)), h);
        ck_assert_uint_eq(float_to_half(nextafterf(middle, INFINITY)), h + 1);
        ck_assert_uint_eq(float_to_half(-middle), 0x8000 | (h % 2 == 0 ? h : h + 1));
    }
    ck_assert_uint_eq(float_to_half(65519.996f), 0x7bff);
    ck_assert_uint_eq(float_to_half(65520.0f), 0x7c00);
    ck_assert_uint_eq(float_to_half(1e-30f), 0);
}
END_TEST

START_TEST(exp_is_within_two_units_in_the_last_place)
{
    uint64_t random = test_seed();
    double worst = 0;
    for (int i = 0; i < 2000000; i++) {
        float x = (float)(test_random_unit(&random) * 175.6 - 87.3);
        double expected = exp((double)x);
        worst = fmax(worst, fabs((double)exp_f32(x) - expected) / expected);
    }
    ck_assert_msg(worst < 0x1p-22, "the worst relative error is %g", worst);
}
END_TEST

START_TEST(exp_has_defined_ends)
{
    ck_assert(exp_f32(0.0f) == 1.0f && exp_f32(-0.0f) == 1.0f);
    ck_assert(exp_f32(-INFINITY) == 0.0f && exp_f32(-1000.0f) == 0.0f && exp_f32(-87.34f) == 0.0f);
    ck_assert(exp_f32(EXP_LOW) >= 1.17549435e-38f);
    ck_assert(isinf(exp_f32(INFINITY)) && isinf(exp_f32(88.4f)) && isfinite(exp_f32(EXP_HIGH)));
    ck_assert(isnan(exp_f32(NAN)));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("numbers");
    TCase *t = tcase_create("numbers");
    tcase_add_test(t, all_halves_widen_to_their_value_and_come_back);
    tcase_add_test(t, narrowing_rounds_to_the_nearest_and_ties_to_even);
    tcase_add_test(t, exp_is_within_two_units_in_the_last_place);
    tcase_add_test(t, exp_has_defined_ends);
    suite_add_tcase(s, t);
    return s;
}
