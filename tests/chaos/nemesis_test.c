/* SPDX-License-Identifier: MIT */
/* nemesis_test.c - the plans of disasters: repeatable, complete, and never two on one party at a time. */
#include "tests/chaos/nemesis.h"
#include "tests/support/test.h"

enum { SEEDS = 50, SPAN_MS = 20000 };

static struct nemesis_plan plan, other;

static struct nemesis_options options_of(uint64_t seed)
{
    return (struct nemesis_options){.seed = seed, .span_ms = SPAN_MS, .gap_ms = 200};
}

TEST(the_same_seed_gives_the_same_plan_and_another_one_another)
{
    struct nemesis_options options = options_of(7);
    nemesis_plan(&options, &plan);
    nemesis_plan(&options, &other);
    assert_true(plan.count > 10);
    assert_int_equal(plan.count, other.count);
    assert_memory_equal(plan.entries, other.entries, plan.count * sizeof *plan.entries);
    options.seed = 8;
    nemesis_plan(&options, &other);
    assert_true(plan.count != other.count ||
                memcmp(plan.entries, other.entries, plan.count * sizeof *plan.entries) != 0);
}

/* However Redis is deployed: those that can befall it, and no others. */
TEST(every_kind_of_fault_is_planned_by_some_seed_where_it_can_be)
{
    for (unsigned topology = FAULT_ONE_REDIS; topology <= FAULT_CLUSTER; topology *= 2) {
        uint32_t seen[FAULT_KINDS] = {0};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct nemesis_options options = options_of(seed);
            options.topology = (enum fault_topology)topology;
            nemesis_plan(&options, &plan);
            for (size_t i = 0; i < plan.count; i++)
                seen[plan.entries[i].fault.kind]++;
        }
        for (int kind = 0; kind < FAULT_KINDS; kind++)
            assert_int_equal(seen[kind] > 0,
                             (fault_trait((enum fault_kind)kind)->topologies & topology) != 0);
    }
}

static bool same_party(const struct fault *one, const struct fault *another)
{
    bool links = fault_trait(one->kind)->party == FAULT_OF_LINK;
    if (links != (fault_trait(another->kind)->party == FAULT_OF_LINK) || one->side != another->side)
        return false;
    return one->process == another->process || (links && one->process == FAULT_EVERYBODY) ||
           (links && another->process == FAULT_EVERYBODY);
}

TEST(a_party_has_one_fault_at_a_time_and_all_are_mended_within_the_span)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct nemesis_options options = options_of(seed);
        nemesis_plan(&options, &plan);
        for (size_t i = 0; i < plan.count; i++) {
            const struct nemesis_entry *entry = &plan.entries[i];
            assert_true(entry->begin_ms < entry->end_ms && entry->end_ms <= SPAN_MS);
            for (size_t j = 0; j < i; j++) {
                const struct nemesis_entry *before = &plan.entries[j];
                assert_true(before->begin_ms <= entry->begin_ms);
                if (same_party(&before->fault, &entry->fault))
                    assert_true(before->end_ms < entry->begin_ms);
            }
        }
    }
}

TEST(who_is_not_mortal_is_not_killed)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct nemesis_options options = options_of(seed);
        options.first_mortal = SCENE_PROCESSES - 1;
        nemesis_plan(&options, &plan);
        for (size_t i = 0; i < plan.count; i++) {
            const struct fault *fault = &plan.entries[i].fault;
            if (fault->kind == FAULT_CATALOGD_KILL)
                assert_int_equal(fault->process, SCENE_PROCESSES - 1);
        }
    }
}
