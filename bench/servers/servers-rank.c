/* SPDX-License-Identifier: Apache-2.0
 *
 * servers-rank.c - one worker of bench/servers. Each line of the driver is answered by one line:
 *
 *   store POLICY UPDATE       close the store, open another. Answer: 0
 *   sum BYTES COUNT           push_pull alone. Answer: nanoseconds of each, -1 if a value is wrong
 *   allreduce BYTES COUNT     the same by an all-reduce
 *   rows ROWS LENGTH CHOSEN COUNT
 *                             push_pull of so many rows of a table; 0: of all of it. Answer: as sum
 *   table FILE                the training step: as bench-schedule-rank reads it
 *   steps store|fifo SERVERS COLD WARM COUNT
 *                             run it, by the store, by priority; or by servers that sum whole
 *                             tensors as they arrive: the last SERVERS ranks. Answer: nanoseconds
 *   policy STEPS SEED BASE_US EXP_US SLOW_RANK SLOW_US STALENESS QUORUM
 *                             iterations of slept computation. Answer: iterations a second, reads,
 *                             reads that break the bound, mean staleness of pushes, oldest push
 * missing
 */
#include <inttypes.h>
#include <math.h>

#include "servers_rank.h"

enum { TRANSFERS_MAX = 512, SERVERS_MAX = 16 };

typedef struct transfer {
    uint64_t elements;
    double use_us;   /* from the start of forward */
    double ready_us; /* from the start of backward */
    int place;       /* of its first use: 0 is first */
    float *memory;
    float *input; /* of a FIFO server: by worker */
    char name[32];
    tutti_handle *handle;
    tutti_handle *sent;
    tutti_handle *arrivals[SERVERS_MAX];
} transfer;

typedef struct step_table {
    double forward_us, backward_us;
    uint32_t count;
    transfer transfers[TRANSFERS_MAX];
    uint32_t by_use[TRANSFERS_MAX];
    uint32_t by_ready[TRANSFERS_MAX];
} step_table;

/* ---- sums ---- */

static bool is_right(const servers_rank *self, const float *values, uint64_t count)
{
    const float expected = (float)self->size * (float)(self->size + 1) / 2;
    bool is_right = true;
    for (uint64_t i = 0; i < count && is_right; i++) {
        is_right = values[i] == expected;
    }
    return is_right;
}

static void sum_run(servers_rank *self, bool is_stored, uint64_t bytes, int count)
{
    const uint64_t elements = bytes / sizeof(float);
    float *input = servers_memory(bytes), *output = servers_memory(bytes);
    char name[32];
    (void)snprintf(name, sizeof(name), "sum%u", self->serial++);
    for (uint64_t i = 0; i < elements; i++) {
        input[i] = (float)(self->rank + 1);
    }
    if (is_stored) {
        rank_must(self->context, tutti_store_add(self->store, name, NULL, elements, TUTTI_F32),
                  "add");
    }
    for (int i = 0; i < count; i++) {
        tutti_store_call call = TUTTI_STORE_CALL_INIT;
        tutti_call reduce = TUTTI_CALL_INIT;
        tutti_handle *handle = NULL;
        call.verb = TUTTI_STORE_PUSH_PULL;
        call.name = name;
        call.input = reduce.input = input;
        call.output = reduce.output = output;
        reduce.count = elements;
        servers_meet(self);
        const int64_t begin_ns = bench_now_ns();
        if (is_stored) {
            handle = servers_start(self, call);
        } else {
            rank_must(self->context, tutti_start(self->context, &reduce, &handle), "all-reduce");
        }
        servers_finish(self, handle, "sum");
        const long long took_ns = (long long)(bench_now_ns() - begin_ns);
        fprintf(self->line.answers, "%lld ", is_right(self, output, elements) ? took_ns : -1);
    }
    fprintf(self->line.answers, "\n");
    free(input);
    free(output);
}

