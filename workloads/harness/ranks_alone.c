#include "ranks.h"

#include <string.h>

const char *ranks_library(void) { return NULL; }

void ranks_begin(int *argc, char ***argv) { (void)argc, (void)argv; }

void ranks_end(void) {}

int ranks_count(void) { return 1; }

int ranks_mine(void) { return 0; }

int ranks_on_node(void) { return 1; }

void ranks_barrier(void) {}

double ranks_largest(double mine) { return mine; }

bool ranks_any(bool mine) { return mine; }

uint64_t ranks_total(uint64_t mine) { return mine; }

uint64_t ranks_total_on_node(uint64_t mine) { return mine; }

int ranks_from_first(int mine) { return mine; }

void ranks_each(int mine, int *of_each) { of_each[0] = mine; }

void ranks_unite_on_node(void *bits, size_t bytes) { (void)bits, (void)bytes; }

void ranks_add_to_first(double *values, size_t count) { (void)values, (void)count; }

void ranks_exchange(const struct ranks_message *sent, int number_sent,
                    const struct ranks_message *received, int number_received) {
    for (int i = 0; i < number_sent && i < number_received; i++)
        memcpy(received[i].numbers, sent[i].numbers, sent[i].count * sizeof(double));
}

void ranks_give_up(const char *why) { (void)why; }
