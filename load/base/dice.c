/* SPDX-License-Identifier: MIT */
/* dice.c - see dice.h. */
#include "load/base/dice.h"

#include "app/common/random.h"

#include <math.h>

enum { ZIPF_TRIES = 1000 }; /* one draw in five fails at most, so this is never reached */

uint64_t dice_next(uint64_t *state)
{
    return random_next(state);
}

double dice_part(uint64_t *state)
{
    return ((double)(dice_next(state) >> 12) + 0.5) * 0x1p-52;
}

uint64_t dice_below(uint64_t *state, uint64_t count)
{
    return (dice_next(state) >> 32) * count >> 32;
}

/* ---- Zipf: h(x) = x^-exponent, its integral H, and the inverse of H ---- */

/* log1p(x) / x and expm1(x) / x, also where x is next to 0. */
static double log1p_ratio(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double expm1_ratio(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double hat(const struct dice_zipf *zipf, double x)
{
    return exp(-zipf->exponent * log(x));
}

static double integral(const struct dice_zipf *zipf, double x)
{
    double log_x = log(x);
    return expm1_ratio((1 - zipf->exponent) * log_x) * log_x;
}

static double integral_inverse(const struct dice_zipf *zipf, double y)
{
    double t = y * (1 - zipf->exponent);
    return exp(log1p_ratio(t < -1 ? -1 : t) * y); /* rounding may lead below -1 */
}

void dice_zipf_init(struct dice_zipf *zipf, uint32_t rank_count, double exponent)
{
    *zipf = (struct dice_zipf){.rank_count = rank_count, .exponent = exponent};
    zipf->first = integral(zipf, 1.5) - 1;
    zipf->last = integral(zipf, rank_count + 0.5);
    zipf->certain = 2 - integral_inverse(zipf, integral(zipf, 2.5) - hat(zipf, 2));
}

static double rank_near(const struct dice_zipf *zipf, double x)
{
    double rank = floor(x + 0.5);
    if (rank < 1)
        return 1;
    return rank < zipf->rank_count ? rank : zipf->rank_count;
}

uint32_t dice_zipf_draw(const struct dice_zipf *zipf, uint64_t *state)
{
    double rank = 1;
    for (int i = 0; i < ZIPF_TRIES && zipf->rank_count > 1; i++) {
        double y = zipf->last + dice_part(state) * (zipf->first - zipf->last);
        double x = integral_inverse(zipf, y);
        rank = rank_near(zipf, x);
        if (rank - x <= zipf->certain || y >= integral(zipf, rank + 0.5) - hat(zipf, rank))
            break;
    }
    return (uint32_t)rank;
}
