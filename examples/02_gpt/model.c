/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - the order of the layers, forward and backward, and the memory between them.
 *
 * Names: rows are the characters of the whole batch (batch * context), one after another.
 */
#include "model.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "random.h"

enum { LINE_FLOATS = 16 }; /* segments begin on cache lines */

/* Tensors in the order of memory; weight and bias, or gain and bias, are neighbours. */
enum { TOKEN, POSITION, EMBEDDING_TENSORS };
enum { NORM1, QKV = 2, MERGE = 4, NORM2 = 6, WIDEN = 8, NARROW = 10, BLOCK_TENSORS = 12 };
enum { LAST_NORM, HEAD = 2, HEAD_TENSORS = 4 };

/* What a block keeps from forward for backward. */
typedef struct block {
    gpt_norm norm1;
    gpt_matrix qkv; /* query, key and value side by side */
    float *chances; /* context x context for every sequence and head */
    gpt_matrix heads_out;
    gpt_matrix middle; /* after the attention's residual */
    gpt_norm norm2;
    gpt_matrix wide;
    gpt_matrix gate;
    gpt_matrix active;
    gpt_matrix out;
} block;

struct gpt_model {
    gpt_shape shape;
    float *parameters;
    float *gradients;
    gpt_tensor *tensors;
    size_t tensor_count;
    gpt_segment *segments;
    size_t segment_count;

    const uint8_t *tokens; /* of the last forward; borrowed until backward */
    size_t batch;
    float *arena; /* everything below points into it */
    gpt_matrix embedded;
    block *blocks;
    gpt_norm last_norm;
    gpt_matrix logits; /* becomes its own gradient in gpt_model_loss */

    gpt_matrix dx; /* gradients that flow down during backward */
    gpt_matrix dwidth;
    gpt_matrix dwide;
    gpt_matrix dqkv;
    gpt_matrix dchances;
};

/* ---- parameters ---------------------------------------------------------------------------- */

static size_t tensor_count_for(const gpt_shape *shape)
{
    return EMBEDDING_TENSORS + BLOCK_TENSORS * shape->layers + HEAD_TENSORS;
}

/* Fill `tensors` with names, shapes and starting values; offsets come later. */
static void tensors_describe(const gpt_shape *shape, gpt_tensor *tensors)
{
    const size_t d = shape->width;
    const float deep = 0.02f / sqrtf(2.0f * (float)shape->layers); /* many residuals add up */
    *tensors++ = (gpt_tensor){"token", 0, 0, shape->vocabulary, d, 0.1f};
    *tensors++ = (gpt_tensor){"position", 0, 0, shape->context, d, 0.1f};
    for (size_t layer = 1; layer <= shape->layers; layer++) {
        const gpt_tensor block_tensors[BLOCK_TENSORS] = {
            {"norm1.gain", layer, 0, 1, d, -1.0f},        {"norm1.bias", layer, 0, 1, d, 0.0f},
            {"qkv.weight", layer, 0, d, 3 * d, 0.125f},   {"qkv.bias", layer, 0, 1, 3 * d, 0.0f},
            {"merge.weight", layer, 0, d, d, deep},       {"merge.bias", layer, 0, 1, d, 0.0f},
            {"norm2.gain", layer, 0, 1, d, -1.0f},        {"norm2.bias", layer, 0, 1, d, 0.0f},
            {"widen.weight", layer, 0, d, 4 * d, 0.125f}, {"widen.bias", layer, 0, 1, 4 * d, 0.0f},
            {"narrow.weight", layer, 0, 4 * d, d, deep},  {"narrow.bias", layer, 0, 1, d, 0.0f},
        };
        memcpy(tensors, block_tensors, sizeof(block_tensors));
        tensors += BLOCK_TENSORS;
    }
    const size_t last = shape->layers + 1;
    *tensors++ = (gpt_tensor){"last_norm.gain", last, 0, 1, d, -1.0f};
    *tensors++ = (gpt_tensor){"last_norm.bias", last, 0, 1, d, 0.0f};
    *tensors++ = (gpt_tensor){"head.weight", last, 0, d, shape->vocabulary, 0.02f};
    *tensors++ = (gpt_tensor){"head.bias", last, 0, 1, shape->vocabulary, 0.0f};
}

