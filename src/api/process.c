/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - the contexts of this process.
 *
 * The one process-wide list. A forked child must close the descriptors it inherited (else nobody
 * sees its parent die) and must not write shared memory; and ranks that are threads of one process
 * share one mapping. */
#include <sys/stat.h>

#include "api/api_internal.h"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER; /* guards process_contexts */
static tutti_context *process_contexts;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&process_lock);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&process_lock);
}

static void after_fork_in_child(void)
{
    for (tutti_context *context = process_contexts; context != NULL; context = context->next) {
        atomic_store(&context->is_forked, true);
        if (context->real != NULL) {
            tt_real_child_after_fork(context->real);
        }
    }
    process_contexts = NULL;
    (void)pthread_mutex_unlock(&process_lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void tt_process_add(tutti_context *context)
{
    (void)pthread_once(&process_once, watch_forks);
    (void)pthread_mutex_lock(&process_lock);
    context->next = process_contexts;
    process_contexts = context;
    (void)pthread_mutex_unlock(&process_lock);
}

void tt_process_remove(tutti_context *context)
{
    (void)pthread_mutex_lock(&process_lock);
    tutti_context **link = &process_contexts;
    while (*link != NULL && *link != context) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = context->next;
    }
    (void)pthread_mutex_unlock(&process_lock);
}

void tt_process_set_segment(tutti_context *context, tt_segment *segment)
{
    (void)pthread_mutex_lock(&process_lock);
    context->segment = segment;
    (void)pthread_mutex_unlock(&process_lock);
}

void tt_process_set_driver(tutti_context *context, tt_real *real)
{
    (void)pthread_mutex_lock(&process_lock);
    context->real = real;
    (void)pthread_mutex_unlock(&process_lock);
}

tt_segment *tt_process_find_segment(int descriptor)
{
    struct stat wanted, owned;
    tt_segment *found = NULL;
    if (fstat(descriptor, &wanted) != 0) {
        return NULL;
    }
    (void)pthread_mutex_lock(&process_lock);
    for (tutti_context *context = process_contexts; context != NULL && found == NULL;
         context = context->next) {
        if (context->segment != NULL &&
            fstat(tt_segment_descriptor(context->segment), &owned) == 0 &&
            owned.st_ino == wanted.st_ino && owned.st_dev == wanted.st_dev) {
            found = tt_segment_retain(context->segment);
        }
    }
    (void)pthread_mutex_unlock(&process_lock);
    return found;
}
