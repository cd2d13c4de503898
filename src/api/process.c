/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - the contexts of this process.
 *
 * The one process-wide list. A forked child must close the descriptors it inherited (else peers do
 * not detect its parent's death) and must not write shared memory; ranks that are threads of one
 * process share one mapping; and a death that several contexts see is logged as an error by one of
 * them. */
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

void tt_process_adopt_peers(tutti_context *context, uint64_t incarnation, tt_known_peer *peers)
{
    (void)pthread_mutex_lock(&process_lock);
    context->incarnation = incarnation;
    context->known_peers = peers;
    (void)pthread_mutex_unlock(&process_lock);
}

/* Inside one job a rank is known by its number: several may be threads of one process. In another
 * job the same process may have another number. */
static bool has_told(const tutti_context *other, const tutti_context *context, uint32_t rank)
{
    if (other == context || other->known_peers == NULL || other->log.write != context->log.write ||
        other->log.user != context->log.user) {
        return false;
    }
    if (other->incarnation == context->incarnation) {
        return other->known_peers[rank].is_told;
    }
    for (int i = 0; i < other->size; i++) {
        if (other->known_peers[i].is_told &&
            other->known_peers[i].process == context->known_peers[rank].process) {
            return true;
        }
    }
    return false;
}

bool tt_process_tells_death(tutti_context *context, uint32_t rank)
{
    bool tells = true;
    (void)pthread_mutex_lock(&process_lock);
    for (tutti_context *other = process_contexts; other != NULL && tells; other = other->next) {
        tells = !has_told(other, context, rank);
    }
    context->known_peers[rank].is_told |= tells;
    (void)pthread_mutex_unlock(&process_lock);
    return tells;
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