/* Place the tensors one after another, segments on cache lines; returns the floats used. */
static size_t tensors_place(gpt_tensor *tensors, size_t tensor_count, gpt_segment *segments)
{
    size_t offset = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        gpt_segment *segment = &segments[tensors[i].segment];
        if (i == 0 || tensors[i].segment != tensors[i - 1].segment) {
            offset = (offset + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
            segment->offset = offset;
        }
        tensors[i].offset = offset;
        offset += tensors[i].rows * tensors[i].columns;
        segment->count = offset - segment->offset;
    }
    return offset;
}

size_t gpt_model_parameter_count(const gpt_shape *shape)
{
    size_t count = 0;
    gpt_tensor *tensors = calloc(tensor_count_for(shape), sizeof(*tensors));
    gpt_segment *segments = calloc(shape->layers + 2, sizeof(*segments));
    if (tensors != NULL && segments != NULL) {
        tensors_describe(shape, tensors);
        count = tensors_place(tensors, tensor_count_for(shape), segments);
    }
    free(segments);
    free(tensors);
    return count;
}

/* Sum of twelve even numbers: near enough to a normal distribution. */
static float random_normal(gpt_random *random)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += gpt_random_uniform(random);
    }
    return (float)sum;
}

void gpt_model_randomise(gpt_model *model, uint64_t seed)
{
    gpt_random random = {seed};
    for (size_t i = 0; i < model->tensor_count; i++) {
        const gpt_tensor *tensor = &model->tensors[i];
        float *values = model->parameters + tensor->offset;
        for (size_t j = 0; j < tensor->rows * tensor->columns; j++) {
            values[j] = tensor->initial < 0.0f ? -tensor->initial
                                               : tensor->initial * random_normal(&random);
        }
    }
}

static gpt_weights weights_of(const gpt_model *model, size_t tensor_index)
{
    const gpt_tensor *weight = &model->tensors[tensor_index];
    const gpt_tensor *bias = weight + 1;
    return (gpt_weights){
        gpt_matrix_view(model->parameters + weight->offset, weight->rows, weight->columns),
        model->parameters + bias->offset,
        gpt_matrix_view(model->gradients + weight->offset, weight->rows, weight->columns),
        model->gradients + bias->offset,
    };
}

static gpt_weights block_weights(const gpt_model *model, size_t layer, size_t tensor)
{
    return weights_of(model, EMBEDDING_TENSORS + BLOCK_TENSORS * layer + tensor);
}

static gpt_weights head_weights(const gpt_model *model, size_t tensor)
{
    return weights_of(model, EMBEDDING_TENSORS + BLOCK_TENSORS * model->shape.layers + tensor);
}

/* ---- activations --------------------------------------------------------------------------- */

/* Takes pieces from an arena; with no arena yet it only counts. */
typedef struct carver {
    float *arena;
    size_t used;
} carver;

