/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - train a small language model on several workers:
 *
 *     tutti run -n 4 build/bin/02_gpt --seconds 40 LICENSE README.md
 *
 * Tutti is used in three places: train.c (gradients), text_share and period_agree here (text,
 * decisions), and run_finish (do all ranks hold the same model?).
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/tutti.h>

#include "data.h"
#include "picture.h"
#include "report.h"
#include "train.h"

enum {
    PERIOD_STEPS = 5, /* steps between two decisions of rank 0 */
    STEPS_MAX = 100000,
    SAMPLE_CHARACTERS = 200,
};

typedef struct options {
    double seconds;
    size_t steps; /* 0: as many as fit in the time */
    size_t batch;
    uint64_t seed;
    const char *picture_path;
    const char *speed_write_path;
    const char *speed_read_path;
    char **text_paths;
    int text_count;
} options;

/* One run, as this rank sees it. */
typedef struct run {
    const options *options;
    tutti_context *context;
    gpt_shape shape;
    gpt_text text;
    gpt_trainer *trainer;
    gpt_batch batch;
    gpt_random random;
    gpt_reporter reporter;
    gpt_timeline timeline;
    double *losses; /* of every step, averaged over the ranks */
    size_t step;
    double begin_s;
    double progress; /* 0 to 1, from rank 0 */
    double wait_s;   /* averaged over the ranks */
} run;

static const char usage[] = "usage: 02_gpt [options] TEXT...\n"
                            "  --seconds S        train for S seconds (40)\n"
                            "  --steps N          train for N steps instead\n"
                            "  --batch N          sequences per worker and step (4)\n"
                            "  --seed N           of the first parameters and the batches (1)\n"
                            "  --picture FILE     write loss curve and timeline there (SVG)\n"
                            "  --speed-write FILE write the speed there\n"
                            "  --speed-alone FILE compare with the speed of one worker there\n";

static int options_parse(options *o, int argc, char **argv)
{
    static const struct option names[] = {
        {"seconds", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'n'},
        {"batch", required_argument, NULL, 'b'},
        {"seed", required_argument, NULL, 'r'},
        {"picture", required_argument, NULL, 'p'},
        {"speed-write", required_argument, NULL, 'w'},
        {"speed-alone", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0},
    };
    *o = (options){.seconds = 40.0, .batch = 4, .seed = 1};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 's':
            o->seconds = strtod(optarg, NULL);
            break;
        case 'n':
            o->steps = strtoul(optarg, NULL, 10);
            break;
        case 'b':
            o->batch = strtoul(optarg, NULL, 10);
            break;
        case 'r':
            o->seed = strtoul(optarg, NULL, 10);
            break;
        case 'p':
            o->picture_path = optarg;
            break;
        case 'w':
            o->speed_write_path = optarg;
            break;
        case 'a':
            o->speed_read_path = optarg;
            break;
        default:
            return -1;
        }
    }
    o->text_paths = argv + optind;
    o->text_count = argc - optind;
    const int is_valid = o->text_count > 0 && o->batch >= 1 && o->batch <= 1024 &&
                         o->steps <= STEPS_MAX && o->seconds > 0.0;
    return is_valid ? 0 : -1;
}

static void fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(1);
}

/* ---- setting up ---------------------------------------------------------------------------- */

/* Rank 0 reads the files; the others, perhaps on hosts without them, get the text from it. */
static void text_share(run *r)
{
    char *characters = NULL;
    int64_t count = 0;
    if (tutti_rank(r->context) == 0) {
        size_t read_count = 0;
        characters = gpt_text_read(r->options->text_paths, r->options->text_count, &read_count);
        count = (int64_t)read_count; /* 0 after an error: every rank then leaves */
    }
    gpt_must(r->context, tutti_broadcast(r->context, &count, 1, TUTTI_I64, 0), "sharing the text");
    if (count <= (int64_t)r->shape.context) {
        fail("the text is missing or too short");
    }
    if (characters == NULL && (characters = malloc((size_t)count)) == NULL) {
        fail("no memory for the text");
    }
    gpt_must(r->context, tutti_broadcast(r->context, characters, (uint64_t)count, TUTTI_U8, 0),
             "sharing the text");
    if (!gpt_text_encode(&r->text, characters, (size_t)count)) {
        fail("no memory for the text");
    }
    free(characters);
}