/* Rows lie apart as evenly as they can, and are other ones at each worker. */
static void rows_run(servers_rank *self, const char *words)
{
    uint64_t rows, length, chosen;
    int count;
    if (sscanf(words, "rows %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &rows, &length, &chosen,
               &count) != 4 ||
        chosen * self->size > rows) {
        rank_die(self->context, words);
    }
    const uint64_t elements = rows * length;
    float *values = servers_memory(elements * sizeof(float));
    uint64_t *numbers = servers_memory(chosen * sizeof(*numbers));
    char name[32];
    (void)snprintf(name, sizeof(name), "rows%u", self->serial++);
    for (uint64_t i = 0; i < chosen; i++) {
        numbers[i] = i * (rows / chosen) + self->rank;
    }
    rank_must(self->context,
              tutti_store_add_table(self->store, name, NULL, rows, length, TUTTI_F32), "add");
    for (int i = 0; i < count; i++) {
        tutti_store_call call = TUTTI_STORE_CALL_INIT;
        const uint64_t sent = chosen > 0 ? chosen * length : elements;
        for (uint64_t k = 0; k < sent; k++) {
            values[k] = (float)(self->rank + 1);
        }
        call.verb = TUTTI_STORE_PUSH_PULL;
        call.name = name;
        call.input = call.output = values;
        call.rows = chosen > 0 ? numbers : NULL;
        call.row_count = chosen;
        servers_meet(self);
        const int64_t begin_ns = bench_now_ns();
        servers_finish(self, servers_start(self, call), "rows");
        const long long took_ns = (long long)(bench_now_ns() - begin_ns);
        bool is_good = chosen > 0 || is_right(self, values, sent);
        for (uint64_t k = 0; k < sent && chosen > 0 && is_good; k++) {
            is_good = values[k] == (float)(self->rank + 1); /* nobody else has chosen it */
        }
        fprintf(self->line.answers, "%lld ", is_good ? took_ns : -1);
    }
    fprintf(self->line.answers, "\n");
    free(values);
    free(numbers);
}

/* ---- training steps ---- */

static void sort(step_table *table, uint32_t *order, bool by_use)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const transfer *one = &table->transfers[i];
        uint32_t at = i;
        for (; at > 0; at--) {
            const transfer *before = &table->transfers[order[at - 1]];
            if (by_use ? before->use_us <= one->use_us : before->ready_us <= one->ready_us) {
                break;
            }
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static void table_read(servers_rank *self, step_table *table, const char *path)
{
    for (uint32_t i = 0; i < table->count; i++) {
        free(table->transfers[i].memory);
        free(table->transfers[i].input);
    }
    table->count = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%lf %lf", &table->forward_us, &table->backward_us) != 2) {
        rank_die(self->context, path);
    }
    transfer one = {.place = 0};
    unsigned long long elements;
    int in_forward;
    while (table->count < TRANSFERS_MAX &&
           fscanf(file, "%llu %lf %lf %d %d", &elements, &one.use_us, &one.ready_us, &one.place,
                  &in_forward) == 5) {
        one.elements = elements;
        (void)snprintf(one.name, sizeof(one.name), "t%u.%u", self->serial, table->count);
        one.memory = servers_memory(elements * sizeof(float));
        if (self->store != NULL) {
            rank_must(self->context,
                      tutti_store_add(self->store, one.name, NULL, elements, TUTTI_F32), "add");
        } else {
            one.input = servers_memory(elements * sizeof(float) * self->size);
        }
        table->transfers[table->count++] = one;
    }
    fclose(file);
    self->serial++;
    sort(table, table->by_use, true);
    sort(table, table->by_ready, false);
    fprintf(self->line.answers, "%u\n", table->count);
}

static tutti_handle *message(servers_rank *self, tutti_collective kind, float *memory,
                             uint64_t elements, uint32_t peer)
{
    tutti_call call = TUTTI_CALL_INIT;
    tutti_handle *handle = NULL;
    call.collective = kind;
    call.root = (int)peer;
    call.count = elements;
    call.input = kind == TUTTI_SEND ? memory : NULL;
    call.output = kind == TUTTI_SEND ? NULL : memory;
    rank_must(self->context, tutti_start(self->context, &call, &handle), "message");
    return handle;
}

/* What a worker starts when backward has produced a gradient. Tensor i belongs to server i mod S.
 */