static float *carve(carver *pieces, size_t count)
{
    float *piece = pieces->arena == NULL ? NULL : pieces->arena + pieces->used;
    pieces->used += (count + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return piece;
}

static gpt_matrix carve_matrix(carver *pieces, size_t rows, size_t columns)
{
    return gpt_matrix_view(carve(pieces, rows * columns), rows, columns);
}

static gpt_norm carve_norm(carver *pieces, size_t rows, size_t columns)
{
    gpt_norm norm = {.unit = carve_matrix(pieces, rows, columns)};
    norm.y = carve_matrix(pieces, rows, columns);
    norm.scale = carve(pieces, rows);
    return norm;
}

static void model_carve(gpt_model *model, carver *pieces)
{
    const gpt_shape *shape = &model->shape;
    const size_t rows = shape->batch * shape->context;
    const size_t d = shape->width;
    model->embedded = carve_matrix(pieces, rows, d);
    for (size_t layer = 0; layer < shape->layers; layer++) {
        block *b = &model->blocks[layer];
        b->norm1 = carve_norm(pieces, rows, d);
        b->qkv = carve_matrix(pieces, rows, 3 * d);
        b->chances = carve(pieces, shape->heads * rows * shape->context);
        b->heads_out = carve_matrix(pieces, rows, d);
        b->middle = carve_matrix(pieces, rows, d);
        b->norm2 = carve_norm(pieces, rows, d);
        b->wide = carve_matrix(pieces, rows, 4 * d);
        b->gate = carve_matrix(pieces, rows, 4 * d);
        b->active = carve_matrix(pieces, rows, 4 * d);
        b->out = carve_matrix(pieces, rows, d);
    }
    model->last_norm = carve_norm(pieces, rows, d);
    model->logits = carve_matrix(pieces, rows, shape->vocabulary);
    model->dx = carve_matrix(pieces, rows, d);
    model->dwidth = carve_matrix(pieces, rows, d);
    model->dwide = carve_matrix(pieces, rows, 4 * d);
    model->dqkv = carve_matrix(pieces, rows, 3 * d);
    model->dchances = carve_matrix(pieces, shape->context, shape->context);
}

static bool model_allocate(gpt_model *model)
{
    const gpt_shape *shape = &model->shape;
    model->tensor_count = tensor_count_for(shape);
    model->tensors = calloc(model->tensor_count, sizeof(*model->tensors));
    model->segment_count = shape->layers + 2;
    model->segments = calloc(model->segment_count, sizeof(*model->segments));
    model->blocks = calloc(shape->layers, sizeof(*model->blocks));
    if (model->tensors == NULL || model->segments == NULL || model->blocks == NULL) {
        return false;
    }
    carver counting = {0};
    model_carve(model, &counting);
    model->arena = aligned_alloc(LINE_FLOATS * sizeof(float), counting.used * sizeof(float));
    if (model->arena == NULL) {
        return false;
    }
    carver carving = {model->arena, 0};
    model_carve(model, &carving);
    tensors_describe(shape, model->tensors);
    tensors_place(model->tensors, model->tensor_count, model->segments);
    return true;
}

gpt_model *gpt_model_create(const gpt_shape *shape, float *parameters, float *gradients)
{
    assert(shape->width % shape->heads == 0);
    gpt_model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return NULL;
    }
    model->shape = *shape;
    model->parameters = parameters;
    model->gradients = gradients;
    if (!model_allocate(model)) {
        gpt_model_destroy(model);
        return NULL;
    }
    return model;
}

void gpt_model_destroy(gpt_model *model)
{
    if (model == NULL) {
        return;
    }
    free(model->arena);
    free(model->blocks);
    free(model->segments);
    free(model->tensors);
    free(model);
}

const gpt_tensor *gpt_model_tensors(const gpt_model *model, size_t *count_out)
{
    *count_out = model->tensor_count;
    return model->tensors;
}

const gpt_segment *gpt_model_segments(const gpt_model *model, size_t *count_out)
{
    *count_out = model->segment_count;
    return model->segments;
}

/* ---- forward ------------------------------------------------------------------------------- */

/* The first rows of `matrix`: those that the current batch fills. */
static gpt_matrix active_rows(const gpt_model *model, gpt_matrix matrix)
{
    matrix.rows = model->batch * model->shape.context;
    return matrix;
}

static gpt_norm active_norm(const gpt_model *model, gpt_norm norm)
{
    norm.unit = active_rows(model, norm.unit);
    norm.y = active_rows(model, norm.y);
    return norm;
}

/* sum = a + sum, element by element. */
static void residual_add(gpt_matrix sum, gpt_matrix a)
{
    const float *restrict source = a.data;
    float *restrict target = sum.data;
    for (size_t i = 0; i < sum.rows * sum.columns; i++) {
        target[i] += source[i];
    }
}

/* The views of head `index`, counted over all sequences, in `qkv` and `output`. */
static gpt_head head_view(const gpt_model *model, gpt_matrix qkv, gpt_matrix output, size_t index)
{
    const gpt_shape *shape = &model->shape;
    const size_t head_width = shape->width / shape->heads;
    const size_t row = index / shape->heads * shape->context;
    const size_t column = index % shape->heads * head_width;
    gpt_matrix part = {qkv.data + row * qkv.row_stride + column, shape->context, head_width,
                       qkv.row_stride, 1};
    gpt_head head = {.query = part, .key = part, .value = part, .output = part};
    head.key.data += shape->width;
    head.value.data += 2 * shape->width;
    head.output.data = output.data + row * output.row_stride + column;
    head.output.row_stride = output.row_stride;
    return head;
}