static void run_init(run *r, const options *o, tutti_context *context)
{
    *r = (run){.options = o, .context = context};
    r->shape = (gpt_shape){.context = 64, .width = 64, .heads = 4, .layers = 4, .batch = o->batch};
    text_share(r);
    r->shape.vocabulary = r->text.alphabet_count;
    r->trainer = gpt_trainer_create(context, &r->shape, o->seed);
    r->losses = calloc(STEPS_MAX + PERIOD_STEPS, sizeof(*r->losses));
    const size_t rows = r->shape.batch * r->shape.context;
    r->batch = (gpt_batch){malloc(rows), malloc(rows), r->shape.batch, r->shape.context};
    if (r->trainer == NULL || r->losses == NULL || r->batch.tokens == NULL ||
        r->batch.targets == NULL) {
        fail("no memory for the model");
    }
    /* Ranks must differ here, or all of them would learn from the same batches. */
    r->random.state = o->seed * 1000003 + (uint64_t)tutti_rank(context);
    gpt_reporter_init(&r->reporter);
}

static void run_fini(run *r)
{
    free(r->batch.targets);
    free(r->batch.tokens);
    free(r->losses);
    gpt_trainer_destroy(r->trainer);
    gpt_text_fini(&r->text);
}

/* ---- training ------------------------------------------------------------------------------ */

/* Rises over the first 3 %, then falls along half a cosine to a tenth. The same on every rank,
 * since `progress` is. */
static double learning_rate(double progress)
{
    const double peak = 5e-3;
    const double warm = 0.03;
    if (progress < warm) {
        return peak * (0.1 + 0.9 * progress / warm);
    }
    return peak * (0.55 + 0.45 * cos(3.14159265 * (progress - warm) / (1.0 - warm)));
}

/* Data that the ranks exchange after every period; doubles only, so that it is one vector. */
typedef struct period {
    double losses[PERIOD_STEPS];
    double wait_s;
} period;

/* Average `p` over the ranks, then follow rank 0's clock: only one clock may decide when to
 * stop, or one rank would wait for ever for the others' next step. */
static void period_agree(run *r, period *p)
{
    gpt_must(
        r->context,
        tutti_allreduce(r->context, p, p, sizeof(*p) / sizeof(double), TUTTI_F64, TUTTI_AVERAGE),
        "averaging the losses");
    const double elapsed_s = gpt_now() - r->begin_s;
    r->progress = r->options->steps > 0 ? (double)r->step / (double)r->options->steps
                                        : elapsed_s / r->options->seconds;
    if (r->step >= STEPS_MAX) {
        r->progress = 1.0;
    }
    gpt_must(r->context, tutti_broadcast(r->context, &r->progress, 1, TUTTI_F64, 0),
             "agreeing on the time");
}

static void progress_show(run *r, const period *p)
{
    const double now_s = gpt_now();
    const double elapsed_s = now_s - r->begin_s;
    const size_t characters =
        r->step * r->shape.batch * r->shape.context * (size_t)tutti_size(r->context);
    const double done = fmin(r->progress, 1.0);
    const gpt_progress progress = {
        .step = r->step,
        .loss = p->losses[PERIOD_STEPS - 1],
        .characters_per_s = (double)characters / elapsed_s,
        .wait_share = r->wait_s / elapsed_s,
        .done = done,
        .left_s = elapsed_s * (1.0 - done) / done,
    };
    gpt_reporter_show(&r->reporter, &progress, now_s);
}