static void transfer_start(servers_rank *self, transfer *one, uint32_t index, uint32_t servers)
{
    if (self->store != NULL) {
        tutti_store_call call = TUTTI_STORE_CALL_INIT;
        call.verb = TUTTI_STORE_PUSH_PULL;
        call.name = one->name;
        call.input = call.output = one->memory;
        call.priority = -one->place;
        one->handle = servers_start(self, call);
        return;
    }
    const uint32_t server = self->size - servers + index % servers;
    one->sent = message(self, TUTTI_SEND, one->memory, one->elements, server);
    one->handle = message(self, TUTTI_RECEIVE, one->memory, one->elements, server);
}

static void transfer_await(servers_rank *self, transfer *one)
{
    if (one->handle == NULL) {
        return;
    }
    if (tutti_poll(one->handle) == TUTTI_IN_PROGRESS) {
        rank_wait(self->context, one->handle, "transfer");
        servers_present(self);
    }
    servers_finish(self, one->handle, "transfer");
    one->handle = NULL;
    if (one->sent != NULL) {
        servers_finish(self, one->sent, "transfer");
        one->sent = NULL;
    }
}

static void work(servers_rank *self, step_table *table, uint32_t servers)
{
    double done_us = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        transfer *one = &table->transfers[table->by_ready[i]];
        servers_compute(self, one->ready_us - done_us);
        done_us = one->ready_us;
        transfer_start(self, one, i, servers);
    }
    servers_compute(self, table->backward_us - done_us);
    done_us = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        transfer *one = &table->transfers[table->by_use[i]];
        servers_compute(self, one->use_us - done_us);
        done_us = one->use_us;
        transfer_await(self, one);
    }
    servers_compute(self, table->forward_us - done_us);
}

/* A step of a FIFO server: whole tensors in the order in which they are produced. */
static void serve(servers_rank *self, step_table *table, uint32_t servers)
{
    const uint32_t workers = self->size - servers, own = self->rank - workers;
    for (uint32_t i = own; i < table->count; i += servers) {
        transfer *one = &table->transfers[table->by_ready[i]];
        for (uint32_t worker = 0; worker < workers; worker++) {
            one->arrivals[worker] = message(
                self, TUTTI_RECEIVE, one->input + worker * one->elements, one->elements, worker);
        }
    }
    for (uint32_t i = own; i < table->count; i += servers) {
        transfer *one = &table->transfers[table->by_ready[i]];
        memset(one->memory, 0, one->elements * sizeof(float));
        for (uint32_t worker = 0; worker < workers; worker++) {
            servers_finish(self, one->arrivals[worker], "push");
            for (uint64_t j = 0; j < one->elements; j++) {
                one->memory[j] += one->input[worker * one->elements + j];
            }
        }
        for (uint32_t worker = 0; worker < workers; worker++) {
            one->arrivals[worker] = message(self, TUTTI_SEND, one->memory, one->elements, worker);
        }
    }
    for (uint32_t i = own; i < table->count; i += servers) {
        for (uint32_t worker = 0; worker < workers; worker++) {
            servers_finish(self, table->transfers[table->by_ready[i]].arrivals[worker], "answer");
        }
    }
}

static void steps_run(servers_rank *self, step_table *table, const char *words)
{
    unsigned servers;
    int is_cold, warm, count;
    if (sscanf(words, "%*s %u %d %d %d", &servers, &is_cold, &warm, &count) != 4 || servers == 0 ||
        self->size > SERVERS_MAX) {
        rank_die(self->context, words);
    }
    const bool is_server = self->store == NULL && self->rank >= self->size - servers;
    servers_meet(self);
    for (int i = 0; i < warm + count; i++) {
        if (is_cold) {
            servers_meet(self);
        }
        const double begin_ns = self->clock_ns;
        if (is_server) {
            serve(self, table, servers);
        } else {
            work(self, table, servers);
        }
        if (i >= warm) {
            fprintf(self->line.answers, "%.0f ", is_server ? 0 : self->clock_ns - begin_ns);
        }
    }
    fprintf(self->line.answers, "\n");
}

/* ---- policies ---- */

