/* SPDX-License-Identifier: Apache-2.0
 *
 * plant.h - bugs planted on purpose, to test that the tests find them.
 *
 * TT_PLANT(NAME) is 0 in every build but those of programs called ...-planted (cmake/Tests.cmake),
 * where one bug can be chosen at run time.
 *
 * Layer:   base.
 * Threads: choose before the first use.
 * Memory:  none.
 */
#ifndef TUTTI_BASE_PLANT_H
#define TUTTI_BASE_PLANT_H

#include <stdbool.h>

#define TT_PLANT_MAP(X)            \
    X(DUPLICATE_ADDED_TWICE)       \
    X(EPOCH_IGNORED)               \
    X(REDUCE_BEFORE_ROUND)         \
    X(GRANT_ADDED_UP)              \
    X(PARKED_ROOM_LOST)            \
    X(VERDICT_BEFORE_CLAIMS)       \
    X(DESCRIPTOR_IGNORED)          \
    X(ABORT_WAITS_FOR_DEAD)        \
    X(SINK_KEPT_AFTER_END)         \
    X(SECOND_LIFE_OF_AN_OP)        \
    X(LANE_GRANTED_TOO_EARLY)      \
    X(PAYLOAD_KEPT_AFTER_END)      \
    X(STORES_NOT_AWAITED)          \
    X(NAME_TAKEN_TWICE)            \
    X(NAME_FREE_TOO_EARLY)         \
    X(OCCURRENCE_OFF_BY_ONE)       \
    X(IDENTITY_IS_ZERO)            \
    X(JOIN_ENDS_EARLY)             \
    X(TICKET_LOST_ON_CUT)          \
    X(CUT_IGNORES_LATE_RANK)       \
    X(LAYOUT_DIFFERS)              \
    X(ACTIVE_ALWAYS_DIVIDES)       \
    X(ALONE_TOO_OFTEN)             \
    X(APART_HERE_ONLY)             \
    X(EVICTION_DIFFERS)            \
    X(CACHE_SKEW)                  \
    X(COORDINATOR_TOO_EARLY)       \
    X(COMBINE_TOO_EARLY)           \
    X(LEAVING_ENDS_TICKETS)        \
    X(CREDIT_KEPT)                 \
    X(FLAT_SUM_TOO_EARLY)          \
    X(FLAT_PLACE_TOO_EARLY)        \
    X(PLACES_NOT_ASKED_AGAIN)      \
    X(SETTING_TAKEN_ANEW)          \
    X(RECIPE_OF_ANOTHER_COUNT)     \
    X(NEWER_EPOCH_TAKEN)           \
    X(WRONG_RANKS_TOLD)            \
    X(WRONG_BIDDERS_TOLD)          \
    X(SUM_ORDER_BY_RANK)           \
    X(DEADLINE_IGNORED)            \
    X(NAMED_DEADLINE_IGNORED)      \
    X(OTHER_USER_TAKEN)            \
    X(SET_RELEASED_TOO_EARLY)      \
    X(OFFER_NOT_MADE)              \
    X(ANY_SOURCE_OVERTAKEN)        \
    X(STARVED_IN_SILENCE)          \
    X(HINT_NOT_CHECKED)            \
    X(SETTING_NOT_IN_KEY)          \
    X(IDLE_AFTER_FAILURE)          \
    X(STAGE_TAKEN_TOO_EARLY)       \
    X(BATCH_TOLD_BEFORE_RESET)     \
    X(TUNED_ONE_STEP_EARLY)        \
    X(TUNED_WITHOUT_ALL)           \
    X(RESIDUAL_KEPT_AFTER_FAILURE) \
    X(RESIDUAL_COUNTED_TWICE)      \
    X(OCCURRENCE_NOT_COUNTED)      \
    X(RESIDUAL_OF_FAILED_GROUP)    \
    X(OWNERS_OF_CURRENT_CODEC)     \
    X(MERGE_BEGINS_AT_SELF)        \
    X(OWNER_KEEPS_ITS_SUM)         \
    X(ESTIMATE_KEPT_AFTER_FAILURE) \
    X(PUSH_APPLIED_TWICE)          \
    X(PULL_ANSWERED_TOO_EARLY)     \
    X(CLOCK_KEEPS_THE_DEAD)        \
    X(LATE_PUSH_COUNTED)           \
    X(BUSY_RANK_LEFT_OUT)          \
    X(CHANGED_CLAIM_MISSED)        \
    X(PUSH_WITH_A_LATER_OPTION)    \
    X(UNCOUNTED_PUSH_LOST)         \
    X(PUSH_SUMMED_AGAIN)           \
    X(PUSH_ENCODED_AGAIN)          \
    X(DECISION_NOT_SURE)           \
    X(KEEPER_DOES_NOT_ASK)         \
    X(ADOPTED_TOO_EARLY)           \
    X(ADOPTED_PUSH_COUNTED)        \
    X(PUSH_ROWS_NOT_ZEROED)        \
    X(PUSH_WITH_OTHER_ROWS)        \
    X(RELAY_COUNTS_JOINED)         \
    X(RELAY_ANSWERS_EARLY)         \
    X(RELAY_HOLDS_IN_SILENCE)      \
    X(HANDOVER_REPEATS_ENDED)      \
    X(HANDOVER_REPEATS_TOUCHED)    \
    X(STATE_NOT_KEPT)              \
    X(CARD_SENDS_ALL_AT_ONCE)      \
    X(FRAME_FORWARDED_WHOLE)       \
    X(STEPS_NOT_KEPT)              \
    X(READ_COPY_TAKEN)             \
    X(OPENED_WITHOUT_OWNER)

typedef enum tt_plant_id {
#define X(name) TT_PLANT_##name,
    TT_PLANT_MAP(X)
#undef X
        TT_PLANT_COUNT
} tt_plant_id;

#ifdef TUTTI_PLANTED_BUGS
bool tt_planted(tt_plant_id id);
bool tt_plant_choose(const char *name);
#define TT_PLANT(name) tt_planted(TT_PLANT_##name)
#else
#define TT_PLANT(name) 0
/* False: this build has no planted bugs. */
static inline bool tt_plant_choose(const char *name)
{
    (void)name;
    return false;
}
#endif

#endif
