/* SPDX-License-Identifier: Apache-2.0
 *
 * async.c - several calls in flight at once, and an event loop that is notified of each end.
 *
 *     tutti run -n 4 build/bin/async
 *
 * Starting a call takes almost no time; the sums run while the program does other things.
 * The descriptor of tutti_event_fd fits any poll or epoll loop, beside sockets and timers.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { TENSORS = 4 };

static void must(tutti_context *context, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_last_error(context));
        exit(1);
    }
}

/* Tensor i has 1000 * 10^i elements, so that the calls end at different times. */
static size_t tensor_count(int index)
{
    size_t count = 1000;
    for (int i = 0; i < index; i++) {
        count *= 10;
    }
    return count;
}

static float *tensor_create(tutti_context *context, int index)
{
    float *tensor = tutti_alloc(context, tensor_count(index) * sizeof(float));
    if (tensor == NULL) {
        fprintf(stderr, "no memory for a tensor\n");
        exit(1);
    }
    for (size_t i = 0; i < tensor_count(index); i++) {
        tensor[i] = (float)(tutti_rank(context) + index);
    }
    return tensor;
}

/* Report and free the calls that are over; returns how many. */
static int handles_reap(tutti_handle **handles, float *const *tensors, int rank)
{
    int over_count = 0;
    for (int i = 0; i < TENSORS; i++) {
        if (handles[i] == NULL || tutti_poll(handles[i]) == TUTTI_IN_PROGRESS) {
            continue;
        }
        if (tutti_poll(handles[i]) != TUTTI_OK) {
            fprintf(stderr, "rank %d: tensor %d: %s\n", rank, i, tutti_handle_error(handles[i]));
            exit(1);
        }
        if (rank == 0) {
            printf("tensor %d, %zu elements: over, every element is now %g\n", i, tensor_count(i),
                   (double)tensors[i][0]);
        }
        tutti_handle_free(handles[i]);
        handles[i] = NULL;
        over_count++;
    }
    return over_count;
}

int main(void)
{
    tutti_context *context = NULL;
    must(NULL, tutti_init(NULL, &context));
    const int rank = tutti_rank(context);
    tutti_handle *handles[TENSORS];
    float *tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = tensor_create(context, i);
        tutti_call call = TUTTI_CALL_INIT;
        call.input = tensors[i];
        call.output = tensors[i]; /* in place; borrowed until the call is over */
        call.count = tensor_count(i);
        must(context, tutti_start(context, &call, &handles[i]));
    }

    struct pollfd event = {.fd = tutti_event_fd(context), .events = POLLIN};
    int wakes = 0;
    for (int over_count = 0; over_count < TENSORS; wakes++) {
        if (event.fd < 0 || poll(&event, 1, -1) < 0) {
            fprintf(stderr, "rank %d: cannot poll: %s\n", rank, tutti_last_error(context));
            return 1;
        }
        must(context, tutti_event_clear(context)); /* first clear, then poll: no end is missed */
        over_count += handles_reap(handles, tensors, rank);
    }
    if (rank == 0) {
        printf("%d calls on %d ranks, %d wake-ups\n", TENSORS, tutti_size(context), wakes);
    }
    for (int i = 0; i < TENSORS; i++) {
        tutti_free(context, tensors[i]);
    }
    must(NULL, tutti_shutdown(context));
    return 0;
}