/* Short tensors, so that wake-ups of so many processes do not weigh beside the computation. Each is
 * one part, and which owner has it follows from its name. */
enum { TENSORS = 2, ELEMENTS = 256 };

typedef struct policy_run {
    int steps;
    double base_us, exp_us, slow_us;
    int slow_rank;
    int staleness; /* -1: any */
    int quorum;    /* 0: none */
    uint64_t reads, broken;
    double stale_sum;
    uint64_t stale_count;
    int64_t age_most; /* of the oldest push of another worker that a read lacked */
    float *values[TENSORS], *push, *result[TENSORS];
    uint64_t elements;
    char names[TENSORS][32];
    double begin_ns, end_ns; /* of the middle half of the iterations */
    uint64_t begin_clock, end_clock;
} policy_run;

static double sum_of(const float *values, uint32_t size)
{
    double sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        sum += (double)values[i];
    }
    return sum;
}

/* Element i counts the pushes of worker i mod P. A read at clock c has all pushes of iterations
 * below c - S, all own ones, and none that its worker may not have made yet. */
static void judge(servers_rank *self, policy_run *run, uint32_t tensor, uint64_t clock,
                  uint64_t own)
{
    const uint32_t size = self->size;
    const double bound = run->staleness < 0 ? 0 : (double)clock - run->staleness;
    bool is_kept = true;
    for (uint64_t i = 0; i + size <= run->elements; i += size) {
        const float *at = run->values[tensor] + i;
        if (run->quorum > 0) {
            is_kept = is_kept && sum_of(at, size) >= (double)clock * run->quorum;
            continue;
        }
        for (uint32_t worker = 0; worker < size; worker++) {
            const double seen = (double)at[worker];
            const double most = run->staleness < 0 ? 1e9 : (double)clock + run->staleness + 1;
            const bool is_own = worker == self->rank;
            is_kept = is_kept && seen >= bound && seen <= most && (!is_own || seen == (double)own);
            const int64_t age = (int64_t)clock - (int64_t)seen;
            run->age_most = age > run->age_most ? age : run->age_most;
        }
    }
    run->reads++;
    run->broken += is_kept ? 0 : 1;
}

static double computation_us(servers_rank *self, const policy_run *run)
{
    if ((int)self->rank == run->slow_rank) {
        return run->slow_us;
    }
    return run->base_us - run->exp_us * log(servers_unit(&self->random));
}

static tutti_handle *call_start(servers_rank *self, policy_run *run, uint32_t tensor, int *counted)
{
    tutti_store_call call = TUTTI_STORE_CALL_INIT;
    call.name = run->names[tensor];
    call.verb = counted != NULL ? TUTTI_STORE_PUSH_PULL : TUTTI_STORE_PULL;
    call.input = run->push;
    call.output = counted != NULL ? run->result[tensor] : run->values[tensor];
    call.counted_out = counted;
    return servers_start(self, call);
}

static void pull_all(servers_rank *self, policy_run *run, uint64_t clock, uint64_t own)
{
    tutti_handle *handles[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++) {
        handles[i] = call_start(self, run, i, NULL);
    }
    for (uint32_t i = 0; i < TENSORS; i++) {
        servers_finish(self, handles[i], "pull");
        judge(self, run, i, clock, own);
    }
}

/* One iteration; returns the clock after it. */
static uint64_t iterate(servers_rank *self, policy_run *run, uint64_t clock, uint64_t *own)
{
    tutti_handle *handles[TENSORS];
    tutti_store_call tick = TUTTI_STORE_CALL_INIT;
    int counted[TENSORS];
    pull_all(self, run, clock, *own);
    servers_present(self);
    servers_compute(self, computation_us(self, run));
    for (uint32_t i = 0; i < TENSORS; i++) {
        counted[i] = 1;
        handles[i] = call_start(self, run, i, &counted[i]);
    }
    tick.verb = TUTTI_STORE_CLOCK;
    tick.clock_out = &clock;
    tutti_handle *ticked = servers_start(self, tick);
    for (uint32_t i = 0; i < TENSORS; i++) {
        servers_finish(self, handles[i], "push");
        run->stale_sum +=
            sum_of(run->result[i], self->size) - 1 - sum_of(run->values[i], self->size);
        run->stale_count++;
    }
    servers_finish(self, ticked, "clock");
    servers_present(self);
    *own += (uint64_t)counted[0];
    run->broken += counted[0] == counted[TENSORS - 1] ? 0 : 1;
    return clock;
}