static void train_period(run *r, period *p)
{
    const int is_recorded = r->progress >= 0.5 && r->timeline.span_count == 0;
    *p = (period){0};
    for (size_t i = 0; i < PERIOD_STEPS; i++) {
        gpt_text_draw(&r->text, &r->random, &r->batch);
        gpt_timeline *timeline = is_recorded && i == 0 ? &r->timeline : NULL;
        if (timeline != NULL) { /* steps of all ranks then begin together in the picture, too */
            gpt_must(r->context, tutti_barrier(r->context), "meeting before a recorded step");
        }
        const gpt_step_result result =
            gpt_trainer_step(r->trainer, &r->batch, learning_rate(r->progress), timeline);
        p->losses[i] = result.loss;
        p->wait_s += result.wait_s;
    }
    r->step += PERIOD_STEPS;
}

/* Processor time of this process, all threads. */
static double processor_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* The speed of all workers together. */
static gpt_speed speed_measure(run *r, double processor_used_s)
{
    const double elapsed_s = gpt_now() - r->begin_s;
    const size_t characters = r->step * r->shape.batch * r->shape.context;
    gpt_must(
        r->context,
        tutti_allreduce(r->context, &processor_used_s, &processor_used_s, 1, TUTTI_F64, TUTTI_SUM),
        "adding up processor time");
    return (gpt_speed){(double)characters * tutti_size(r->context) / elapsed_s,
                       processor_used_s / elapsed_s};
}

static gpt_speed train(run *r)
{
    gpt_must(r->context, tutti_barrier(r->context), "starting together");
    r->begin_s = gpt_now();
    const double processor_begin_s = processor_s();
    while (r->progress < 1.0) {
        period p;
        train_period(r, &p);
        period_agree(r, &p);
        memcpy(r->losses + r->step - PERIOD_STEPS, p.losses, sizeof(p.losses));
        r->wait_s += p.wait_s;
        if (tutti_rank(r->context) == 0) {
            progress_show(r, &p);
        }
    }
    if (tutti_rank(r->context) == 0) {
        gpt_reporter_end(&r->reporter);
    }
    return speed_measure(r, processor_s() - processor_begin_s);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Cores of all hosts together that this job may use. */
static int cores_count(tutti_context *context)
{
    cpu_set_t set;
    int32_t cores = 0;
    if (tutti_local_rank(context) == 0 && sched_getaffinity(0, sizeof(set), &set) == 0) {
        cores = CPU_COUNT(&set);
    }
    gpt_must(context, tutti_allreduce(context, &cores, &cores, 1, TUTTI_I32, TUTTI_SUM),
             "counting cores");
    return cores;
}

/* The mean of `count` losses from `first` on. */
static double mean_loss(const run *r, size_t first, size_t count)
{
    double sum = 0.0;
    for (size_t i = first; i < first + count; i++) {
        sum += r->losses[i];
    }
    return sum / (double)count;
}

/* Zeros if there is no such file: then nothing is compared. */
static gpt_speed speed_read(const char *path)
{
    gpt_speed speed = {0};
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%lf %lf", &speed.characters_per_s, &speed.cores_busy) != 2) {
            speed = (gpt_speed){0};
        }
        fclose(file);
    }
    return speed;
}

