/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_run.c - list scheduling: whenever the processor is free, the operator with the smallest
 * place among those that can run. O((nodes + edges) log nodes). */
#include "model/graph_run.h"

#include <math.h>

#include "base/assert.h"
#include "base/base.h"
#include "base/heap.h"
#include "base/philox.h"

typedef struct waiting_state {
    tt_heap_node node;
    uint32_t place;
    uint32_t index;
} waiting_state;

typedef struct runner_state {
    const tt_graph *graph;
    const tt_graph_run_config *config;
    tt_heap heap; /* operators that can run */
    waiting_state *waitings;
    uint32_t *missing;  /* by node: inputs that have not arrived */
    uint32_t *arrivals; /* tensors in order of arriving */
    tt_graph_times times;
    double now_us;
    double send_free_us;
} runner_state;

static bool place_before(const tt_heap_node *a, const tt_heap_node *b)
{
    const waiting_state *x = TT_CONTAINER_OF(a, waiting_state, node);
    const waiting_state *y = TT_CONTAINER_OF(b, waiting_state, node);
    return x->place < y->place;
}

static bool arrival_before(const void *user, uint32_t a, uint32_t b)
{
    const uint32_t *places = user;
    return places != NULL && places[a] < places[b];
}

static void node_settle(runner_state *runner, uint32_t index);

/* All nodes that need node `index` have one more input. */
static void outputs_settle(runner_state *runner, uint32_t index)
{
    uint32_t count;
    const uint32_t *outputs = tt_graph_outputs(runner->graph, index, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (--runner->missing[outputs[i]] == 0) {
            node_settle(runner, outputs[i]);
        }
    }
}

/* All inputs of the node have arrived. */
static void node_settle(runner_state *runner, uint32_t index)
{
    const tt_node *node = tt_graph_node(runner->graph, index);
    if (node->kind == TT_NODE_COMPUTE) {
        const tt_status status = tt_heap_push(&runner->heap, &runner->waitings[index].node);
        TT_ASSERT(status == TT_OK); /* room was reserved */
    } else if (node->kind == TT_NODE_SEND) {
        const uint64_t bytes = tt_graph_tensor_at(runner->graph, node->tensor)->bytes;
        const double time_us = tt_wire_time_us(&runner->config->wire, TT_TASK_PUSH, bytes);
        const double start_us = fmax(runner->send_free_us, runner->now_us);
        runner->times.start_us[index] = start_us;
        runner->times.end_us[index] = start_us + time_us;
        runner->times.send_us += time_us;
        runner->send_free_us = start_us + time_us;
    }
}

static tt_status runner_take(runner_state *runner, tt_scratch *scratch)
{
    const uint32_t count = tt_graph_node_count(runner->graph);
    const uint32_t tensor_count = tt_graph_tensor_count(runner->graph);
    runner->waitings = tt_scratch_take(scratch, count, sizeof(waiting_state));
    runner->missing = tt_scratch_take(scratch, count, sizeof(uint32_t));
    runner->times.start_us = tt_scratch_take(scratch, count, sizeof(double));
    runner->times.end_us = tt_scratch_take(scratch, count, sizeof(double));
    runner->arrivals = tt_scratch_take(scratch, tensor_count, sizeof(uint32_t));
    uint32_t *spare = tt_scratch_take(scratch, tensor_count, sizeof(uint32_t));
    TT_TRY(tt_scratch_status(scratch));
    for (uint32_t i = 0; i < tensor_count; i++) {
        runner->arrivals[i] = i;
    }
    tt_sort_indices(runner->arrivals, spare, tensor_count, arrival_before,
                    runner->config->recv_places);
    const uint32_t *places = runner->config->compute_places;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = tt_graph_order(runner->graph)[i];
        runner->waitings[index] =
            (waiting_state){.index = index, .place = places != NULL ? places[index] : i};
        (void)tt_graph_inputs(runner->graph, index, &runner->missing[index]);
    }
    return tt_heap_reserve(&runner->heap, count);
}

/* Operators that need nothing can run from the start. */
static void roots_settle(runner_state *runner)
{
    for (uint32_t i = 0; i < tt_graph_node_count(runner->graph); i++) {
        if (runner->missing[i] == 0 && tt_graph_node(runner->graph, i)->kind != TT_NODE_RECV) {
            node_settle(runner, i);
        }
    }
}