/* The rate is that of the middle half: a worker ahead of the others gains nothing by where it
 * began. */
static void policy_iterate(servers_rank *self, policy_run *run)
{
    const uint64_t steps = (uint64_t)run->steps;
    uint64_t clock = 0, own = 0;
    while (clock < steps) {
        clock = iterate(self, run, clock, &own);
        if (run->begin_clock == 0 && clock >= steps / 4) {
            run->begin_clock = clock;
            run->begin_ns = self->clock_ns;
        }
        if (run->end_clock == 0 && clock >= steps - steps / 4) {
            run->end_clock = clock;
            run->end_ns = self->clock_ns;
        }
    }
}

static void policy_do(servers_rank *self, const char *words)
{
    policy_run run = {.elements = ELEMENTS * self->size};
    unsigned long long seed;
    if (sscanf(words, "policy %d %llu %lf %lf %d %lf %d %d", &run.steps, &seed, &run.base_us,
               &run.exp_us, &run.slow_rank, &run.slow_us, &run.staleness, &run.quorum) != 8) {
        rank_die(self->context, words);
    }
    const size_t bytes = run.elements * sizeof(float);
    self->random = seed * 1000 + self->rank;
    run.push = servers_memory(bytes);
    for (uint32_t i = 0; i < TENSORS; i++) {
        run.values[i] = servers_memory(bytes);
        run.result[i] = servers_memory(bytes);
        (void)snprintf(run.names[i], sizeof(run.names[i]), "counts%u.%u", self->serial, i);
        rank_must(
            self->context,
            tutti_store_add(self->store, run.names[i], run.values[i], run.elements, TUTTI_F32),
            "add");
    }
    self->serial++;
    for (uint64_t i = self->rank; i < run.elements; i += self->size) {
        run.push[i] = 1;
    }
    servers_meet(self);
    policy_iterate(self, &run);
    fprintf(self->line.answers, "%.4f %llu %llu %.3f %lld\n",
            (double)(run.end_clock - run.begin_clock) / (run.end_ns - run.begin_ns) * 1e9,
            (unsigned long long)run.reads, (unsigned long long)run.broken,
            run.stale_sum / (double)run.stale_count, (long long)run.age_most);
    for (uint32_t i = 0; i < TENSORS; i++) {
        free(run.values[i]);
        free(run.result[i]);
    }
    free(run.push);
}

/* ---- lines ---- */

static void obey(servers_rank *self, step_table *table, char *line)
{
    char one[512], two[128];
    unsigned long long bytes;
    int count;
    if (sscanf(line, "store %127s %127s", one, two) == 2) {
        servers_store_open(self, one, two);
    } else if (sscanf(line, "sum %llu %d", &bytes, &count) == 2) {
        sum_run(self, true, bytes, count);
    } else if (sscanf(line, "allreduce %llu %d", &bytes, &count) == 2) {
        sum_run(self, false, bytes, count);
    } else if (strncmp(line, "rows ", 5) == 0) {
        rows_run(self, line);
    } else if (sscanf(line, "table %511s", one) == 1) {
        table_read(self, table, one);
    } else if (strncmp(line, "steps ", 6) == 0) {
        steps_run(self, table, line + 6);
    } else if (strncmp(line, "policy ", 7) == 0) {
        policy_do(self, line);
    } else {
        fprintf(stderr, "bench-servers-rank: what is '%s'?\n", line);
        exit(1);
    }
    fflush(self->line.answers);
}

int main(void)
{
    servers_rank self = {.store = NULL};
    step_table *table = servers_memory(sizeof(*table));
    char line[640];
    servers_join(&self);
    while (fgets(line, sizeof(line), self.line.commands) != NULL) {
        obey(&self, table, line);
    }
    free(table);
    return servers_leave(&self);
}