static int speed_write(const char *path, const gpt_speed *speed)
{
    FILE *file = fopen(path, "w");
    if (file == NULL ||
        fprintf(file, "%.1f %.2f\n", speed->characters_per_s, speed->cores_busy) < 0 ||
        fclose(file) != 0) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

/* The results that rank 0 has at the end. */
typedef struct outcome {
    gpt_speed speed;
    int cores;
    uint64_t *hashes;        /* one per rank */
    gpt_timeline *timelines; /* one per rank */
} outcome;

static int picture_save(const run *r, const outcome *end)
{
    const int workers = tutti_size(r->context);
    const double seconds = (double)(r->step * r->shape.batch * r->shape.context) * workers /
                           end->speed.characters_per_s;
    char title[96];
    char subtitle[160];
    snprintf(title, sizeof(title), "A small GPT, trained by %d worker%s on %d core%s", workers,
             workers == 1 ? "" : "s", end->cores, end->cores == 1 ? "" : "s");
    snprintf(subtitle, sizeof(subtitle),
             "%zu parameters, %zu characters of text, %zu steps in %.0f s, %.0f characters per "
             "second",
             gpt_trainer_parameter_count(r->trainer), r->text.count, r->step, seconds,
             end->speed.characters_per_s);
    const gpt_picture picture = {
        .title = title,
        .subtitle = subtitle,
        .losses = r->losses,
        .loss_count = r->step,
        .timelines = end->timelines,
        .rank_count = workers,
        .segment_count = r->shape.layers + 2,
    };
    if (!gpt_picture_write(&picture, r->options->picture_path)) {
        return 1;
    }
    printf("\nPicture: %s\n", r->options->picture_path);
    return 0;
}

/* Rank 0 prints the results of the run; returns the exit code. */
static int run_report(run *r, const outcome *end)
{
    const double last = mean_loss(r, r->step - PERIOD_STEPS, PERIOD_STEPS);
    printf("\nLoss: %.2f at the start, %.2f at the end (nats per character), %zu steps\n",
           r->losses[0], last, r->step);
    printf("\nText generated by the model:\n\n");
    gpt_report_sample(gpt_trainer_model(r->trainer), &r->shape, &r->text, SAMPLE_CHARACTERS);
    printf("\nSame weights everywhere?\n");
    int code = gpt_report_hashes(end->hashes, tutti_size(r->context)) ? 0 : 1;
    printf("\nSpeed:\n");
    const gpt_speed alone = speed_read(r->options->speed_read_path);
    gpt_report_speed(&end->speed, &alone, tutti_size(r->context), end->cores);
    if (r->options->speed_write_path != NULL) {
        code |= speed_write(r->options->speed_write_path, &end->speed);
    }
    if (r->options->picture_path != NULL) {
        code |= picture_save(r, end);
    }
    if (!(last < r->losses[0])) {
        fprintf(stderr, "the loss did not fall\n");
        code = 1;
    }
    return code;
}

/* Collect the data for rank 0. Every rank gets all hashes, so that all agree on the outcome. */
static int run_finish(run *r, gpt_speed speed)
{
    const size_t size = (size_t)tutti_size(r->context);
    const uint64_t hash = gpt_trainer_hash(r->trainer);
    outcome end = {.speed = speed, .cores = cores_count(r->context)};
    end.hashes = calloc(size, sizeof(*end.hashes));
    end.timelines = calloc(size, sizeof(*end.timelines));
    if (end.hashes == NULL || end.timelines == NULL) {
        fail("no memory for the report");
    }
    gpt_must(r->context, tutti_allgather(r->context, &hash, end.hashes, 1, TUTTI_I64),
             "gathering hashes");
    gpt_must(
        r->context,
        tutti_gather(r->context, &r->timeline, end.timelines, sizeof(r->timeline), TUTTI_U8, 0),
        "gathering timelines");
    int code = 0;
    if (tutti_rank(r->context) == 0) {
        code = run_report(r, &end);
    }
    for (size_t rank = 1; rank < size; rank++) {
        code |= end.hashes[rank] != end.hashes[0];
    }
    free(end.timelines);
    free(end.hashes);
    return code;
}

int main(int argc, char **argv)
{
    options o;
    if (options_parse(&o, argc, argv) != 0) {
        fputs(usage, stderr);
        return 2;
    }
    tutti_context *context = NULL;
    gpt_must(NULL, tutti_init(NULL, &context), "joining");
    run r;
    run_init(&r, &o, context);
    if (tutti_rank(context) == 0) {
        printf("%d worker%s, %zu parameters, %zu characters of text\n", tutti_size(context),
               tutti_size(context) == 1 ? "" : "s", gpt_trainer_parameter_count(r.trainer),
               r.text.count);
    }
    const int code = run_finish(&r, train(&r));
    run_fini(&r);
    gpt_must(NULL, tutti_shutdown(context), "leaving");
    return code;
}