static double recv_time_us(const runner_state *runner, uint32_t tensor)
{
    if (runner->config->recv_places == NULL) {
        return 0;
    }
    return tt_wire_time_us(&runner->config->wire, TT_TASK_PULL,
                           tt_graph_tensor_at(runner->graph, tensor)->bytes);
}

/* The next tensor arrives. */
static void arrive(runner_state *runner, uint32_t tensor)
{
    const uint32_t recv = tt_graph_tensor_at(runner->graph, tensor)->recv;
    if (recv == TT_GRAPH_NONE) {
        return;
    }
    const double time_us = recv_time_us(runner, tensor);
    runner->times.start_us[recv] = runner->times.recv_us;
    runner->times.recv_us += time_us;
    runner->times.end_us[recv] = runner->times.recv_us;
    runner->now_us = fmax(runner->now_us, runner->times.recv_us);
    outputs_settle(runner, recv);
}

static bool next_arrives_by(const runner_state *runner, uint32_t tensor, double now_us)
{
    return tt_graph_tensor_at(runner->graph, tensor)->recv == TT_GRAPH_NONE ||
           runner->times.recv_us + recv_time_us(runner, tensor) <= now_us;
}

static void run(runner_state *runner)
{
    const uint32_t tensor_count = tt_graph_tensor_count(runner->graph);
    uint32_t arrived = 0;
    roots_settle(runner);
    for (;;) {
        while (arrived < tensor_count &&
               (tt_heap_peek(&runner->heap) == NULL ||
                next_arrives_by(runner, runner->arrivals[arrived], runner->now_us))) {
            arrive(runner, runner->arrivals[arrived++]);
        }
        if (tt_heap_peek(&runner->heap) == NULL) {
            return;
        }
        const waiting_state *next =
            TT_CONTAINER_OF(tt_heap_pop(&runner->heap), waiting_state, node);
        const double time_us = tt_graph_node(runner->graph, next->index)->time_us;
        runner->times.start_us[next->index] = runner->now_us;
        runner->now_us += time_us;
        runner->times.end_us[next->index] = runner->now_us;
        runner->times.compute_us += time_us;
        outputs_settle(runner, next->index);
    }
}

tt_status tt_graph_run(const tt_graph *graph, const tt_graph_run_config *config,
                       tt_scratch *scratch, tt_graph_times *times_out)
{
    runner_state runner = {.graph = graph, .config = config};
    tt_heap_init(&runner.heap, place_before, tt_graph_allocator(graph));
    const tt_status status = runner_take(&runner, scratch);
    if (status == TT_OK) {
        run(&runner);
        tt_graph_times *times = &runner.times;
        times->makespan_us = fmax(runner.now_us, fmax(runner.send_free_us, times->recv_us));
        const double serial_us = times->compute_us + times->recv_us + times->send_us;
        const double busiest_us = fmax(times->compute_us, fmax(times->recv_us, times->send_us));
        times->efficiency = tt_overlap_efficiency(serial_us, busiest_us, times->makespan_us);
        *times_out = *times;
    }
    tt_heap_fini(&runner.heap);
    return status;
}

/* ---- workload of the network
 * ---------------------------------------------------------------------
 */

static double first_use_us(const tt_graph *graph, const tt_graph_times *times, uint32_t recv)
{
    uint32_t count;
    const uint32_t *outputs = tt_graph_outputs(graph, recv, &count);
    double first_us = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        first_us = fmin(first_us, times->start_us[outputs[i]]);
    }
    return first_us;
}

static double ready_us(const tt_graph *graph, const tt_graph_times *times, uint32_t send)
{
    uint32_t count;
    const uint32_t *inputs = tt_graph_inputs(graph, send, &count);
    double last_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        last_us = fmax(last_us, times->end_us[inputs[i]]);
    }
    return last_us;
}

static double forward_end_us(const tt_graph *graph, const tt_graph_times *times)
{
    double end_us = 0;
    for (uint32_t i = 0; i < tt_graph_node_count(graph); i++) {
        const tt_node *node = tt_graph_node(graph, i);
        if (node->kind == TT_NODE_COMPUTE && node->phase == TT_PHASE_FORWARD) {
            end_us = fmax(end_us, times->end_us[i]);
        }
    }
    return end_us;
}