static gpt_matrix chances_view(const gpt_model *model, const block *b, size_t head_index)
{
    const size_t context = model->shape.context;
    return gpt_matrix_view(b->chances + head_index * context * context, context, context);
}

static void embed(gpt_model *model)
{
    const size_t d = model->shape.width;
    const float *token_table = model->parameters + model->tensors[TOKEN].offset;
    const float *position_table = model->parameters + model->tensors[POSITION].offset;
    for (size_t i = 0; i < model->batch * model->shape.context; i++) {
        const float *token = token_table + model->tokens[i] * d;
        const float *position = position_table + i % model->shape.context * d;
        float *row = model->embedded.data + i * d;
        for (size_t j = 0; j < d; j++) {
            row[j] = token[j] + position[j];
        }
    }
}

static gpt_matrix block_forward(gpt_model *model, size_t layer, gpt_matrix x)
{
    block *b = &model->blocks[layer];
    const gpt_weights norm1 = block_weights(model, layer, NORM1);
    const gpt_weights qkv = block_weights(model, layer, QKV);
    const gpt_weights merge = block_weights(model, layer, MERGE);
    const gpt_weights norm2 = block_weights(model, layer, NORM2);
    const gpt_weights widen = block_weights(model, layer, WIDEN);
    const gpt_weights narrow = block_weights(model, layer, NARROW);
    gpt_norm kept1 = active_norm(model, b->norm1);
    gpt_norm kept2 = active_norm(model, b->norm2);
    const gpt_matrix middle = active_rows(model, b->middle);
    const gpt_matrix wide = active_rows(model, b->wide);
    const gpt_matrix active = active_rows(model, b->active);
    const gpt_matrix out = active_rows(model, b->out);

    gpt_norm_forward(&norm1, &kept1, x);
    gpt_linear_forward(&qkv, kept1.y, active_rows(model, b->qkv));
    for (size_t i = 0; i < model->batch * model->shape.heads; i++) {
        const gpt_head head = head_view(model, b->qkv, b->heads_out, i);
        gpt_attention_forward(&head, chances_view(model, b, i));
    }
    gpt_linear_forward(&merge, active_rows(model, b->heads_out), middle);
    residual_add(middle, x);
    gpt_norm_forward(&norm2, &kept2, middle);
    gpt_linear_forward(&widen, kept2.y, wide);
    gpt_gelu_forward(wide, active_rows(model, b->gate), active);
    gpt_linear_forward(&narrow, active, out);
    residual_add(out, middle);
    return out;
}

const float *gpt_model_forward(gpt_model *model, const uint8_t *tokens, size_t batch)
{
    assert(batch >= 1 && batch <= model->shape.batch);
    model->tokens = tokens;
    model->batch = batch;
    embed(model);
    gpt_matrix x = active_rows(model, model->embedded);
    for (size_t layer = 0; layer < model->shape.layers; layer++) {
        x = block_forward(model, layer, x);
    }
    const gpt_weights norm = head_weights(model, LAST_NORM);
    const gpt_weights head = head_weights(model, HEAD);
    gpt_norm kept = active_norm(model, model->last_norm);
    gpt_norm_forward(&norm, &kept, x);
    gpt_linear_forward(&head, kept.y, active_rows(model, model->logits));
    return model->logits.data;
}

