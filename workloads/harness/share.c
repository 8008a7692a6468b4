#include "share.h"

#include "stayput_share.h"

#include <stdatomic.h>

static struct stayput_share share = {NULL, -1};
static _Atomic uint32_t awake = 1;
static uint32_t threads = 1;

/* What was said last is true in the end, whichever of several threads said it. */
static void say(void) {
    uint32_t said;
    do {
        said = atomic_load(&awake);
        stayput_share_want(&share, said);
    } while (atomic_load(&awake) != said);
}

void share_join(void) {
    if (stayput_share_join(&share) == 0)
        say();
}

bool share_is_joined(void) { return share.page != NULL; }

void share_team(int team) {
    if (!share_is_joined())
        return;
    threads = (uint32_t)team;
    atomic_store(&awake, threads);
    say();
}

bool share_is_crowded(void) {
    return share_is_joined() && stayput_share_granted(&share, threads) < threads;
}

void share_sleep(void) {
    if (!share_is_joined())
        return;
    atomic_fetch_sub(&awake, 1);
    say();
}

void share_wake(void) {
    if (!share_is_joined())
        return;
    atomic_fetch_add(&awake, 1);
    say();
}