tt_status tt_graph_workload(const tt_graph *graph, const uint32_t *compute_places,
                            tt_scratch *scratch, tt_text *why, tt_workload *workload_out)
{
    const tt_graph_run_config config = {.compute_places = compute_places};
    const uint32_t count = tt_graph_tensor_count(graph);
    tt_graph_times times;
    TT_TRY(tt_graph_run(graph, &config, scratch, &times));
    tt_tensor *tensors = tt_scratch_take(scratch, count, sizeof(tensors[0]));
    if (tensors == NULL) {
        return TT_ERR_NO_MEMORY;
    }
    const double forward_us = forward_end_us(graph, &times);
    const double backward_us = times.compute_us - forward_us;
    const double end_us = forward_us + backward_us; /* may differ from compute_us in the last bit */
    for (uint32_t i = 0; i < count; i++) {
        const tt_graph_tensor *tensor = tt_graph_tensor_at(graph, i);
        if (tensor->recv == TT_GRAPH_NONE || tensor->send == TT_GRAPH_NONE) {
            tt_text_add(why, "tensor ");
            tt_text_add_quoted(why, tensor->name, TT_GRAPH_NAME_BYTES_MAX);
            tt_text_add(why, " is not both received and sent: this needs a training graph");
            return TT_ERR_BAD_ARGUMENT;
        }
        tensors[i] = (tt_tensor){
            .name = tensor->name,
            .bytes = tensor->bytes,
            .first_use_us = fmin(first_use_us(graph, &times, tensor->recv), forward_us),
            .ready_us = fmin(fmax(ready_us(graph, &times, tensor->send), forward_us), end_us),
        };
    }
    *workload_out = (tt_workload){.tensors = tensors,
                                  .tensor_count = count,
                                  .forward_us = forward_us,
                                  .backward_us = backward_us};
    return TT_OK;
}

/* ---- ready times over many executions ----------------------------------------------------------
 */

static void shuffle(tt_random *random, uint32_t *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        places[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        const uint64_t other = tt_random_below(random, i);
        const uint32_t kept = places[i - 1];
        places[i - 1] = places[other];
        places[other] = kept;
    }
}

/* By Welford: until the end, `variance` is the sum of squares. */
static tt_status ready_run(const tt_graph *graph, const uint32_t *places, uint32_t run_index,
                           tt_ready_stats *each)
{
    const tt_graph_run_config config = {.compute_places = places};
    tt_scratch scratch;
    tt_scratch_init(&scratch, tt_graph_allocator(graph));
    tt_graph_times times;
    const tt_status status = tt_graph_run(graph, &config, &scratch, &times);
    for (uint32_t i = 0; status == TT_OK && i < tt_graph_tensor_count(graph); i++) {
        const uint32_t send = tt_graph_tensor_at(graph, i)->send;
        const double value = send == TT_GRAPH_NONE ? 0 : ready_us(graph, &times, send);
        const double step = value - each[i].mean_us;
        each[i].mean_us += step / (run_index + 1);
        each[i].variance += step * (value - each[i].mean_us);
    }
    tt_scratch_fini(&scratch);
    return status;
}

tt_status tt_graph_ready(const tt_graph *graph, const uint32_t *compute_places, uint32_t run_count,
                         uint64_t seed, tt_ready_stats *each)
{
    TT_ASSERT(run_count > 0);
    tt_scratch scratch;
    tt_scratch_init(&scratch, tt_graph_allocator(graph));
    uint32_t *places = tt_scratch_take(&scratch, tt_graph_node_count(graph), sizeof(uint32_t));
    tt_status status = tt_scratch_status(&scratch);
    tt_random random;
    tt_random_init(&random, seed, 0);
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        each[i] = (tt_ready_stats){.mean_us = 0};
    }
    for (uint32_t i = 0; status == TT_OK && i < run_count; i++) {
        if (compute_places == NULL) {
            shuffle(&random, places, tt_graph_node_count(graph));
        }
        status = ready_run(graph, compute_places != NULL ? compute_places : places, i, each);
    }
    for (uint32_t i = 0; i < tt_graph_tensor_count(graph); i++) {
        each[i].variance /= run_count;
    }
    tt_scratch_fini(&scratch);
    return status;
}

tt_ready_stats tt_ready_mean(const tt_ready_stats *each, uint32_t tensor_count)
{
    tt_ready_stats mean = {.mean_us = 0};
    for (uint32_t i = 0; i < tensor_count; i++) {
        mean.mean_us += each[i].mean_us / tensor_count;
        mean.variance += each[i].variance / tensor_count;
    }
    return mean;
}