double gpt_model_loss(gpt_model *model, const uint8_t *targets)
{
    const size_t rows = model->batch * model->shape.context;
    const size_t vocabulary = model->shape.vocabulary;
    const float share = 1.0f / (float)rows;
    double loss = 0.0;
    for (size_t i = 0; i < rows; i++) {
        float *row = model->logits.data + i * vocabulary;
        float largest = row[0];
        for (size_t j = 1; j < vocabulary; j++) {
            largest = row[j] > largest ? row[j] : largest;
        }
        const float right = row[targets[i]] - largest;
        float sum = 0.0f;
        for (size_t j = 0; j < vocabulary; j++) {
            row[j] = expf(row[j] - largest);
            sum += row[j];
        }
        for (size_t j = 0; j < vocabulary; j++) {
            row[j] *= share / sum;
        }
        row[targets[i]] -= share;
        loss += log((double)sum) - (double)right;
    }
    return loss / (double)rows;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* dx holds the gradient of the block's output, and of its input x afterwards. */
static void block_backward(gpt_model *model, size_t layer, gpt_matrix dx)
{
    block *b = &model->blocks[layer];
    const gpt_weights norm1 = block_weights(model, layer, NORM1);
    const gpt_weights qkv = block_weights(model, layer, QKV);
    const gpt_weights merge = block_weights(model, layer, MERGE);
    const gpt_weights norm2 = block_weights(model, layer, NORM2);
    const gpt_weights widen = block_weights(model, layer, WIDEN);
    const gpt_weights narrow = block_weights(model, layer, NARROW);
    const gpt_norm kept1 = active_norm(model, b->norm1);
    const gpt_norm kept2 = active_norm(model, b->norm2);
    const gpt_matrix dwide = active_rows(model, model->dwide);
    const gpt_matrix dwidth = active_rows(model, model->dwidth);
    const gpt_matrix dqkv = active_rows(model, model->dqkv);

    gpt_linear_backward(&narrow, active_rows(model, b->active), dx, dwide);
    gpt_gelu_backward(active_rows(model, b->wide), active_rows(model, b->gate), dwide);
    gpt_linear_backward(&widen, kept2.y, dwide, dwidth);
    gpt_norm_backward(&norm2, &kept2, dwidth, dx);
    gpt_linear_backward(&merge, active_rows(model, b->heads_out), dx, dwidth);
    for (size_t i = 0; i < model->batch * model->shape.heads; i++) {
        const gpt_head head = head_view(model, b->qkv, b->heads_out, i);
        const gpt_head gradient = head_view(model, dqkv, dwidth, i);
        gpt_attention_backward(&head, &gradient, chances_view(model, b, i), model->dchances);
    }
    gpt_linear_backward(&qkv, kept1.y, dqkv, dwidth);
    gpt_norm_backward(&norm1, &kept1, dwidth, dx);
}

static void embed_backward(gpt_model *model, gpt_matrix dx)
{
    const size_t d = model->shape.width;
    float *token_table = model->gradients + model->tensors[TOKEN].offset;
    float *position_table = model->gradients + model->tensors[POSITION].offset;
    for (size_t i = 0; i < dx.rows; i++) {
        float *token = token_table + model->tokens[i] * d;
        float *position = position_table + i % model->shape.context * d;
        const float *row = dx.data + i * d;
        for (size_t j = 0; j < d; j++) {
            token[j] += row[j];
            position[j] += row[j];
        }
    }
}

static void segment_finished(size_t segment_index, gpt_segment_done *done, void *user)
{
    if (done != NULL) {
        done(user, segment_index);
    }
}

void gpt_model_backward(gpt_model *model, gpt_segment_done *done, void *user)
{
    const gpt_segment *last = &model->segments[model->segment_count - 1];
    memset(model->gradients, 0, (last->offset + last->count) * sizeof(float));

    const gpt_matrix dx = active_rows(model, model->dx);
    const gpt_matrix dwidth = active_rows(model, model->dwidth);
    const gpt_weights norm = head_weights(model, LAST_NORM);
    const gpt_weights head = head_weights(model, HEAD);
    const gpt_norm kept = active_norm(model, model->last_norm);
    gpt_linear_backward(&head, kept.y, active_rows(model, model->logits), dwidth);
    memset(dx.data, 0, dx.rows * dx.columns * sizeof(float));
    gpt_norm_backward(&norm, &kept, dwidth, dx);
    segment_finished(model->segment_count - 1, done, user);

    for (size_t layer = model->shape.layers; layer > 0; layer--) {
        block_backward(model, layer - 1, dx);
        segment_finished(layer, done, user);
    }
    embed_backward(model, dx);
    segment_finished(0, done, user);
}
